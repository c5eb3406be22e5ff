"""The examples of the documentation run."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import penstock.format as formats
from penstock.format import FORMATS
from support.docstring_examples import lay_out_files

ROOT = Path(__file__).parent.parent
#: test_migration.py runs docs/migration/*.md.
PAGES = ["README.md", *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").glob("*.md"))]


def blocks_of(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(), re.MULTILINE | re.DOTALL)


def marked(page: str) -> Any:
    trains = re.search(
        "import (accelerate|jax|keras|penstock.ray|penstock.tensorflow|pytorch_lightning)|from accelerate",
        "".join(blocks_of(page)),
    )
    if page in ("docs/keras.md", "docs/tensorflow.md"):  # much of which tests/deliver tries in make test
        return pytest.param(page, marks=pytest.mark.long)
    return pytest.param(page, marks=pytest.mark.trainers) if trains else page


@pytest.mark.filterwarnings("ignore::FutureWarning:pytorch_lightning")  # of its own use of PyTorch
@pytest.mark.parametrize("page", [marked(page) for page in PAGES if blocks_of(page)])
def test_examples_run(page: str, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay_out_files(tmp_path, photos)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(formats, "_registered", [])
    alone = re.search(
        "(?:import|from) (accelerate|jax|keras|penstock.ray|penstock.tensorflow|torch.distributed)",
        "".join(blocks_of(page)),
    )
    if alone:  # in a process of its own, since others fork, and loaders look at what is initialised
        library = alone[1].removeprefix("penstock.").partition(".")[0]
        if importlib.util.find_spec(library) is None:
            pytest.skip(f"{library} is not installed")
        subprocess.run([sys.executable, "-c", "\n".join(blocks_of(page))], check=True)
        return
    names: dict[str, object] = {}
    for block in blocks_of(page):
        exec(compile(block, page, "exec"), names)


def test_the_picture_of_entry_points_is_what_its_script_draws() -> None:
    script = [sys.executable, str(ROOT / "scripts" / "draw_jpeg_entry_points.py")]
    drawn = subprocess.run(script, capture_output=True, check=True, encoding="utf-8").stdout
    assert drawn == (ROOT / "docs" / "images" / "jpeg_entry_points.svg").read_text(encoding="utf-8")


def test_the_table_of_formats_is_the_registry() -> None:
    text = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
    script = [sys.executable, str(ROOT / "scripts" / "formats_table.py")]
    assert subprocess.run(script, capture_output=True, check=True, encoding="utf-8").stdout in text


def test_every_format_is_explained() -> None:
    headings = set(re.findall(r"^## (.+)$", (ROOT / "docs" / "formats.md").read_text(encoding="utf-8"), re.MULTILINE))
    for format in FORMATS:
        assert format.name in headings
        assert format.access, format.name
        assert format.detects, format.name
