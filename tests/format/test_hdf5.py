"""HDF5 files that h5py wrote: every kind of dataset, and nothing outside the file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import penstock as ps
from penstock.source.arrays.strided import PlacedColumns
from support.files import cuts, errors, outcomes, rows_of, through

ROWS = 43
RNG = np.random.default_rng(6)
NAMES = ["", "a", "Größe", "雪" * 20]


GOLDEN = Path(__file__).parents[1] / "golden" / "arrays"


@pytest.mark.parametrize("name", ["earliest.h5", "latest.h5"])
def test_golden_files(name: str) -> None:
    wanted = json.loads((GOLDEN / "expected.json").read_text(encoding="utf-8"))
    found = through(ps.read(GOLDEN / name))
    assert found == {column: wanted[column] for column in ("id", "big", "train.image", "name", "list")}
    assert isinstance(ps.read(GOLDEN / name, columns=["id", "big"]).source, PlacedColumns)
    assert through(ps.read(GOLDEN / name, columns=["big"]))["big"] == wanted["big"]


def write(path: Path, first: int = 0, rows: int = ROWS, **options: Any) -> dict[str, list[Any]]:
    """A file of datasets of every kind; what they hold."""
    ids = np.arange(first, first + rows)
    record = np.zeros(rows, dtype=[("left", ">f4"), ("deep", [("name", "S4"), ("n", "i2", (2,))])])
    record["left"], record["deep"]["name"] = ids / 2, [b"n%d" % number for number in ids]
    names = [NAMES[number % 4] for number in ids]
    lists = [np.arange(number % 5, dtype=np.int16) for number in ids]
    pictures = [RNG.integers(0, 256, number % 7).astype(np.uint8) for number in ids]
    with h5py.File(path, "w", **options) as file:
        file["id"] = ids
        file.create_dataset(
            "train/image",
            data=(ids % 256)[:, None, None].astype("u1") + np.zeros((rows, 3, 2), "u1"),
            chunks=(2, 3, 2),
            compression="gzip",
            shuffle=True,
        )
        file.create_dataset("train/label", data=ids % 3, dtype=h5py.enum_dtype({"a": 0, "b": 1, "c": 2}, "i1"))
        file.create_dataset("flag", data=ids % 2 == 0, chunks=(3,), fletcher32=True)
        file["record"] = record
        file["name"] = names
        file.create_dataset(
            "fixed",
            data=[name.encode()[:6].decode(errors="ignore").encode() for name in names],
            dtype=h5py.string_dtype("utf-8", 6),
        )
        for name, kind, values in (("list", np.int16, lists), ("bytes", np.uint8, pictures)):
            dataset = file.create_dataset(name, (rows,), h5py.vlen_dtype(kind), chunks=(4,))
            for row, value in enumerate(values):
                dataset[row] = value
        file["opaque"] = np.array([bytes([number % 256, 0]) for number in ids], dtype="V2")
    return {
        "id": ids.tolist(),
        "train.image": (ids[:, None, None] % 256 + np.zeros((rows, 3, 2), "i8")).tolist(),
        "train.label": (ids % 3).tolist(),
        "flag": (ids % 2 == 0).tolist(),
        "record.left": (ids / 2).tolist(),
        "record.deep.name": [f"n{number}" for number in ids],
        "record.deep.n": [[0, 0]] * rows,
        "name": names,
        "fixed": [name.encode()[:6].decode(errors="ignore") for name in names],
        "list": [value.tolist() for value in lists],
        "bytes": [value.tobytes() for value in pictures],
        "opaque": [bytes([number % 256, 0]) for number in ids],
    }


@pytest.mark.parametrize("options", [{}, {"libver": "latest"}, {"userblock_size": 512}])
def test_every_kind_of_dataset(tmp_path: Path, options: dict[str, Any]) -> None:
    wanted = write(tmp_path / "x.h5", **options)
    dataset = ps.read(tmp_path / "x.h5")
    found = through(dataset)
    assert set(found) == set(wanted)
    for name, values in wanted.items():
        assert found[name] == values, name
    assert str(dataset.spec["train.image"]) == "uint8(3, 2)"
    assert str(dataset.spec["list"]) == "int16(?)"


@pytest.mark.parametrize("options", [{}, {"libver": "latest"}, {"userblock_size": 1024}])
def test_numbers_in_one_piece_are_mapped(tmp_path: Path, options: dict[str, Any]) -> None:
    wanted = write(tmp_path / "x.h5", **options)
    columns = {"x": "id", "y": "train.label"}
    dataset = ps.read(tmp_path / "x.h5", columns=columns)
    assert isinstance(dataset.source, PlacedColumns)
    assert through(dataset) == {name: wanted[feature] for name, feature in columns.items()}


def test_numbers_of_odd_sizes_are_h5pys_to_read(tmp_path: Path) -> None:
    """Their bytes are not what NumPy means by the dtype."""
    kind = h5py.h5t.STD_I32LE.copy()
    kind.set_precision(12)
    kind.set_offset(4)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        space = h5py.h5s.create_simple((5,))
        dataset = h5py.Dataset(h5py.h5d.create(file.id, b"x", kind, space))
        dataset[:] = np.arange(-2, 3)
    assert rows_of(ps.read(tmp_path / "x.h5")) == {"x": [-2, -1, 0, 1, 2]}


def test_several_files_and_keys(tmp_path: Path) -> None:
    parts = [write(tmp_path / f"{number}.h5", 100 * number, rows) for number, rows in enumerate((9, 30, 4))]
    joined = {name: [value for part in parts for value in part[name]] for name in parts[0]}
    found = through(ps.read(tmp_path))
    assert all(found[name] == values for name, values in joined.items())
    assert through(ps.read(tmp_path, columns=["id"])) == {"id": joined["id"]}
    assert set(ps.read(tmp_path, keys="train").spec) == {"train.image", "train.label"}
    assert set(ps.read(tmp_path, keys=["/train/image", "id"]).spec) == {"train.image", "id"}
    with pytest.raises(ps.SourceError, match="no datasets below test"):
        ps.read(tmp_path, keys="test")
    with pytest.raises(ps.PlanError, match=r"no column 'image'; there are bytes, .*did you mean 'train.image'"):
        ps.read(tmp_path, columns=["image"])


def test_files_that_differ(tmp_path: Path) -> None:
    for name, values in (("a", np.arange(3)), ("b", np.arange(3.0))):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file["x"] = values
    with pytest.raises(ps.DataError, match=r"b\.h5: x has rows of float64 and shape \(\), in .*a\.h5 they are int64"):
        ps.read(tmp_path)
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["y"] = np.arange(3)
    with pytest.raises(ps.DataError, match=r"b\.h5: no /x"):
        ps.read(tmp_path)
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["x"], file["y"], file["z"] = np.arange(3), np.arange(4), 5
    with pytest.raises(ps.DataError, match=r"b\.h5: the arrays are not equally long \(x: 3, y: 4, z: a single value\)"):
        ps.read(tmp_path / "b.h5")
    assert rows_of(ps.read(tmp_path / "b.h5", columns=["y"])) == {"y": [0, 1, 2, 3]}


def outside(path: Path) -> None:
    """A file whose members lead to another one in every way that HDF5 has."""
    with h5py.File(path.parent / "other.h5", "w") as file:
        file["secret"] = np.arange(5)
    (path.parent / "raw").write_bytes(bytes(40))
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(5)
        file["link"] = h5py.ExternalLink("other.h5", "/secret")
        file["soft"] = h5py.SoftLink("/link")
        file.create_dataset("external", (5,), "i8", external=[(str(path.parent / "raw"), 0, 40)])
        layout = h5py.VirtualLayout((5,), "i8")
        layout[:] = h5py.VirtualSource(str(path.parent / "other.h5"), "secret", (5,))
        file.create_virtual_dataset("virtual", layout)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("link", r"/link leads to '/secret' of the file 'other\.h5', which was not listed"),
        ("soft", "/soft leads to '/link'; no file but those that were listed is opened: copy"),
        ("external", "/external is stored in other files; no file but"),
        ("virtual", "/virtual is virtual: its values lie in other datasets"),
    ],
)
def test_other_files_are_never_opened(tmp_path: Path, name: str, message: str) -> None:
    path = tmp_path / "x.h5"
    outside(path)
    for options in ({"columns": [name]}, {"keys": name}):
        with pytest.raises(ps.DataError, match=message):
            ps.read(path, **options)
    with pytest.raises(ps.DataError, match=r"/link leads to|is virtual|is stored"):
        ps.read(path)
    assert rows_of(ps.read(path, columns=["x"])) == {"x": [0, 1, 2, 3, 4]}


def test_what_no_batch_can_hold(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = np.arange(2)
        file.create_dataset("ref", (2,), h5py.ref_dtype)
        file.create_dataset("empty", data=h5py.Empty("f4"))
        file.create_group("loop")["again"] = file
    with pytest.raises(ps.PlanError, match=r"holds object in rows of shape .*; choose others with columns="):
        ps.read(tmp_path / "x.h5")
    with pytest.raises(ps.DataError, match="not equally long"):
        ps.read(tmp_path / "x.h5", columns=["x", "empty"])
    assert rows_of(ps.read(tmp_path / "x.h5", columns=["x"])) == {"x": [0, 1]}
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", (2, 1 << 20), "f8", chunks=(1, 1 << 20))
    with pytest.raises(
        ps.DataError, match=r"a row of x takes 8,388,608 bytes; Limits\(record_bytes=1,000\) allows fewer"
    ):
        ps.read(tmp_path / "x.h5", limits=ps.Limits(record_bytes=1_000))


@pytest.mark.slow
def test_damage_is_told(tmp_path: Path) -> None:
    """A cut file cannot be opened; a flipped bit under a checksum (fletcher32) or in packed values is an error."""
    path = tmp_path / "x.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.arange(400), chunks=(400,), compression="gzip", fletcher32=True)
        start, size = file["x"].id.get_chunk_info(0).byte_offset, file["x"].id.get_chunk_info(0).size
    whole = path.read_bytes()
    wanted = list(range(400))

    def read() -> Any:
        return rows_of(ps.read(path))

    assert errors(outcomes(path, cuts(whole, 17), read)) == -(-len(whole) // 17)
    flipped = [
        whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :] for place in range(start, start + size, 5)
    ]
    assert errors(outcomes(path, iter(flipped), read)) == len(flipped)
    assert outcomes(path, iter([whole + b"garbage"]), read) == [{"x": wanted}]
    path.write_bytes(b"")
    with pytest.raises(ps.DataError, match=r"x\.h5: h5py cannot open it"):
        ps.read(path)


def test_chunks_across_rows_are_read_in_parts_with_a_warning(tmp_path: Path) -> None:
    """Whole chunks of one column each would be 1.3 GB together."""
    with h5py.File(tmp_path / "wide.h5", "w") as file:
        file.create_dataset("x", shape=(40_000, 8_192), dtype="f4", chunks=(40_000, 1))[:, 7] = np.arange(40_000)
    with pytest.warns(UserWarning, match=r"would take 1,310,720,000 bytes; 32 rows are read at a time.* 1,250 times"):
        dataset = ps.read(tmp_path / "wide.h5")
    with ps.Loader(dataset.batch(2)) as loader:
        batch = loader.batch_at(0, 3)
    assert batch["x"].shape == (2, 8_192)
    assert batch["x"][:, 7].tolist() == [6, 7]


PYTABLES = Path(__file__).parents[1] / "golden" / "pytables.h5"


def test_pytables() -> None:
    """What h5py cannot read keeps nothing else from being read."""
    chosen = through(
        ps.read(PYTABLES, columns=["plain", "packed", "lists", "table.number", "table.name", "table.pair"])
    )
    assert chosen == {
        "plain": list(range(9)),
        "packed": [[row, -row] for row in range(9)],
        "lists": [list(range(row)) for row in range(9)],
        "table.number": list(range(9)),
        "table.name": [f"n{row}" for row in range(9)],
        "table.pair": [[row, row / 2] for row in range(9)],
    }
    for columns in (None, ["times"]):
        with pytest.raises(ps.DataError, match=r"pytables\.h5: h5py cannot read the type of /times .*; choose others"):
            ps.read(PYTABLES, columns=columns)
    with pytest.raises(
        ps.DataError, match=r"pytables\.h5, blosc, rows 0 to [68]: .* a filter that HDF5 does not have: install"
    ):
        through(ps.read(PYTABLES, columns=["blosc"]))


def test_fields_beside_one_that_no_batch_can_hold(tmp_path: Path) -> None:
    """As pandas writes tables: text in rows of one value."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["table"] = np.array([(row, [b"x"]) for row in range(3)], dtype=[("index", "i8"), ("texts", "S2", (1,))])
    assert through(ps.read(tmp_path / "a.h5", columns=["table.index"])) == {"table.index": [0, 1, 2]}
    for columns in (None, ["table.texts"]):
        with pytest.raises(ps.PlanError, match=r"a\.h5: table\.texts holds .*choose others with columns"):
            ps.read(tmp_path / "a.h5", columns=columns)


