"""zip by a key: rows of one key are one row, whatever order the datasets have, and nothing is left out without a word."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.looking.pairing import _stems
from support import promises

ROWS = 60
TURN = np.random.default_rng(0).permutation(ROWS)


def files(folder: Path, texts: Mapping[str, str], column: str = "file") -> ps.Dataset:
    """A file a row, of these names and texts."""
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return ps.read(folder / "**/*.txt", columns={column: "text"})


def named(folder: Path, names: Sequence[str], column: str) -> ps.Dataset:
    return files(folder, {name: f"{column} {name}" for name in names}, column)


def first(folder: Path) -> ps.Dataset:
    """Files of two folders, in the order of their names."""
    if not (folder / "first").exists():
        named(folder / "first", [f"{row % 2}/{row:02}.txt" for row in range(ROWS)], "one")
    return ps.read(folder / "first", columns={"one": "text"})


def second(folder: Path) -> ps.Dataset:
    """The same names with more extensions."""
    if not (folder / "second").exists():
        named(folder / "second", [f"{row % 2}/{row:02}.seg.txt" for row in range(ROWS)], "two")
    return ps.read(folder / "second", columns={"two": "text"})


def table(folder: Path, column: str = "stem") -> ps.Dataset:
    """The same as a column, in another order."""
    path = folder / f"{column}.parquet"
    if not path.exists():
        keys = [f"{row % 2}/{row:02}" for row in TURN] if column == "stem" else TURN
        pq.write_table(pa.table({column: keys, "n": TURN * 3}), path, row_group_size=7)
    return ps.read(path)


def lines(folder: Path) -> ps.Dataset:
    path = folder / "a.jsonl"
    if not path.exists():
        path.write_text("".join(json.dumps({"id": row, "text": f"row {row}"}) + "\n" for row in range(ROWS)))
    return ps.read(path)


def memory(_: Path) -> ps.Dataset:
    return ps.from_arrays({"id": TURN[::-1].astype(np.uint16), "m": TURN[::-1] * 5})


PLANS: dict[str, Callable[[Path], ps.Dataset]] = {
    "files": lambda folder: ps.zip([first(folder), second(folder)], on="stem").shuffle(seed=1).batch(8, lanes=4),
    "files and a table": lambda folder: ps.zip([first(folder), table(folder)], on="stem").shuffle(seed=1).batch(8, lanes=4),
    "a table and files": lambda folder: ps.zip([table(folder), second(folder)], on="stem").shuffle(seed=1, block_rows=4).batch(8, lanes=4),
    "three by a column": lambda folder: ps.zip([lines(folder), table(folder, "id"), memory(folder)], on="id").shuffle(seed=1, block_rows=4).batch(8, lanes=4),
    "natural": lambda folder: ps.zip([lines(folder), table(folder, "id")], on="id").batch(8),
    "slices below": lambda folder: ps.zip([lines(folder).take(40), table(folder, "id").skip(5)], on="id", strict=False).shuffle(seed=1).batch(5, lanes=1),
    "slices above": lambda folder: ps.zip([lines(folder), table(folder, "id")], on="id").skip(7).take(40).shuffle(seed=1).batch(8, lanes=4),
    "ops and functions below": lambda folder: ps.zip([lines(folder).map(dict).cache(), table(folder, "id").map(dict).select("n", "id")], on="id").shuffle(seed=1).batch(8, lanes=4),
    "cached above": lambda folder: ps.zip([lines(folder), table(folder, "id")], on="id").cache().shuffle(seed=1).batch(8, lanes=4),
    "concat below": lambda folder: ps.zip([ps.concat([lines(folder).skip(30), lines(folder).take(30)]), table(folder, "id")], on="id").shuffle(seed=1).batch(8, lanes=4),
    "filtered above": lambda folder: ps.zip([lines(folder), table(folder, "id")], on="id").filter(ps.col("n") % 2 == 0).shuffle(seed=1).batch(6, lanes=2),
    "a zip of zips": lambda folder: ps.zip([ps.zip([lines(folder), table(folder, "id")], on="id"), memory(folder)], on="id").shuffle(seed=1).batch(8, lanes=4),
    "concat of zips": lambda folder: ps.concat([ps.zip([lines(folder), memory(folder)], on="id")] * 2).shuffle(seed=1).batch(8, lanes=4),
}  # fmt: skip


def row_numbers(batch: Mapping[str, Any]) -> list[int]:
    """The number of each row, in which all columns agree."""
    found = [(batch[name] // factor).tolist() for name, factor in (("id", 1), ("n", 3), ("m", 5)) if name in batch]
    texts = [batch[name].to_pylist() for name in ("one", "two", "text") if name in batch]
    found += [[int(text.split()[1].partition(".")[0].split("/")[-1]) for text in some] for some in texts]
    assert len(found) > 1
    assert all(some == found[0] for some in found)
    return found[0]


@pytest.mark.parametrize("name", PLANS)
def test_rows_of_one_key_are_one_row(name: str, tmp_path: Path) -> None:
    plan = PLANS[name](tmp_path)
    with ps.Loader(plan) as loader:
        for _ in range(2):
            found = [number for batch in loader for number in row_numbers(batch)]
            assert len(found) == len(plan) > 25


@pytest.mark.slow
@pytest.mark.parametrize("name", ["files", "a table and files", "three by a column", "slices above"])
def test_on_any_ranks_and_after_resuming(name: str, tmp_path: Path) -> None:
    plan = PLANS[name](tmp_path)
    promises.ranks_make_one_batch(plan)
    promises.resume_is_exact(plan)
    promises.any_step_can_be_made(plan)


def test_the_order_is_that_of_the_first_dataset_and_the_key_comes_once(tmp_path: Path) -> None:
    (batch,) = ps.Loader(ps.zip([lines(tmp_path), table(tmp_path, "id"), memory(tmp_path)], on="id").batch(ROWS))
    assert batch["id"].tolist() == list(range(ROWS))
    assert list(batch) == ["id", "text", "n", "m"]


def test_datasets_in_one_order_stay_as_they_are(tmp_path: Path) -> None:
    """They are read in blocks, as without a key; the plan says by which key they were paired."""
    plan = ps.zip([lines(tmp_path), ps.from_arrays({"id": np.arange(ROWS), "m": np.arange(ROWS)})], on="id")
    assert "subset" not in repr(plan)
    assert "zip inputs=2 on=id" in plan.explain()


def test_names_are_below_the_folder_and_without_extensions() -> None:
    names = {
        "cat/a.jpg": "cat/a", "a.seg.png": "a", "scan.nii.gz": "scan", "2024.05.01.png": "2024.05.01", "v1.0/c.png": "v1.0/c",
        "clip.mp4": "clip", "bare": "bare", ".hidden.png": ".hidden", "img.v2.png": "img.v2", "ä/ö.JPEG": "ä/ö",
    }  # fmt: skip
    assert _stems(pa.array([*names], pa.large_string())).to_pylist() == [*names.values()]


@pytest.mark.parametrize(
    ("left", "right", "words"),
    [
        (["a", "b", "c"], ["a", "b", "d"], ["1 of the 3 rows of dataset 0", "('c')", "1 of its 3 rows", "('d')", "strict=False"]),
        (["a", "b"], ["a", "b", "c", "d", "e", "f"], ["0 of the 2 rows", "(none)", "4 of its 6 rows", "('c', 'd', 'e', …)"]),
        (["cat/a", "dog/b"], ["cat/a", "bird/b"], ["('dog/b')", "('bird/b')"]),
        (["a", "b"], ["x/a", "x/b", "a"], ["('b')", "('x/a', 'x/b')"]),
    ],
)  # fmt: skip
def test_rows_without_a_partner_are_an_error_that_counts_and_names_them(
    left: list[str], right: list[str], words: list[str], tmp_path: Path
) -> None:
    one, other = (
        named(tmp_path / name, [f"{stem}.txt" for stem in stems], name) for name, stems in (("l", left), ("r", right))
    )
    with pytest.raises(ps.PlanError) as caught:
        ps.zip([one, other], on="stem")
    for part in words:
        assert part in str(caught.value)
    both = ps.zip([one, other], on="stem", strict=False)
    assert len(both) == len({*left} & {*right})
    (batch,) = ps.Loader(both.batch(8, lanes=1))
    assert [text[2:] for text in batch["l"].to_pylist()] == [text[2:] for text in batch["r"].to_pylist()]


def test_a_key_that_comes_twice_is_an_error_that_names_both_files(tmp_path: Path) -> None:
    left, right = named(tmp_path / "l", ["a.txt", "b.txt"], "l"), named(tmp_path / "r", ["a.b.txt", "a.c.txt"], "r")
    with pytest.raises(ps.PlanError, match=r"a\.b\.txt.* and .*a\.c\.txt.*, both of dataset 1, have the key 'a'"):
        ps.zip([left, right], on="stem")
    for strict in (True, False):
        with pytest.raises(ps.PlanError, match="both of dataset 0, have the key 5"):
            ps.zip(
                [ps.from_arrays({"k": [5, 3, 5]}), ps.from_arrays({"k": [5, 3, 1], "x": [1, 2, 3]})],
                on="k",
                strict=strict,
            )


ARRAYS: dict[str, tuple[Any, Any, Any, str]] = {
    "floats": ("k", [1.0, 2.0], [1.0, 2.0], "float64 in dataset 0"),
    "truth": ("k", [True, False], [True, False], "bool in dataset 0"),
    "numbers and text": ("k", [1, 2], ["1", "2"], "whole numbers in dataset 0 and string in dataset 1"),
    "text and bytes": ("k", ["1", "2"], [b"1", b"2"], "string in dataset 0 and binary in dataset 1"),
    "several values": ("k", [[1, 2], [3, 4]], [[1, 2], [3, 4]], "gives \\(2,\\) values a row"),
    "no such column": ("key", [1, 2], [1, 2], "no column 'key'"),
    "no files": ("stem", [1, 2], [1, 2], "files that are a row each, and those of dataset 0 .* are not"),
    "no name": ("", [1, 2], [1, 2], "on=''; pass 'stem'"),
    "a number": (3, [1, 2], [1, 2], "on=3; pass 'stem'"),
    "none in both": ("k", [1, 2], [3, 4], "2 of the 2 rows of dataset 0"),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_what_is_no_key_is_refused(name: str) -> None:
    on, left, right, match = ARRAYS[name]
    one, other = ps.from_arrays({"k": left, "x": [1, 2]}), ps.from_arrays({"k": right, "y": [1, 2]})
    with pytest.raises(ps.PlanError, match=match):
        ps.zip([one, other], on=on)


def test_nothing_in_common_is_an_error_also_where_rows_may_be_left_out() -> None:
    one, other = ps.from_arrays({"k": [1, 2]}), ps.from_arrays({"k": [3, 4], "x": [1, 2]})
    with pytest.raises(ps.PlanError, match="no key is in all datasets: dataset 0 has 1, 2; dataset 1 has 3, 4"):
        ps.zip([one, other], on="k", strict=False)


def test_whole_numbers_of_any_width_are_one_kind() -> None:
    large = 2**63 + 5
    one = ps.from_arrays({"k": np.array([large, 7, 2], np.uint64)})
    other = ps.from_arrays({"k": np.array([2, 7, -1], np.int64), "x": np.array([20, 70, 0])})
    (batch,) = ps.Loader(ps.zip([one, other], on="k", strict=False).batch(2))
    assert batch["k"].tolist() == [7, 2]
    assert batch["x"].tolist() == [70, 20]


def test_a_filter_behind_a_zip_looks_at_the_column_that_is_there() -> None:
    """The second dataset's column of that name was dropped before."""
    data = ps.from_arrays({"id": np.arange(6), "x": np.arange(6)})
    other = ps.from_arrays({"id": np.arange(6)[::-1].copy(), "y": np.arange(6)})
    (batch,) = ps.Loader(ps.zip([data, other.drop("id")]).filter(ps.col("id") > 3).batch(2))
    assert batch["y"].tolist() == [4, 5]
    (batch,) = ps.Loader(ps.zip([data, other], on="id").filter(ps.col("id") > 3).batch(2))
    assert batch["y"].tolist() == [1, 0]


