"""What `observe=` may name, and what is said where it cannot be."""

from __future__ import annotations

import importlib.metadata
import os
import re
import socket
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import penstock.observe.exporters.opening as opening
from penstock.core.errors import PlanError
from penstock.observe.exporters.opening import EXPORTERS, open_exporter
from penstock.observe.run_file import each_snapshot
from support.snapshots import a_snapshot


class Kept:
    """An exporter of another package."""

    def __init__(self, target: str) -> None:
        self.target = target

    def write(self, snapshot: object, events: object) -> None:
        pass

    def close(self) -> None:
        pass


class NoExporter:
    def __init__(self, target: str) -> None:
        pass


def fails(target: str) -> Kept:
    raise RuntimeError("no licence")


def offered(monkeypatch: pytest.MonkeyPatch, **named: str) -> None:
    found = [EntryPoint(name, f"{__name__}:{value}", opening.GROUP) for name, value in named.items()]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: found if group == opening.GROUP else [])
    monkeypatch.setattr(EntryPoint, "load", lambda self: globals()[self.attr])


@pytest.mark.parametrize("text", ["", " ", None, 9464])
def test_what_names_nothing(text: object) -> None:
    with pytest.raises(PlanError, match=r"name an exporter, as in 'prometheus:9464'"):
        open_exporter(text)  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["jsonl:{0}/a.jsonl,trace:t.json", "trace:{0}/t.json, nvtx", "emf:-,jsonl:b,c:d"])
def test_what_names_several(text: str, tmp_path: Path) -> None:
    """As PENSTOCK_OBSERVE does; a file of that name would be no help."""
    with pytest.raises(PlanError, match=r"is another exporter; write each as a text of its own"):
        open_exporter(text.format(tmp_path))
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("word", ["{local_rank}", "{ranks}"])
def test_a_word_that_stands_for_nothing(word: str, tmp_path: Path) -> None:
    """All ranks would write the same file."""
    with pytest.raises(
        PlanError, match=rf"jsonl': {word} stands for nothing; there are {{rank}}, {{pid}} and {{host}}"
    ):
        open_exporter(f"jsonl:{tmp_path}/{word}.jsonl")
    assert not [*tmp_path.iterdir()]


def test_an_unknown_name_lists_the_others() -> None:
    with pytest.raises(
        PlanError, match=r"no exporter 'promethius'; there are emf, jsonl, .*xprof; did you mean 'prometheus'\?"
    ):
        open_exporter("promethius:9464")


def test_a_password_in_what_was_meant_as_a_target_is_not_repeated() -> None:
    with pytest.raises(PlanError) as raised:
        open_exporter("https://me:hunter22@host/push?token=abc")
    assert "hunter22" not in str(raised.value)
    assert "abc" not in str(raised.value)


@pytest.mark.parametrize("name", ["emf", "jsonl", "tensorboard", "trace", "xprof"])
def test_files_need_a_target_on_this_machine(name: str) -> None:
    with pytest.raises(PlanError, match="it needs a target; write"):
        open_exporter(name)
    with pytest.raises(PlanError, match="not to URLs"):
        open_exporter(f"{name}:s3://bucket/run")


@pytest.mark.parametrize("name", ["emf", "jsonl", "prometheus", "tensorboard", "trace", "xprof"])
def test_a_place_that_cannot_be_written_is_said_at_once(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(PlanError, match=r"file/x.*(Not a directory|File exists); name a place"):
        open_exporter(f"{name}:{tmp_path}/file/x{'.prom' if name == 'prometheus' else ''}")


@pytest.mark.parametrize("name", ["emf", "jsonl", "trace"])
def test_a_pipe_is_never_waited_for(name: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(PlanError, match="it is a named pipe"):
        open_exporter(f"{name}:{tmp_path}/pipe")


def test_each_of_ours_is_there() -> None:
    folder = Path(opening.__file__).parent
    for name, function in EXPORTERS.items():
        assert f"def {function}(target: str)" in (folder / f"{name}.py").read_text()


def test_a_target_knows_its_process(tmp_path: Path) -> None:
    exporter = open_exporter(f"jsonl:{tmp_path}/{{host}}-{{rank}}-{{pid}}.jsonl", rank=3)
    exporter.write(a_snapshot(), [])
    exporter.close()
    assert len([*each_snapshot(tmp_path / f"{socket.gethostname()}-3-{os.getpid()}.jsonl")]) == 1


def test_another_package_offers_one(monkeypatch: pytest.MonkeyPatch) -> None:
    offered(monkeypatch, kept="Kept")
    found = open_exporter("kept:some/where:9")
    assert isinstance(found, Kept)
    assert found.target == "some/where:9"
    with pytest.raises(PlanError, match=r"there are emf, .*kept.*; did you mean 'kept'"):
        open_exporter("keptt")


def test_another_package_that_offers_none(monkeypatch: pytest.MonkeyPatch) -> None:
    offered(monkeypatch, none="NoExporter", broken="fails", gone="nothing")
    with pytest.raises(
        PlanError, match=re.escape("NoExporter has no write(); an exporter has write(snapshot, events) and close()")
    ):
        open_exporter("none")
    with pytest.raises(PlanError, match="RuntimeError: no licence"):
        open_exporter("broken")
    with pytest.raises(PlanError, match="cannot be imported"):
        open_exporter("gone")


def test_ours_come_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No package takes the place of an exporter that we document."""
    offered(monkeypatch, jsonl="Kept")
    exporter = open_exporter(f"jsonl:{tmp_path}/a.jsonl")
    assert not isinstance(exporter, Kept)
    exporter.close()
