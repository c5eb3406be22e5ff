"""Writes along.json: where boxes, points and masks go. Run it where a move changes on purpose: python tests/golden/make_along.py."""

import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from support.along import along_hashes  # noqa: E402

if __name__ == "__main__":
    (HERE / "along.json").write_text(json.dumps(along_hashes(), indent=1) + "\n")
