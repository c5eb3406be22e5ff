"""The file of tokens that all sides of the workload "tokens" read, made when it is first needed."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from work import TOKENS, Data


def token_file(data: Data) -> Path:
    """TOKENS numbers below 50,257 as uint16, without a header."""
    path = data.place("tokens", "train.bin")
    if not path.exists():
        scratch = path.with_suffix(".tmp")
        np.random.default_rng(0).integers(0, 50_257, TOKENS, dtype=np.uint16).tofile(scratch)
        scratch.rename(path)
    return path
