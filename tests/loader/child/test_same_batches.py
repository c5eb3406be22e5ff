"""A loader whose pipeline runs in a child gives the batches, states and errors of one without."""

from __future__ import annotations

import json
import logging
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from support.ledgers import report_of
from support.seams import child_of

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.slow

ROWS = 600
Make = Callable[..., ps.Loader[Any]]


@pytest.fixture
def isolated() -> Iterator[Make]:
    """Makes loaders in isolation, which are closed afterwards."""
    made = list[ps.Loader[Any]]()

    def make(dataset: ps.Dataset, **options: Any) -> ps.Loader[Any]:
        made.append(ps.Loader(dataset, isolation="process", **options))
        return made[-1]

    yield make
    for loader in made:
        loader.close()


def rows() -> ps.Dataset:
    """Columns of every kind, small ones and large ones."""
    rng = np.random.default_rng(0)
    return ps.from_arrays(
        {
            "x": np.arange(ROWS),
            "flag": np.arange(ROWS) % 3 == 0,
            "brain": rng.random((ROWS, 3)).astype(ml_dtypes.bfloat16),
            "image": rng.integers(0, 255, (ROWS, 30, 25, 3), dtype=np.uint8),
            "text": pa.array([f"row {number} ☃" * (number % 90) for number in range(ROWS)]),
            "bytes": pa.array([bytes([number % 256]) * number for number in range(ROWS)], pa.large_binary()),
            "ragged": pa.array([list(range(number % 70)) for number in range(ROWS)], pa.large_list(pa.int32())),
        }
    ).shuffle(seed=5)


def plain(batch: Any) -> dict[str, Any]:
    return {
        name: column.to_pylist()
        if isinstance(column, pa.Array)
        else (str(column.dtype), tuple(column.shape), _bytes(column))
        for name, column in batch.items()
    }


def _bytes(column: Any) -> bytes:
    if isinstance(column, torch.Tensor):
        return column.view(torch.uint8).numpy().tobytes()
    return column.tobytes()


def same(one: ps.Loader[Any], other: ps.Loader[Any], passes: int = 1) -> None:
    for _ in range(passes):
        for expected, found in zip(one, other, strict=True):
            assert plain(found) == plain(expected)
            assert position(other) == position(one)


def position(loader: ps.Loader[Any]) -> dict[str, Any]:
    """The state but for how lanes were fed, which depends on time."""
    return {name: value for name, value in loader.state_dict().items() if name != "lanes"}


def numbers() -> ps.Dataset:
    return ps.from_arrays({"x": np.arange(1000)}).shuffle(seed=1).batch(50)


