"""Arrow IPC by writers of other languages (tests/golden/make_writers.py), column by column: the values that were written, or an error that says why not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from support.tables import rows_of

FOLDER = Path(__file__).parent.parent / "golden" / "writers"
ROWS = range(40)
MICROSECONDS = 1_000_000
Rule = Callable[[int], Any]
#: What the writers of both languages write.
SHARED: dict[str, Rule] = {
    "id": lambda n: n,
    "text": lambda n: f"text {n % 5}" if n % 3 else None,
    "word": lambda n: "abc"[n % 3],
    "half": lambda n: n / 2 if n % 4 else None,
    "list": lambda n: list(range(n % 4)),
    "pair": lambda n: [n, -n],
    "box.left": lambda n: n,
    "box.name": lambda n: f"box {n}",
    "map.key": lambda n: [f"k{x}" for x in range(n % 3)],
    "map.value": lambda n: [n] * (n % 3),
}
GO: dict[str, Rule] = SHARED | {
    "large_text": lambda n: f"large {n}",
    "view": lambda n: f"a text longer than a view holds {n}",
    "data_view": lambda _: b"\xff" * 16,
    "price": lambda n: n + 0.25,
    "wide": lambda n: -(n + 0.75),
    "clock": lambda n: (n % 24 * 3_600 + 0.5) * MICROSECONDS,
    "utc": lambda n: 1_700_000_000 * MICROSECONDS + n,
    "zoned": lambda n: 1_700_000_000 + n,
    "span": lambda n: n,
    "list_view": lambda n: list(range(n % 4)),
    "large_list": lambda n: [f"s{x}" for x in range(n % 3)],
    "boxes.left": lambda n: [n] * (n % 3),
    "boxes.name": lambda n: [f"l{x}" for x in range(n % 3)],
    "runs": lambda n: f"run {n // 7}",
}
JAVASCRIPT: dict[str, Rule] = SHARED | {
    "flag": lambda n: n % 2 == 0,
    "quarter": lambda n: n / 4,
    "tiny": lambda n: n - 20,
    "large": lambda n: 2**64 - 1 - n,
    "data": lambda n: b"\xff" * (n % 4),
    "key": lambda n: bytes([n] * 4),
    "day": lambda n: n,
    "when": lambda n: (1_700_000_000_000 + n) * 1_000,
    "utc": lambda n: 1_700_000_000_000 + n,
    "clock": lambda n: n,
    "span": lambda n: n,
    "lists": lambda n: [[f"s{x}"] for x in range(n % 3)],
    "maybe.left": lambda n: n if n % 6 else None,
    "maybe.name": lambda n: "a" if n % 6 else None,
}
#: Columns of types that no batch can hold, and the types.
REFUSED = {"gap": "month_day_nano_interval", "dense": "dense_union", "sparse": "sparse_union"}
FILES = {
    f"arrow-{name}{form}": rules for name, rules in (("go", GO), ("js", JAVASCRIPT)) for form in (".arrow", ".arrows")
}


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_each_column_is_read_right_or_refused(name: str) -> None:
    path = FOLDER / name
    wrong = {column for column, rule in FILES[name].items() if not _is_right(path, column, [rule(n) for n in ROWS])}
    assert not wrong


def _is_right(path: Path, column: str, wanted: list[Any]) -> bool:
    if None not in wanted:
        found: list[Any] = rows_of(ps.read(path, columns=[column]))[column].tolist()
        return found == wanted
    with pytest.raises(ps.DataError, match=rf"{path.name}, batch 0, row 0: column '{column}' is null; give it a value"):
        rows_of(ps.read(path, columns=[column]))
    default = "none" if isinstance(wanted[1], str) else -1
    columns = {"x": ps.Column(feature=column, default=default)}
    return bool(
        rows_of(ps.read(path, columns=columns))["x"].tolist() == [default if one is None else one for one in wanted]
    )


@pytest.mark.parametrize("name", FILES)
def test_every_column_of_the_file_is_tried(name: str) -> None:
    path = FOLDER / name
    refused = REFUSED if name.startswith("arrow-go") else {}
    assert ps.read(path, columns=list(FILES[name])).spec.keys() == FILES[name].keys()
    for column, kind in refused.items():
        with pytest.raises(ps.PlanError, match=rf"{path.name}: column '{column}': Arrow type {kind}.*columns="):
            ps.read(path, columns=[column])
    if not refused:
        assert ps.read(path).spec.keys() == FILES[name].keys()


def test_lists_of_lists_as_old_spark_wrote_them_are_refused(tmp_path: Path) -> None:
    """Arrow does not read this layout."""
    path = tmp_path / "a.parquet"
    path.write_bytes((FOLDER / "spark-legacy-lists.refused").read_bytes())
    with pytest.raises(ps.DataError, match=r"a\.parquet: LIST-annotated.*writeLegacyFormat.*write it again"):
        ps.read(path)
