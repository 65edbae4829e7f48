"""The one seam to files: everything durable goes through a `Disk`, so tests can make it fail."""
