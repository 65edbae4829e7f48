"""Pure parts of replication."""
