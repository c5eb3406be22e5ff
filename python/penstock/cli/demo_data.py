"""The demo's folder of images: built once from a recipe, found again by the next run."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path

from penstock.cli.console import Report
from penstock.cli.demo_drawings import Drawings
from penstock.cli.demo_photographs import Photographs
from penstock.core.errors import SourceError

_RECIPE_FILE = "recipe.json"

#: What is built; the same recipe gives the same images.
Recipe = Photographs | Drawings


def build(folder: Path, recipe: Recipe, report: Report) -> bool:
    """Make folder/train and folder/validation with a folder for every class; False if they exist already.

    Raises SourceError if the folder holds something else. An interrupted build leaves nothing behind.
    """
    wanted = json.dumps(asdict(recipe))
    if (folder / _RECIPE_FILE).is_file() and json.loads((folder / _RECIPE_FILE).read_text()) == json.loads(wanted):
        return False
    if folder.exists() and any(folder.iterdir()):
        raise SourceError(f"{folder}: holds something other than this demo's images; choose another --dir or empty it")
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        recipe.write(unfinished, report)
        (unfinished / _RECIPE_FILE).write_text(wanted)
        unfinished.replace(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    return True


def default_folder(recipe: Recipe) -> Path:
    """A folder for the recipe in the user's cache directory."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    digest = hashlib.blake2b(json.dumps(asdict(recipe)).encode(), digest_size=4).hexdigest()
    return cache / "penstock" / f"demo-{digest}"
