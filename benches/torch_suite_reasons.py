"""Why tests of PyTorch's that pass with its own DataLoader do not pass with ours: torch_suite.py looks here."""

from __future__ import annotations

#: By test.
REASONS: dict[str, str] = {}