def test_a_missing_key_is_an_error_that_says_where(tmp_path: Path) -> None:
    pq.write_table(pa.table({"k": ["a", None, "c"], "x": [1, 2, 3]}), tmp_path / "nulls.parquet")
    with pytest.raises(ps.PenstockError, match="k"):
        ps.zip([ps.read(tmp_path / "nulls.parquet"), ps.from_arrays({"k": ["a", "b", "c"]})], on="k")


def test_verbs_that_move_rows_come_after(tmp_path: Path) -> None:
    with pytest.raises(ps.PlanError, match="dataset 0 has a shuffle already"):
        ps.zip([lines(tmp_path).shuffle(seed=0), memory(tmp_path)], on="id")
    with pytest.raises(ps.PlanError, match="one dataset; pass a list"):
        ps.zip([lines(tmp_path)], on="id")
    with pytest.raises(ps.PlanError, match="both have a column 'text'"):
        ps.zip([lines(tmp_path), lines(tmp_path)], on="id")
    with pytest.raises(ps.PlanError, match="has no column but 'id', the key"):
        ps.zip([lines(tmp_path), lines(tmp_path).select("id")], on="id")


def test_a_state_does_not_go_on_where_rows_are_paired_otherwise(tmp_path: Path) -> None:
    data = lines(tmp_path)
    left = ps.from_arrays({"id": np.arange(ROWS)[::-1].copy(), "m": np.arange(ROWS)})
    paired, placed = ps.zip([data, left], on="id").batch(8), ps.zip([data, left.drop("id")]).batch(8)
    with ps.Loader(paired) as one, ps.Loader(placed) as other, pytest.raises(ps.StateError):
        other.load_state_dict(one.state_dict())


