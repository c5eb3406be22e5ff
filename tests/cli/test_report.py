"""`penstock report` on files that observe="jsonl:FILE" wrote, whole, cut, empty and foreign."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.observe.run_file import run_line
from penstock.observe.snapshot import Snapshot
from support.cli_runner import invoke
from support.runs import a_run


def written(path: Path, snapshots: Iterable[Snapshot]) -> str:
    path.write_bytes(b"".join(map(run_line, snapshots)))
    return str(path)


@pytest.fixture
def run(tmp_path: Path) -> str:
    return written(tmp_path / "run.jsonl", a_run(40))


def complaint(*arguments: str) -> str:
    found = invoke("report", *arguments)
    assert found.exit_code == 1
    assert found.stdout == ""
    return str(found.stderr).replace("\n", "")


def test_a_run_in_the_terminal(run: str) -> None:
    shown = invoke("report", run).stdout
    for words in (
        "train-*.tfrecord",
        "rank 0 of 4",
        "20 s, 20,000 samples, 40 snapshots",
        "The bottleneck is the stage 'transform'",
        "map look_up",
        "rank 2",
        "Decode(size=256) (up to 42% more)",
    ):
        assert words in shown, words


def test_a_page_and_figures(run: str, tmp_path: Path) -> None:
    page = tmp_path / "run.html"
    assert f"wrote {page}" in invoke("report", run, "-o", str(page)).stdout.replace("\n", "")
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    facts = json.loads(invoke("report", run, "--json").stdout)
    assert facts["loaders"][0]["samples"] == 20_000
    assert facts["loaders"][0]["last"]["stages"][1]["name"] == "transform"


def test_two_runs(run: str, tmp_path: Path) -> None:
    other = written(tmp_path / "other.jsonl", a_run(40, rate=1500.0))
    shown = invoke("report", run, other).stdout
    assert "other.jsonl is 1.5 times as fast as run.jsonl" in shown
    assert "1.5 times as fast" in shown
    facts = json.loads(invoke("report", run, other, "--json").stdout)
    assert facts["differences"][0].startswith("other.jsonl is 1.5 times")
    assert [one["file"] for one in facts["runs"]] == ["run.jsonl", "other.jsonl"]
    page = tmp_path / "both.html"
    invoke("report", run, other, "-o", str(page))
    assert "What is different" in page.read_text(encoding="utf-8")


def test_a_run_that_was_killed_in_mid_line(run: str) -> None:
    whole = Path(run).read_bytes()
    Path(run).write_bytes(whole[:-500])
    assert json.loads(invoke("report", run, "--json").stdout)["loaders"][0]["snapshots"] == 39


def test_what_is_no_run_is_said(run: str, tmp_path: Path) -> None:
    whole = Path(run).read_bytes()
    lines = whole.splitlines(keepends=True)
    for content, words in (
        (b"", "holds no snapshot"),
        (b"step,loss\n1,2\n", "line 1"),
        (lines[0] + b"{}\n" + lines[1], "line 2"),
        (lines[0].replace(b'"penstock_run": 1', b'"penstock_run": 9') + lines[1], "another version"),
        (lines[0].replace(b'"samples": 500', b'"samples": "500"'), "snapshot 1: samples is no number"),
        (b"\x00" * 4096 + b"\n", "line 1"),
    ):
        Path(run).write_bytes(content)
        said = complaint(run)
        assert words in said, said
        assert "run.jsonl" in said
    assert "no run file is there" in complaint(str(tmp_path / "none.jsonl"))
    assert "Is a directory" in complaint(str(tmp_path)) or "no run file" in complaint(str(tmp_path))


@pytest.mark.long
@pytest.mark.parametrize(
    "environment", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}]
)
def test_an_output_in_ascii(run: str, tmp_path: Path, environment: dict[str, str]) -> None:
    """Our own signs are written out, and nothing raises, neither here nor in a script that prints."""
    other = written(tmp_path / "données.jsonl", [replace(one, verdict="5 µs → Loader(…), données") for one in a_run(3)])
    script = f"""
import numpy as np, penstock as ps
with ps.Loader(ps.from_arrays({{"x": np.arange(64)}}).batch(4)) as loader:
    headspace = loader.headspace(steps=2)
    for _ in headspace: pass
    print(headspace, loader.report(), loader.report(html={str(tmp_path / "a.html")!r}), sep="\\n")
"""
    commands = [["-m", "penstock", "report", run], ["-m", "penstock", "report", run, other], ["-m", "penstock", "report", other], ["-m", "penstock", "report", other, "--json"], ["-m", "penstock", "top"], ["-m", "penstock", "top", "--json"], ["-m", "penstock", "report", "--help"], ["-m", "penstock", "top", "--help"], ["-c", script]]  # fmt: skip
    told = {**os.environ, "PENSTOCK_OBSERVE_DIR": str(tmp_path), **environment}
    shown = []
    for command in commands:
        ended = subprocess.run([sys.executable, *command], capture_output=True, env=told, check=False)
        assert (ended.returncode, ended.stderr) == (0, b""), command
        shown.append(ended.stdout.decode("ascii"))
    assert "5 us -> Loader(...), donn?es" in shown[2]
    assert json.loads(shown[3])["loaders"][0]["last"]["verdict"] == "5 µs → Loader(…), données"


def test_no_file_that_is_read_is_written_over(run: str, tmp_path: Path) -> None:
    other = written(tmp_path / "other.jsonl", a_run(3))
    (tmp_path / "link.html").symlink_to(run)
    before = Path(run).read_bytes()
    for output in (run, str(tmp_path / "link.html"), other):
        assert "this file is read, and would be written over" in complaint(run, other, "-o", output)
    found = invoke("trace", "merge", run, other, "-o", other)
    assert "this file is read, and would be written over" in found.stderr.replace("\n", "")
    assert Path(run).read_bytes() == before
    assert Path(other).stat().st_size


def test_where_the_page_cannot_be_written(run: str, tmp_path: Path) -> None:
    assert "name a file that can be written" in complaint(run, "-o", str(tmp_path / "none" / "run.html"))


def test_clocks_that_jump_and_loaders_that_share_a_file(tmp_path: Path) -> None:
    one = [replace(each, at=each.at + 7200 * (place > 20)) for place, each in enumerate(a_run(40))]
    other = [replace(each, loader=replace(each.loader, number=2, name="validation")) for each in a_run(10)]
    shown = invoke("report", written(tmp_path / "run.jsonl", [*one, *other])).stdout.replace("\n", " ")
    assert "7,200 s ahead of the loader's own time" in shown
    assert "validation; rank 0 of 4" in shown


def test_figures_that_another_version_wrote_or_did_not_write(tmp_path: Path) -> None:
    odd = [json.loads(run_line(one)) for one in a_run(2)]
    for one in odd:
        one |= {"memory": {"budget_bytes": 5_000_000, "later": 1}, "decoders": {"avif": 3}, "tuning": {}, "ray": {}}
        del one["storage"]["cache_damaged"]
    path = tmp_path / "odd.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in odd))
    shown = invoke("report", str(path)).stdout
    assert "memory: 0.0 MB held, at most 0.0 MB, of 5.0 MB" in shown
    assert "images decoded: 3 avif" in shown
