"""When this process began to load the package: a source that has changed since need not be what runs."""

from __future__ import annotations

import time

SINCE_S = time.time()
"""In seconds since the epoch."""