def test_keys_are_looked_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of files; what came out is kept in the user's cache."""
    import penstock.looking.pairing as pairing

    plans = [ps.zip([lines(tmp_path), table(tmp_path, "id")], on="id")]
    monkeypatch.setattr(pairing, "_keys_of", None)
    plans.append(ps.zip([lines(tmp_path), table(tmp_path, "id")], on="id"))
    assert plans[0].explain() == plans[1].explain()


# By place


def test_files_of_other_names_that_meet_by_place_are_a_warning(tmp_path: Path) -> None:
    left, right = (
        named(tmp_path / name, [f"{stem}.txt" for stem in stems], name) for name, stems in (("l", "abc"), ("r", "abd"))
    )
    with pytest.warns(UserWarning, match=r"'c\.txt' of dataset 0 meets 'd\.txt' of dataset 1; .*on='stem'") as caught:
        ps.zip([left, right])
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_files_of_the_same_names_are_none(tmp_path: Path) -> None:
    left = named(tmp_path / "l", ["x/a.txt", "x/b.txt"], "l")
    right = named(tmp_path / "r", ["a.seg.txt", "b.seg.txt"], "r")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ps.zip([left, right])
        ps.zip([left, ps.from_arrays({"n": [1, 2]})])
        ps.zip([left.take(1), right.take(1)])
    with pytest.warns(UserWarning, match="meets"):
        ps.zip([left.take(1), right.skip(1)])
    with pytest.warns(UserWarning, match="meets"):
        ps.zip([left, right.skip(1)], strict=False)
    with pytest.raises(ps.PlanError, match="rows"):
        ps.zip([left, right.skip(1)])
