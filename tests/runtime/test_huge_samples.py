"""Rows of very different sizes: within the budget where they fit into it, and alone, with one warning, where they do not."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from runtime.test_memory import MIB, OTHERS, stalled
from support.tries import TRIES

LARGEST = 500_000_000 if TRIES >= 1_000 else 50_000_000


def write(file: Path, sizes: list[int]) -> None:
    with file.open("wb") as out:
        for number, size in enumerate(sizes):
            out.write(b'{"id": %d, "x": "%s"}\n' % (number, bytes([97 + number % 26]) * size))


def sizes_up_to(largest: int) -> list[int]:
    """Many small ones, with some of each size among them."""
    sizes = [10 if number % 3 else 5_000 for number in range(200)]
    for number, size in enumerate(range(2, len(str(largest)))):
        sizes[20 * number + 7] = 10**size
    sizes[150] = largest
    return sizes


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("huge") / "rows.jsonl"
    write(found, sizes_up_to(LARGEST))
    return found


def check(plan: ps.Dataset, memory: int) -> int:
    """All rows are whole; the most that was held."""
    wanted, seen = sizes_up_to(LARGEST), set[int]()
    with ps.Loader(plan, memory=memory, epochs=1) as loader:
        for batch in loader:
            for row, text in zip(batch["id"].tolist(), batch["x"], strict=True):
                found = text.as_buffer()
                assert found.size == wanted[row]
                assert found[0] == found[found.size - 1] == 97 + row % 26
                seen.add(row)
        assert len(seen) == len(wanted)
        return loader.stats()["memory"]["most_bytes"]


@pytest.mark.parametrize(("order", "memory"), [("as they lie", LARGEST * 2 // 5), ("shuffled", LARGEST * 4 // 5)])
def test_a_sample_larger_than_the_budget_comes_alone_with_one_warning(file: Path, order: str, memory: int) -> None:
    data = ps.read(str(file), limits=ps.Limits(record_bytes=LARGEST + 1000))
    data = data if order == "as they lie" else data.shuffle(seed=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        most = check(data.batch(4), memory)
    assert most <= memory + 2.2 * LARGEST
    caught = [one for one in caught if one.category is UserWarning]
    assert len(caught) == 1
    found = re.search(r"epoch 0, step \d+ takes ([\d,]+) bytes, and memory=([\d,]+) is less", str(caught[0].message))
    assert found is not None
    assert int(found[1].replace(",", "")) > LARGEST
    assert int(found[2].replace(",", "")) == memory


def test_nothing_is_said_where_they_fit(file: Path) -> None:
    data = ps.read(str(file), limits=ps.Limits(record_bytes=LARGEST + 1000))
    assert check(data.batch(4), 4 * LARGEST) <= 4.4 * LARGEST


def test_what_a_function_makes_larger_than_the_budget_is_said() -> None:
    plan = ps.from_arrays({"id": np.arange(8)}).batch(1)
    grown = plan.map(lambda batch: {**batch, "x": np.zeros((1, 3 * MIB if batch["id"][0] == 5 else 10), np.uint8)})
    message = "a batch takes 3,145,7.. bytes, and memory=2,097,152 is less"
    with pytest.warns(UserWarning, match=message) as caught, ps.Loader(grown, memory=2 * MIB) as loader:
        assert [batch["id"][0] for batch in loader] == [*range(8)]
    assert len(caught) == 1


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="what a process holds stands in Linux's /proc only")
def test_a_stalled_consumer_and_rows_of_all_sizes(tmp_path: Path) -> None:
    write(tmp_path / "rows.jsonl", sizes_up_to(5_000_000) * 10)
    found = stalled(str(tmp_path), {}, 4, 64 * MIB)
    assert 0 < found["held_bytes"] <= 1.1 * 64 * MIB
    assert found["grown"] <= 1.1 * 64 * MIB + found["taken"] + OTHERS, found
