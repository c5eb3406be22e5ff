"""Runs one side's blocks of docs/migration; the peers' interpreters run this file, so it imports the standard library alone.

    python migration_side.py BLOCKS.json ROWS.json

BLOCKS is a list of blocks. ROWS gets, for each, its rows or, in a text, why there are none.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any


def rows_of(block: str) -> Any:
    """The rows that a block assigns, as JSON has them: tuples are lists."""
    names: dict[str, Any] = {"__name__": "block"}
    exec(compile(block, "block", "exec"), names)
    return json.loads(json.dumps(names["rows"]))


def main() -> None:
    blocks, out = (Path(argument) for argument in sys.argv[1:])
    surroundings = dict(os.environ)
    found: list[Any] = []
    for block in json.loads(blocks.read_text()):
        try:
            found.append(rows_of(block))
        except Exception as error:
            traceback.print_exc()
            found.append(f"{type(error).__name__}: {error}")
        os.environ.clear()
        os.environ.update(surroundings)  # a block may say which rank it is
        gc.collect()  # some peers' datasets lock their files as long as they live
    out.write_text(json.dumps(found))


if __name__ == "__main__":
    main()
