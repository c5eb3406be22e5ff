"""What a fork finds in the native code."""

from __future__ import annotations

import subprocess
import sys

SET_UP = "import numpy as np; import penstock.core.kernels; np._core.multiarray._RUST_NUMPY_BORROW_CHECKING_API"


def test_the_import_sets_up_numpy_for_the_kernels() -> None:
    """Set up by a thread's first call, it would never be set up in a child that is forked at that moment: the child would hang.

    `storage/test_cache_processes.py` forks in the midst of reading.
    """
    subprocess.run([sys.executable, "-c", SET_UP], check=True)
