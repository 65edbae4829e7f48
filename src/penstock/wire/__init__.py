"""Bytes: framing, bounds, schemas and versions, batch views. Nothing here does IO."""
