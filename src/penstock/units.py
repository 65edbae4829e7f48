"""Sizes and durations by name, so that no bare number needs a comment."""

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

SECOND_MS = 1000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
