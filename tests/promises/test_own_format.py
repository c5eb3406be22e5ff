"""A format of the user's own: one file with a `Format` in it, and one row that registers it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
import penstock.format as formats
from penstock.source.protocol import Format
from support import promises as contracts

PAGE = Path(__file__).parent.parent.parent / "docs" / "own_format.md"


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Format:
    """The format of the documentation, from its text, with its file `north.temp` in the current folder."""
    monkeypatch.setattr(formats, "_registered", [])
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    for block in blocks[:2]:
        exec(compile(block, str(PAGE), "exec"), names)
    return names["TEMPERATURES"]  # type: ignore[no-any-return]


def test_one_row_is_all_that_it_takes(toy: Format) -> None:
    with pytest.raises(ps.SourceError, match=r"begins with 54 45 4d 50.*which no format claims"):
        ps.read("north.temp")
    ps.register_format(toy)
    dataset = ps.read("north.temp")
    assert dataset.source.manifest.format == "temperatures"
    contracts.resume_is_exact(dataset.shuffle(seed=1, block_rows=7).batch(16))
    contracts.ranks_make_one_batch(dataset.shuffle(seed=1, block_rows=7).batch(16))
    assert len(ps.read("north.temp", format="temperatures")) == 100
    Path("north.data").write_bytes(Path("north.temp").read_bytes())
    assert ps.read("north.data").source.manifest.format == "temperatures", "by its first bytes"


def test_its_errors_name_the_place(toy: Format) -> None:
    data = bytearray(Path("north.temp").read_bytes())
    data[8 + 12 * 42 + 8 : 8 + 12 * 43] = np.float32(-300).tobytes()
    Path("bad.temp").write_bytes(data)
    with pytest.raises(ps.DataError, match=r"bad\.temp, record 42, byte 512: -300\.0 degrees; measure again"):
        list(ps.Loader(ps.read("bad.temp", format=toy).batch(10)))
    Path("cut.temp").write_bytes(data[:-1])
    with pytest.raises(ps.DataError, match=r"cut\.temp: 1,207 bytes are no head and 100 records; copy it again"):
        ps.read("cut.temp", format=toy)


def test_names_and_options_are_checked(toy: Format) -> None:
    with pytest.raises(ps.PlanError, match="'tfrecord' is a built-in format; choose another name"):
        ps.register_format(replace(toy, name="tfrecord"))
    with pytest.raises(ps.PlanError, match="temperatures has no option unit; its options: none"):
        ps.read("north.temp", format=toy, unit="kelvin")
    ps.register_format(toy)
    ps.register_format(replace(toy, suffixes=(".t",)))
    assert [format.suffixes for format in formats.known_formats() if format.name == "temperatures"] == [(".t",)]
