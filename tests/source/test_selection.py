"""Columns by name: selected, renamed, typed; one wording where one is not there, whatever the format."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.core.columns.spec import Field
from penstock.source.selection import Selection, no_column

OFFERED = {"image": Field("bytes"), "label": Field("int64")}


def test_lists_and_dicts_and_columns() -> None:
    typed = ps.Column(feature="label", dtype="int32")
    assert Selection().columns(OFFERED) == {name: ps.Column(feature=name) for name in OFFERED}
    assert Selection({"x": "image"}).columns(OFFERED) == {"x": ps.Column(feature="image")}
    assert Selection(["label", "image"]).features() == {"image", "label"}
    assert list(Selection(["label", "image"]).columns()) == ["label", "image"]
    assert Selection([typed]).columns() == {"label": typed}
    assert Selection({"y": typed}).choose(OFFERED, "here") == {"y": typed}
    assert Selection({"y": "label"}).choose_stored(OFFERED, "here") == {"y": "label"}


@pytest.mark.parametrize("nothing", [[], {}, ()])
def test_no_column_at_all_is_an_error(nothing: object) -> None:
    with pytest.raises(ps.PlanError, match="none are named; pass columns=None"):
        Selection(nothing).columns(OFFERED)  # type: ignore[arg-type]


def test_a_name_alone_is_no_list() -> None:
    with pytest.raises(ps.PlanError, match="columns='image': pass a list"):
        ps.from_dataset([{"image": 1}], columns="image")


@pytest.mark.parametrize("wish", [{"dtype": "int32"}, {"shape": (1,)}, {"default": 0}])
def test_what_is_taken_as_it_is_cannot_be_typed(wish: dict[str, object]) -> None:
    selection = Selection({"y": ps.Column(feature="label", **wish)})  # type: ignore[arg-type]
    with pytest.raises(
        ps.PlanError, match=r"here: column 'label' is int64, and is taken as it is; change it with \.map"
    ):
        selection.choose_stored(OFFERED, "here")


def test_the_type_it_has_may_be_named() -> None:
    column = ps.Column(feature="label", dtype="int64", shape=())
    assert Selection({"y": column}).choose_stored(OFFERED, "here") == {"y": "label"}


def test_many_names_are_cut() -> None:
    names = [f"c{number}" for number in range(100)]
    assert str(no_column("here", "q", names)) == f"here: no column 'q'; there are {', '.join(names[:40])}, …"
    assert str(no_column("here", "q", [])) == "here: no column 'q'; there are none"


def test_every_format_words_it_alike(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", label=np.arange(3))
    np.save(tmp_path / "a.npy", np.zeros(3, dtype=[("label", "i4")]))
    pq.write_table(pa.table({"label": [1, 2]}), tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_text("label\n1\n2\n")
    (tmp_path / "a.jsonl").write_text('{"label": 1}\n')
    for name in ("a.npz", "a.npy", "a.parquet", "a.csv", "a.jsonl"):
        with pytest.raises(
            ps.PlanError, match=rf"{name}: no column 'labl'.*; there are label;?.*; did you mean 'label'\?$"
        ):
            ps.read(tmp_path / name, columns=["labl"])
