"""The pure parts of the command line: what is read and shown."""
