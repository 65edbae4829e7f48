"""For all tests."""

from __future__ import annotations

import signal

# Whoever runs the tests in the background may have made them ignore Ctrl-C; the commands that they start would inherit
# that, and never end by it.
signal.signal(signal.SIGINT, signal.default_int_handler)
