"""The pure part of transactions: events in, decisions out."""
