"""Braces in paths, against what bash makes of them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import penstock as ps
from penstock.core.errors import SourceError
from penstock.storage.braces import expand_braces
from support import tars

PATTERNS = [
    "plain",
    "a{0..3}.tar",
    "train-{000..012}.tar",
    "{08..11}-{a,b}",
    "{5..1..2}x",
    "{-2..2}",
    "{a,b{1..3},}z",
    "{{00..02},{10..11}}.tar",
    "{x}",
    "{}",
    "{a..",
    "a}b{",
    "{a,{b}}",
]


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not there to compare with")
def test_as_bash_does() -> None:
    for pattern in PATTERNS:
        shell = subprocess.run(["bash", "-c", f"printf '%s\\n' {pattern}"], capture_output=True, check=True, text=True)
        assert expand_braces(pattern) == shell.stdout.split("\n")[:-1], pattern


def test_hostile_patterns() -> None:
    for pattern in ("{0..99999999999}", "{1..1000}" * 3, "{0..9}" * 30):
        with pytest.raises(SourceError, match="more than 1,000,000 paths; use a glob"):
            expand_braces(pattern)


@pytest.mark.slow
def test_a_million_braces_take_no_time() -> None:
    for literal in ("{" * 1_000_000, "}" * 1_000_000, "{" + "a" * 1_000_000):
        assert expand_braces(literal) == [literal]
    assert expand_braces("{}" * 10_000) == ["{}" * 10_000]
    for pattern in (
        "{a,b}" * 100_000,
        "{" * 100_000 + "}" * 100_000,
        "{a," * 3_000 + "}" * 3_000,
        "{1.." + "9" * 5_000 + "}",
    ):
        with pytest.raises(SourceError, match=r"more than 1,000,000 paths|nested deeper than 64"):
            expand_braces(pattern)


def test_shards_are_counted_and_none_is_missing(tmp_path: Path) -> None:
    for number in (9, 10, 11, 12):
        tars.write(tmp_path / f"train-{number:03d}.tar", [(f"{number}.cls", b"%d" % number)])
    dataset = ps.read(f"{tmp_path}/train-{{009..011}}.tar")
    assert [path[-13:] for path in dataset.source.manifest.shards.paths.to_pylist()] == [
        f"train-{number:03d}.tar" for number in (9, 10, 11)
    ]
    with pytest.raises(SourceError, match=r"train-013\.tar: no such file"):
        ps.read(f"{tmp_path}/train-{{009..013}}.tar")
    (tmp_path / "{1,2}.tar").write_bytes((tmp_path / "train-009.tar").read_bytes())
    assert len(ps.read(f"{tmp_path}/{{1,2}}.tar")) == 1