def test_matlab(tmp_path: Path) -> None:
    """Version 7.3: HDF5 behind a block of 512 bytes of MATLAB's own."""
    path = tmp_path / "a.mat"
    with h5py.File(path, "w", userblock_size=512) as file:
        file["x"] = np.arange(6.0).reshape(3, 2)
    with path.open("r+b") as raw:
        raw.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\0\2IM")
    assert through(ps.read(path, format="hdf5")) == {"x": [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]}


@pytest.mark.parametrize("locking", [None, True, False, "best-effort"])
def test_a_file_that_is_open_elsewhere_in_the_process(tmp_path: Path, locking: Any) -> None:
    """HDF5 wants the same locks of all who have a file open."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=np.arange(6), chunks=(4,))
    with h5py.File(tmp_path / "a.h5", locking=locking):
        assert through(ps.read(tmp_path / "a.h5")) == {"x": list(range(6))}


def test_names_with_dots_and_groups_are_columns_of_their_own(tmp_path: Path) -> None:
    """A dataset a.b, and one that is called b in a group a."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a.b"], file["a/b"], file["c.d"] = np.arange(3), np.arange(3) * 10, np.arange(3) * 100
    assert rows_of(ps.read(tmp_path / "a.h5")) == {r"a\.b": [0, 1, 2], "a.b": [0, 10, 20], "c.d": [0, 100, 200]}
    assert rows_of(ps.read(tmp_path / "a.h5", columns={"x": "a.b"})) == {"x": [0, 10, 20]}


def test_fields_that_would_be_one_column_with_a_dataset_are_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a.b"], file["c"] = np.arange(3), np.arange(3)
        file["a"] = np.zeros(3, [("b", "i4")])
    with pytest.raises(ps.PlanError, match=r"a\.h5: two values would be the column 'a\.b'"):
        ps.read(tmp_path / "a.h5")
    assert rows_of(ps.read(tmp_path / "a.h5", columns=["c"])) == {"c": [0, 1, 2]}
