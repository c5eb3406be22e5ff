"""How hard the tests try: `PENSTOCK_TRIES`, in thousandths of the full size.

It scales random examples, flipped bits, cuts and rounds of stress. 100 if nothing is set (`make test`), 10 in `make quick`, 1000 in `make test-long`.
"""

from __future__ import annotations

import os

TRIES = int(os.environ.get("PENSTOCK_TRIES", "100"))


def tries(full: int, *, at_least: int = 5) -> int:
    """How often to try what a long run tries `full` times; by default tries(1_500) == 150 and tries(30) == 5."""
    return max(min(full, at_least), full * TRIES // 1_000)
