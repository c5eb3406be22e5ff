"""Iterables and generator functions: kept in the cache, or drawn while the training runs."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import traceback
from collections import deque
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.core.errors import DataError
from penstock.core.files.cache_dirs import cache_folder
from penstock.core.functions.code_key import code_key
from support import promises as contracts

#: What was drawn; no plain value, so that it does not tell one function from another.
drawn: deque[int] = deque()


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    drawn.clear()


def rows(samples: int = 20, scale: float = 1.0) -> Iterator[dict[str, Any]]:
    for number in range(samples):
        drawn.append(number)
        yield {
            "id": number,
            "row": np.full((2, 3), number * scale, np.float32),
            "text": "é" * number,
            "data": bytes([number % 251]) * (number % 5),
            "flag": number % 2 == 0,
            "none": np.zeros((0, 3)),
        }


def stream(start: int = 0) -> Iterator[dict[str, Any]]:
    for number in range(start, 61):
        drawn.append(number)
        yield {"id": number, "text": f"text {number}"}


def spool_files() -> list[str]:
    return sorted(path.name for path in Path(str(cache_folder("spool"))).rglob("*") if path.is_file())


# Kept


def test_every_kind_of_column_comes_back() -> None:
    dataset = ps.from_iterable(rows, columns=None).shuffle(seed=1, block_rows=3).batch(7)
    wanted = list(rows())
    with ps.Loader(dataset) as loader:
        for step, batch in enumerate(loader):
            ids = loader.sample_ids(0, step).tolist()
            assert batch["id"].tolist() == ids
            assert batch["row"].dtype == np.float32
            assert np.array_equal(batch["row"], [wanted[number]["row"] for number in ids])
            assert batch["text"].to_pylist() == [wanted[number]["text"] for number in ids]
            assert batch["data"].to_pylist() == [wanted[number]["data"] for number in ids]
            assert batch["flag"].tolist() == [wanted[number]["flag"] for number in ids]
            assert batch["none"].shape == (len(ids), 0, 3)


def test_lists_come_back_over_several_blocks() -> None:
    lists = {"list": ps.Column(feature="x", dtype="int64", shape=(None,))}
    many = ({"x": list(range(number % 5)), "pad": b"x" * 4000} for number in range(2000))
    dataset = ps.from_iterable(many, columns={**lists, "pad": "pad"})
    assert 1 < dataset.source.block_rows < 1000
    with ps.Loader(dataset.batch(700)) as loader:
        found = pa.concat_arrays([batch["list"] for batch in loader]).to_pylist()
    assert found == [list(range(number % 5)) for number in range(2000)]


def test_the_function_is_drawn_once() -> None:
    first = ps.from_iterable(rows, arguments={"samples": 9})
    assert list(drawn) == list(range(9))
    assert ps.from_iterable(rows, arguments={"samples": 9}).source.manifest.digest == first.source.manifest.digest
    assert len(drawn) == 9
    other = ps.from_iterable(rows, arguments={"samples": 9, "scale": 2.0})
    assert other.source.manifest.digest != first.source.manifest.digest
    assert ps.from_iterable(partial(rows, 9)).source.manifest.digest == first.source.manifest.digest


@pytest.mark.slow
def test_other_processes_find_what_was_drawn(tmp_path: Path) -> None:
    """Two at once draw it once; a later one finds it."""
    (tmp_path / "made.py").write_text(
        textwrap.dedent("""
            import os, sys, time
            import penstock as ps

            SCALE = 3

            def helper(number):
                return number * SCALE

            def items(count):
                with open("drawn", "a") as file:
                    file.write("x")
                for number in range(count):
                    time.sleep(0.01)
                    yield {"id": helper(number), "kinds": {"a", "b"} and 1}

            dataset = ps.from_iterable(items, arguments={"count": 40})
            print(len(dataset), dataset.source.manifest.digest)
        """)
    )
    command = [sys.executable, str(tmp_path / "made.py")]
    running = [subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    found = {process.communicate(timeout=280)[0] for process in running}
    assert len(found) == 1
    assert found.pop().startswith("40 ")
    assert (tmp_path / "drawn").read_text() == "x"
    text = (tmp_path / "made.py").read_text()
    (tmp_path / "made.py").write_text(text.replace("SCALE = 3", "SCALE = 4"))
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "drawn").read_text() == "xx", "a value that the function uses changed"


def test_an_iterable_without_a_name_is_kept_for_this_process_only() -> None:
    dataset = ps.from_iterable([{"id": number} for number in range(30)])
    assert spool_files() == []
    contracts.resume_is_exact(dataset.shuffle(seed=1).batch(8))
    ps.from_iterable(iter([{"id": 1}]), name="one")
    assert len(spool_files()) == 1
    assert len(ps.from_iterable(iter([]), name="one")) == 1, "the name is what counts"
    with pytest.raises(ps.SourceError, match="it is empty"):
        ps.from_iterable(iter([]), name="one", version="2")


def test_nothing_is_kept_of_what_failed() -> None:
    def failing() -> Iterator[int]:
        yield from range(100)
        raise OSError("the disk of the source is gone")

    with pytest.raises(OSError, match="the disk of the source is gone") as caught:
        ps.from_iterable(failing)
    assert "penstock: sample 100 of an iterable" in caught.value.__notes__
    assert 'raise OSError("the disk of the source is gone")' in "".join(traceback.format_exception(caught.value))
    assert spool_files() == []


def test_damaged_spools_are_drawn_again() -> None:
    digest = ps.from_iterable(rows).source.manifest.digest
    (stored,) = Path(str(cache_folder("spool"))).glob("*.rows")
    whole = stored.read_bytes()
    for damage in (
        b"",
        whole[:-1],
        whole[: len(whole) // 2],
        bytes(len(whole)),
        whole.replace(b"PSTKROW2", b"PSTKROW1"),
    ):
        stored.write_bytes(damage)
        assert ps.from_iterable(rows).source.manifest.digest == digest


def test_a_spool_of_an_earlier_version_is_drawn_again_and_removed() -> None:
    """Nothing else would remove it: spools are not evicted."""
    wanted = ps.from_iterable(rows).source.manifest.digest
    (stored,) = Path(str(cache_folder("spool"))).glob("*.rows")
    for suffix in (".arrow", ".json"):
        stored.with_suffix(suffix).write_bytes(b"rows")
    stored.unlink()
    assert ps.from_iterable(rows).source.manifest.digest == wanted
    assert spool_files() == [stored.name]


def test_the_number_of_samples_is_checked() -> None:
    assert len(ps.from_iterable(rows, samples=20)) == 20
    with pytest.raises(ps.PlanError, match="20 items came, and samples=21 was said"):
        ps.from_iterable(rows, samples=21)


def test_bounds_and_progress() -> None:
    told: list[tuple[int, int]] = []
    big = ({"x": np.zeros(100_000)} for _ in range(50))
    with pytest.raises(ps.DataError, match="more than 10,000,000 bytes were drawn"):
        ps.from_iterable(big, limits=ps.Limits(unpacked_bytes=10_000_000))
    ps.from_iterable(rows, samples=20, progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (20, 20)


def test_items_that_differ_are_named() -> None:
    items = [{"id": 1}] * 70 + [{"id": "x"}]
    with pytest.raises(
        ps.DataError, match=r"from_iterable\(list\), sample 70: 'id' is string where the first item has int64"
    ):
        ps.from_iterable(items)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (7, "it is no iterable, nor a function that gives one, but int"),
        (lambda: 7, "it is no iterable, nor a function that gives one, but int"),
        (
            partial(rows, samples=object()),
            "a partial's argument is a object, which cannot be told from another; .* name=…",
        ),
        (print, "has no code to identify it by; give the data a name"),
    ],
)
def test_what_cannot_be_told_apart_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ps.PlanError, match=message):
        ps.from_iterable(make)


def test_code_keys_tell_functions_apart() -> None:
    def made(number: int) -> Any:
        return lambda: (number, {"a", "b", "c"})

    functions = [made(1), made(2), lambda: 1, lambda: 2, lambda: [i for i in range(3)], partial(max, 1), rows]  # noqa: C416
    keys = {code_key(function, {}) for function in functions if function.__class__ is not partial}
    assert len(keys) == 6
    assert code_key(made(1), {}) == code_key(made(1), {})
    values: list[Any] = [1, "1", 1.0, True, None, b"1", [1], (1,), {"a": 1}, np.array([1]), np.array([1.0]), Path("1")]
    assert len({code_key(rows, {"x": value}) for value in values}) == len(values)


# Drawn while the training runs


@pytest.mark.slow
@pytest.mark.parametrize("last", [{}, {"pad": True}, {"wrap": True}, {"drop_last": True}])
def test_streams_keep_the_promises(last: dict[str, bool]) -> None:
    dataset = ps.from_iterable(stream, samples=61, spool=False).batch(16, **last)
    contracts.resume_is_exact(dataset)
    contracts.ranks_make_one_batch(dataset)
    contracts.ranks_share_every_epoch(dataset, "id")
    contracts.any_step_can_be_made(dataset)
    contracts.epochs_differ_and_seeds_repeat(dataset, shuffled=False)


def test_a_pass_draws_each_item_once_and_little_ahead() -> None:
    dataset = ps.from_iterable(lambda: stream(), samples=61, spool=False).batch(16)  # noqa: PLW0108 - without start
    drawn.clear()
    with ps.Loader(dataset, prefetch=1) as loader:
        for _ in range(2):
            assert [number for batch in loader for number in batch["id"].tolist()] == list(range(61))
    assert list(drawn)[:121] == [*range(1, 61), *range(61)]


def test_resuming_starts_where_the_function_can() -> None:
    def numbers(start: int = 0) -> Iterator[int]:
        for number in range(start, 20_000):
            drawn.append(number)
            yield number

    dataset = ps.from_iterable(numbers, samples=20_000, spool=False).batch(16)
    state = {**ps.Loader(dataset).state_dict(), "step": 1000}
    drawn.clear()
    with ps.Loader(dataset, prefetch=1) as loader:
        loader.load_state_dict(state)
        assert next(iter(loader))["data"].tolist() == list(range(16_000, 16_016))
    assert drawn[0] == 16_000


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (70, "the stream ended after 61 samples, and there should be 70; pass samples=61"),
        (60, "continues after the 60 samples"),
    ],
)
def test_streams_of_another_length_are_an_error(samples: int, message: str) -> None:
    with pytest.raises(DataError, match=message):
        list(ps.Loader(ps.from_iterable(stream, samples=samples, spool=False).batch(4)))


def test_streams_need_a_length() -> None:
    with pytest.raises(
        ps.PlanError, match=r"from_iterable\(stream\): nobody knows how many items will come; pass samples="
    ):
        ps.from_iterable(stream, spool=False)
    assert len(ps.from_iterable([1, 2, 3], spool=False)) == 3


def test_an_iterator_is_good_for_one_epoch() -> None:
    dataset = ps.from_iterable(iter(range(10)), samples=10, spool=False).batch(5)
    with ps.Loader(dataset) as loader:
        assert [batch["data"].tolist() for batch in loader] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
        with pytest.raises(ps.PlanError, match=r"sample 0 is wanted, and this iterator.*from_iterable\(lambda: …\)"):
            list(loader)
    made = iter(range(10))
    with ps.Loader(ps.from_iterable(lambda: made, samples=10, spool=False).batch(5)) as loader:
        list(loader)
        with pytest.raises(ps.PlanError, match="it gives the same iterator a second time"):
            list(loader)


def test_states_say_how_a_stream_resumes_and_an_iterator_does_not() -> None:
    makes: dict[str, Any] = {"start": stream, "again": lambda: stream(), "never": stream()}  # noqa: PLW0108
    for resumes, make in makes.items():
        dataset = ps.from_iterable(make, samples=61, spool=False).batch(4)
        with ps.Loader(dataset) as loader:
            next(iter(loader))
            state = loader.state_dict()
        assert state["resumes"] == resumes
    with ps.Loader(dataset) as loader, pytest.raises(ps.StateError, match=r"iterator, which has no position.*start"):
        loader.load_state_dict(state)
    with ps.Loader(dataset) as loader:
        loader.load_state_dict({**state, "step": 0})  # nothing was taken yet


def test_a_failing_stream_keeps_its_traceback() -> None:
    def failing() -> Iterator[int]:
        yield from range(7)
        raise KeyError("label")

    with pytest.raises(KeyError, match="label") as caught:
        list(ps.Loader(ps.from_iterable(failing, samples=10, spool=False).batch(5)))
    assert "penstock: sample 7 of an iterable" in caught.value.__notes__


def test_whole_numbers_keep_their_digits() -> None:
    """NumPy makes floats of [1, 2**63]."""
    dataset = ps.from_iterable([{"x": [1, 2**63]}, {"x": [2**64 - 1, 5]}])
    (batch,) = ps.Loader(dataset.batch(2))
    assert batch["x"].tolist() == [[1, 2**63], [2**64 - 1, 5]]
    with pytest.raises(ps.PlanError, match="below 0 and from 2\\*\\*63 on, which no integer type holds"):
        ps.from_iterable([{"x": [-1, 2**63]}])
    with pytest.raises(DataError, match=r"sample 1: 'x' is uint64 where the first item has int64"):
        ps.from_iterable([{"x": 1}, {"x": 2**63}])


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("once", [False, True], ids=["function", "iterator"])
def test_what_a_stream_raises_comes_after_all_rows_before_it(kind: type[BaseException], *, once: bool) -> None:
    """Rows are drawn 64 at a time, and steps are made together; neither takes rows along that came before."""

    def failing() -> Iterator[dict[str, int]]:
        for number in range(100):
            if number == 70:
                raise kind("own words")
            yield {"x": number}

    made = failing() if once else failing
    loader, seen = ps.Loader(ps.from_iterable(made, samples=100, spool=False).batch(4), prefetch=1), []
    with pytest.raises(kind, match="own words") as caught:  # noqa: PT012
        for batch in loader:
            seen += batch["x"].tolist()
    assert seen == list(range(68))
    assert "penstock: sample 70 of an iterable" in caught.value.__notes__


def test_shuffled_streams_that_fail_give_each_row_before_it_once() -> None:
    def failing() -> Iterator[dict[str, int]]:
        yield from ({"x": number} for number in range(130))
        raise OSError("gone")

    dataset = ps.from_iterable(failing, samples=200, spool=False).shuffle(seed=1, window=40).batch(4)
    seen: list[int] = []
    with pytest.raises(OSError, match="gone"):  # noqa: PT012
        for batch in ps.Loader(dataset):
            seen += batch["x"].tolist()
    assert len(seen) >= 60
    assert len({*seen}) == len(seen)
    assert max(seen) < 130


@pytest.mark.slow
def test_spools_whose_bytes_were_changed_are_an_error_and_drawn_anew() -> None:
    """Numbers have no form that damage could break: only a checksum sees it."""
    dataset = ps.from_iterable(rows)
    wanted = [str(batch) for batch in ps.Loader(dataset.batch(5))]
    stored = next(Path(str(cache_folder("spool"))).glob("*.rows"))
    whole = stored.read_bytes()
    for at in range(600, len(whole), len(whole) // 40):
        stored.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        try:
            found = [str(batch) for batch in ps.Loader(ps.from_iterable(rows).batch(5))]
        except DataError as error:
            assert f"{stored}: the cached rows are damaged" in str(error)  # noqa: PT017
            found = [str(batch) for batch in ps.Loader(ps.from_iterable(rows).batch(5))]
        assert found == wanted
        stored = next(Path(str(cache_folder("spool"))).glob("*.rows"))
