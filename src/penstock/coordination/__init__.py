"""Metadata that must not be lost: versioned nodes changed by compare-and-swap, behind one small interface."""
