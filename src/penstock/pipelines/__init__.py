"""The Spark jobs: data leaves the queue, comes back and is accounted for, exactly once."""
