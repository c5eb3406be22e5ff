"""The packages that pyproject.toml names, one a line: python scripts/requirements.py dev demo."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
extras = [package for extra in sys.argv[1:] for package in project["optional-dependencies"][extra]]
print("\n".join([*project["dependencies"], *extras]))
