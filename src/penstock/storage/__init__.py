"""One partition's log on one disk: segments, indexes, recovery, retention, producer state."""
