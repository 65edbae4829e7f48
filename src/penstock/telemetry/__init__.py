"""What a node tells of itself: metrics and structured logs. It knows no other part; parts report to it."""
