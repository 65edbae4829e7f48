"""The log's decisions: pure, so that they are tested without a disk."""
