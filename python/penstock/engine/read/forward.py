"""Sources that come in one order: blocks are loaded one after another, each once."""

from __future__ import annotations

from penstock.core.rows import Rows
from penstock.core.spec import Ids
from penstock.engine.read.blocks import Blocks


class Forward(Blocks):
    """See `reader.Reader`."""

    def load(self, first: Ids, end: Ids) -> list[Rows]:
        """The blocks that begin and end at these samples."""
        return [self.load_one(*span) for span in zip(first.tolist(), (end - first).tolist(), strict=True)]
