"""The pure part of consumer groups: events in, decisions out."""