def test_columns_of_every_kind(isolated: Make) -> None:
    def change(batch: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
        return {
            **batch,
            "drawn": rng.normal(size=len(batch["x"])),
            "mirrored": batch["image"][:, :, ::-1],
            "same": batch["image"],
            "none": np.zeros((len(batch["x"]), 0)),
            "words": [str(number) for number in batch["x"]],
        }

    data = rows().map(change).batch(128)
    loader = isolated(data)
    same(ps.Loader(data), loader, passes=3)
    assert repr(loader) == repr(ps.Loader(data)).replace("epoch 0", "epoch 3")
    assert (len(loader), loader.batch_size) == (5, 128)
    assert plain(loader.batch_at(0, 2)) == plain(ps.Loader(data).batch_at(0, 2))
    assert loader.sample_ids(4, 1).tolist() == ps.Loader(data).sample_ids(4, 1).tolist()
    assert loader.stats()["samples"] >= 3 * ROWS
    assert "map" in loader.report()


def test_torch_gets_tensors_of_shared_memory(isolated: Make) -> None:
    data = rows().batch(200)
    loader = isolated(data, to="torch")
    same(ps.Loader(data, to="torch"), loader)
    batch = next(iter(loader))
    assert any("memfd:penstock" in line for line in mappings_of(batch["image"].data_ptr()))
    batch["image"] += 1  # it is the consumer's own


def mappings_of(address: int) -> list[str]:
    lines = Path("/proc/self/maps").read_text().splitlines()
    return [line for line in lines if int(line.split("-")[0], 16) <= address < int(line.split()[0].split("-")[1], 16)]


@pytest.mark.parametrize("structure", ["tuple", "namedtuple"])
def test_structures(isolated: Make, structure: Any) -> None:
    expected = next(iter(ps.Loader(numbers(), structure=structure)))
    found = next(iter(isolated(numbers(), structure=structure)))
    assert type(found) is type(expected)
    assert found[0].tolist() == expected[0].tolist()


@dataclass
class Row:
    """A user's batch."""

    x: Any


def test_states_come_and_go(isolated: Make) -> None:
    here, there = ps.Loader(numbers(), structure=Row), isolated(numbers(), structure=Row)
    for one, other in ((here, there), (there, here)):
        for step, _ in enumerate(one):
            if step == 7:
                break
        state = json.loads(json.dumps(one.state_dict()))
        other.load_state_dict(state)
        assert other.state_dict() == state
        one.load_state_dict(state)
        assert [batch.x.tolist() for batch in one] == [batch.x.tolist() for batch in other]
    there.set_epoch(9)
    here.set_epoch(9)
    assert next(iter(there)).x.tolist() == next(iter(here)).x.tolist()
    assert (there.epoch, there.step) == (9, 1)


def test_passes_that_are_broken_off_and_given_epochs(isolated: Make) -> None:
    here, there = ps.Loader(numbers(), epochs=2), isolated(numbers(), epochs=2)
    for taken in (3, 99, 99, 1, 99):  # more passes than were said
        found = [
            [batch["x"].tolist() for batch, _ in zip(loader, range(taken), strict=False)] for loader in (here, there)
        ]
        assert found[0] == found[1]
        assert here.state_dict() == there.state_dict()
    first = iter(there)
    next(first)
    second = iter(there)
    next(second)
    with pytest.raises(ps.ProcessError, match="another iteration"):
        next(first)


def test_lanes_go_on_where_they_stood(isolated: Make) -> None:
    data = (
        ps.from_arrays({"x": np.arange(2000)})
        .shuffle(seed=3)
        .filter(lambda batch: batch["x"] % 3 > 0)
        .batch(20, steps=30)
    )
    here, there = ps.Loader(data), isolated(data)
    same(here, there)
    for loader in (here, there):
        for step, _ in enumerate(loader):
            if step == 11:
                break
    states = there.state_dict(), here.state_dict()
    same(here, there)
    for state in states:
        there.load_state_dict(state)
        here.load_state_dict(state)
        same(here, there)
    kill(there)
    with suppress(ps.ProcessError):  # or what was sent before is enough for the pass
        list(there)
    here.load_state_dict(there.state_dict())  # which knows where lanes stood nevertheless
    there.load_state_dict(there.state_dict())
    same(here, there)


def kill(loader: Any) -> None:
    process = child_of(loader)._process
    process.kill()
    assert process.ends_within(60.0)  # a process that is about to end still counts as running


def test_weights_that_are_set(isolated: Make) -> None:
    one, other = (ps.from_arrays({"x": np.arange(first, first + 500)}) for first in (0, 1000))
    data = ps.mix([one, other], weights=[0.5, 0.5], rows=500).batch(50)
    here, there = ps.Loader(data), isolated(data)
    for step, batches in enumerate(zip(here, there, strict=True)):
        if step == 3:
            here.set_weights([0.9, 0.1])
            there.set_weights([0.9, 0.1])
        assert batches[0]["x"].tolist() == batches[1]["x"].tolist()
    assert here.state_dict() == there.state_dict()


def test_ranks_and_the_ledger(isolated: Make, tmp_path: Path) -> None:
    for rank in range(2):
        expected = [batch["x"].tolist() for batch in ps.Loader(numbers(), rank=rank, world_size=2)]
        loader = isolated(numbers(), rank=rank, world_size=2, ledger=tmp_path)
        assert [batch["x"].tolist() for batch in loader] == expected
        loader.close()
    report = report_of(tmp_path)
    assert not report.wrong


def test_ranks_that_come_after_the_loader(isolated: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    loader = isolated(numbers())
    next(iter(loader))
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    loader.set_epoch(0)
    assert [b["x"].tolist() for b in loader] == [b["x"].tolist() for b in ps.Loader(numbers(), rank=1, world_size=2)]


def test_bad_samples(isolated: Make, tmp_path: Path) -> None:
    def picky(row: dict[str, Any]) -> dict[str, Any]:
        if row["x"] % 100 == 7:
            raise ps.DataError("is a seven")
        return row

    data = ps.from_arrays({"x": np.arange(400)}).map_rows(picky).batch(40)
    for on_error in ("substitute", "skip"):
        lists = tmp_path / on_error, tmp_path / f"{on_error} here"
        loader = isolated(data, on_error=on_error, quarantine=lists[0])
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            found = [batch["x"].tolist() for batch in loader]
            assert found == [batch["x"].tolist() for batch in ps.Loader(data, on_error=on_error, quarantine=lists[1])]
        assert len([one for one in told if "is a seven" in str(one.message)]) == 2
        assert loader.stats()["errors"]["samples"] == 4
        assert len(lists[0].read_text().splitlines()) == 4
    with pytest.raises(ps.DataError, match="more than max_errors=2"), warnings.catch_warnings():  # noqa: PT012
        warnings.simplefilter("ignore")
        list(isolated(data, on_error="skip", max_errors=2))


class OwnError(Exception):
    """A script's own."""


def test_errors_arrive_as_they_were_raised(isolated: Make) -> None:
    def fail(batch: dict[str, Any]) -> dict[str, Any]:
        if 500 in batch["x"]:
            raise OwnError("mine", 3)
        return batch

    data = ps.from_arrays({"x": np.arange(1000)}).map(fail).batch(50)
    loader = isolated(data)
    taken = list[Any]()
    with pytest.raises(OwnError) as caught:  # noqa: PT012
        for batch in loader:
            taken.append(batch)
    assert len(taken) == 10  # all before it came first
    assert caught.value.args == ("mine", 3)
    assert "step 10" in caught.value.__notes__[0]
    assert "isolation='process'" in str(caught.value.__cause__)
    assert "in fail" in str(caught.value.__cause__)
    assert loader.state_dict()["step"] == 10
    with pytest.raises(OwnError):
        list(loader)  # the next epoch


def test_a_bad_record_says_where(isolated: Make, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"x": 1}\n{"x": \n{"x": 3}\n')
    data = ps.read(tmp_path / "a.jsonl").batch(1)
    loaders = ps.Loader(data), isolated(data)
    caught = list[Any]()
    for loader in loaders:
        with pytest.raises(ps.DataError) as raised:
            list(loader)
        caught.append(raised.value)
    assert [vars(error)["where"] for error in caught] == [caught[0].where] * 2
    for name in ("sample", "found", "do", "args", "__notes__"):
        assert getattr(caught[0], name) == getattr(caught[1], name), name


def test_stalls_are_told_in_the_parent(
    isolated: Make, caplog: pytest.LogCaptureFixture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_told = tmp_path / "told"

    class Hearing(logging.Handler):
        """Ends the stall once it was told."""

        def emit(self, record: logging.LogRecord) -> None:
            if "in wait" in record.getMessage():
                is_told.touch()

    def wait(batch: dict[str, Any]) -> dict[str, Any]:
        import time

        until = time.monotonic() + 60
        while batch["x"][0] == 0 and not is_told.exists() and time.monotonic() < until:
            time.sleep(0.05)
        return batch

    data = ps.from_arrays({"x": np.arange(100)}).map(wait).batch(50)
    monkeypatch.setattr(logging.getLogger("penstock"), "handlers", [*logging.getLogger("penstock").handlers, Hearing()])
    with caplog.at_level(logging.WARNING, logger="penstock"):
        loader = isolated(data, watchdog=0.5)
        assert len([*loader]) == 2
    assert "no stage finished anything for 0.5 s" in caplog.text
    assert "in wait" in caplog.text
    assert loader.stats()["stalls"] >= 1


def test_prints_are_seen(isolated: Make, capfd: pytest.CaptureFixture[str]) -> None:
    def say(batch: dict[str, Any]) -> dict[str, Any]:
        print("rows", len(batch["x"]), "of", os.getpid())
        return batch

    list(isolated(ps.from_arrays({"x": np.arange(10)}).map(say).batch(10), epochs=1))
    said = capfd.readouterr().out
    assert "rows 10" in said
    assert str(os.getpid()) not in said.split()
