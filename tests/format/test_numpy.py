"""NumPy's own files: what np.save and np.savez wrote comes back, and what is damaged or runs code is refused."""

from __future__ import annotations

import io
import pickle
import struct
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.lib import format as numpy_format

import penstock as ps
from support.cases import MemoryStorage
from support.files import columns_of, cuts, errors, flips, outcomes, rows_of, through
from support.tries import tries

RNG = np.random.default_rng(4)


def values(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    return RNG.integers(0, 100, shape).astype(dtype)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("shape", [(23,), (23, 3), (23, 2, 5), (23, 0), (23, 1)])
@pytest.mark.parametrize("dtype", ["bool", "u1", "<i2", ">i2", ">f4", "<f8", "f2", "<c8", ">c16", "M8[D]"])
def test_every_dtype_shape_and_order(tmp_path: Path, dtype: str, shape: tuple[int, ...], order: str) -> None:
    array = np.asarray(values(dtype, shape), order=order)
    np.save(tmp_path / "x.npy", array)
    found = columns_of(ps.read(tmp_path / "x.npy"))["array"]
    wanted = np.ascontiguousarray(array).view("i8") if array.dtype.kind == "M" and array.size else array
    assert (found == wanted.astype(found.dtype)).all()
    assert found.shape == array.shape
    assert found.dtype.isnative
    if dtype != "M8[D]":
        assert found.dtype == array.dtype.newbyteorder("=")


def test_text_and_bytes_of_a_fixed_width(tmp_path: Path) -> None:
    np.save(tmp_path / "text.npy", np.array(["", "a\0b", "Größe", "雪"]))
    np.save(tmp_path / "bytes.npy", np.array([b"", b"a", b"\xff\x00b"]))
    assert rows_of(ps.read(tmp_path / "text.npy"))["array"] == ["", "a\0b", "Größe", "雪"]
    assert rows_of(ps.read(tmp_path / "bytes.npy"))["array"] == [b"", b"a", b"\xff\x00b"]
    damaged = bytearray((tmp_path / "text.npy").read_bytes())
    damaged[-1] = 0x7F  # beyond the last code point
    (tmp_path / "text.npy").write_bytes(damaged)
    with pytest.raises(ps.DataError, match=r"text\.npy, record 3.*its text holds what is no character"):
        list(ps.Loader(ps.read(tmp_path / "text.npy").batch(4)))


def test_fields_are_columns(tmp_path: Path) -> None:
    kind = np.dtype([("id", ">i4"), ("box", [("left", "f4"), ("name", "S3")]), ("pixels", "u1", (2, 2))], align=True)
    array = np.zeros(9, dtype=kind)
    array["id"], array["pixels"] = np.arange(9), values("u1", (9, 2, 2))
    array["box"]["left"], array["box"]["name"] = np.sqrt(np.arange(9)), [b"n%d" % row for row in range(9)]
    np.save(tmp_path / "x.npy", array)
    dataset = ps.read(tmp_path / "x.npy")
    assert {name: str(field) for name, field in dataset.spec.items()} == {
        "id": "int32",
        "box.left": "float32",
        "box.name": "bytes",
        "pixels": "uint8(2, 2)",
    }
    found = through(dataset)
    assert found["id"] == list(range(9))
    assert found["box.left"] == array["box"]["left"].tolist()
    assert found["box.name"] == [b"n%d" % row for row in range(9)]
    assert found["pixels"] == array["pixels"].tolist()
    assert rows_of(ps.read(tmp_path / "x.npy", columns={"x": "box.left"})) == {"x": array["box"]["left"].tolist()}
    with pytest.raises(ps.PlanError, match=r"no column 'box.lef'; there are id, box\.left, .*did you mean 'box.left'"):
        ps.read(tmp_path / "x.npy", columns=["box.lef"])


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_version_of_the_header(tmp_path: Path, version: tuple[int, int]) -> None:
    with open(tmp_path / "x.npy", "wb") as file:
        numpy_format.write_array(file, np.arange(7), version=version)
    assert rows_of(ps.read(tmp_path / "x.npy"))["array"] == list(range(7))


def test_shards_and_ranges(tmp_path: Path) -> None:
    parts = [values("f4", (rows, 3)) for rows in (5, 0, 17)]
    for number, part in enumerate(parts):
        np.save(tmp_path / f"{number}.npy", np.asfortranarray(part) if number == 2 else part)
    wanted = np.concatenate(parts).tolist()
    assert through(ps.read(tmp_path))["array"] == wanted
    for number, part in enumerate(parts):
        np.save(tmp_path / f"{number}.npy", part)
    storage = MemoryStorage({f"n/{path.name}": path.read_bytes() for path in tmp_path.iterdir()})
    assert through(ps.read("n/", storage=storage))["array"] == wanted
    assert storage.reads
    np.save(tmp_path / "1.npy", values("f4", (2, 4)))
    with pytest.raises(
        ps.DataError, match=r"1\.npy: rows of float32 and shape \(4,\), .*0\.npy has float32 and \(3,\)"
    ):
        ps.read(tmp_path)
    np.save(tmp_path / "1.npy", np.float32(3))
    with pytest.raises(ps.DataError, match=r"1\.npy: a single value, without rows"):
        ps.read(tmp_path)


class Evil:
    """Would leave a file behind if it were unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_pickles_are_refused_and_never_run(tmp_path: Path) -> None:
    array = np.array([Evil(tmp_path / "evil")], dtype=object)
    assert pickle.dumps(array)
    np.save(tmp_path / "x.npy", array, allow_pickle=True)
    np.savez(tmp_path / "x.npz", good=np.arange(1), bad=array, allow_pickle=True)
    for name in ("x.npy", "x.npz"):
        with pytest.raises(ps.DataError, match=r"holds Python objects .*pickle can run any code and is never opened"):
            ps.read(tmp_path / name)
    assert rows_of(ps.read(tmp_path / "x.npz", columns=["good"])) == {"good": [0]}
    assert not (tmp_path / "evil").exists()


def header(text: str, version: int = 1, length: int | None = None) -> bytes:
    size = len(text) if length is None else length
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", size) + text.encode()


HOSTILE = {
    "long header": header("{}", 2, 1 << 31),
    "many rows": header(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({1 << 61}, 4)}}"),
    "negative": header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}"),
    "no tuple": header("{'descr': '<f4', 'fortran_order': False, 'shape': [1]}") + b"1234",
    "deep": header("(" * 5000 + ")" * 5000),
    "code": header("__import__('os').abort()"),
    "keys": header("{'descr': '<f4', 'shape': (1,)}") + b"1234",
    "dtype": header("{'descr': 'nonsense', 'fortran_order': False, 'shape': (1,)}") + b"1234",
    "void": header("{'descr': '|V4', 'fortran_order': False, 'shape': (1,)}") + b"1234",
    "version": header("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", 9) + b"1234",
    "empty": b"",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_headers(tmp_path: Path, name: str) -> None:
    (tmp_path / "x.npy").write_bytes(HOSTILE[name])
    with pytest.raises(ps.PenstockError, match=r"x\.npy"):
        ps.read(tmp_path / "x.npy")


@pytest.mark.slow
def test_damaged_arrays(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    array = values("f4", (6, 3))
    np.save(path, array)
    whole = path.read_bytes()

    def read() -> Any:
        return rows_of(ps.read(path))

    assert errors(outcomes(path, cuts(whole), read)) == len(whole)
    found = outcomes(path, flips(whole, tries(5_000)), read)
    assert 0.4 * len(found) < errors(found) < len(found)
    assert errors(outcomes(path, iter([whole + b"x", whole + whole]), read)) == 2


# .npz


def saved(path: Path, *, packed: bool, **arrays: Any) -> Path:
    (np.savez_compressed if packed else np.savez)(path, **arrays)
    return path


@pytest.mark.parametrize("packed", [False, True])
def test_archives(tmp_path: Path, packed: bool) -> None:
    sizes = (5, 12)
    arrays = [
        {
            "id": np.arange(size) + 5 * number,
            "image": np.asfortranarray(values(">f4", (size, 3, 2))),
            "row": np.array([(i, i / 2) for i in range(size)], dtype=[("a", "i2"), ("b", "f8")]),
            "name": np.array([f"n{i:02}" for i in range(size)]),
        }
        for number, size in enumerate(sizes)
    ]
    for number, part in enumerate(arrays):
        saved(tmp_path / f"{number}.npz", packed=packed, **part)
    for _ in range(2):  # the second time from the cache
        dataset = ps.read(tmp_path)
        found = through(dataset)
        assert list(found) == ["id", "image", "row.a", "row.b", "name"]
        assert found["id"] == list(range(17))
        assert found["image"] == np.concatenate([part["image"] for part in arrays]).tolist()
        assert found["row.b"] == [i / 2 for size in sizes for i in range(size)]
        assert found["name"] == [f"n{i:02}" for size in sizes for i in range(size)]
    assert rows_of(ps.read(tmp_path, columns={"x": "row.a"})) == {"x": [i for size in sizes for i in range(size)]}
    with pytest.raises(ps.PlanError, match=r"no column 'ids'; there are id, image.*did you mean 'id'"):
        ps.read(tmp_path, columns=["ids"])


def test_arrays_of_other_lengths(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.npz", packed=False, a=np.arange(3), b=np.arange(4), c=np.int64(1))
    with pytest.raises(
        ps.DataError, match=r"not equally long \(a: 3, b: 4, c: a single value\); choose some with columns"
    ):
        ps.read(path)
    assert rows_of(ps.read(path, columns=["b"])) == {"b": [0, 1, 2, 3]}
    saved(tmp_path / "y.npz", packed=False, a=np.arange(3.0))
    with pytest.raises(ps.DataError, match=r"y\.npz: a has rows of float64 and shape \(\), in .*x\.npz they are int64"):
        ps.read(tmp_path, columns=["a"])
    saved(tmp_path / "y.npz", packed=False, z=np.arange(3))
    with pytest.raises(ps.DataError, match=r"y\.npz: no array 'a', which .*x\.npz has"):
        ps.read(tmp_path, columns=["a"])


@pytest.mark.slow
@pytest.mark.parametrize("packed", [False, True])
def test_damaged_archives(tmp_path: Path, packed: bool) -> None:
    arrays = {"a": values("i4", (9, 2)), "b": np.arange(9)}
    path = saved(tmp_path / "x.npz", packed=packed, **arrays)
    whole = path.read_bytes()
    wanted = {name: array.tolist() for name, array in arrays.items()}

    def read() -> Any:
        return rows_of(ps.read(path))

    assert errors(outcomes(path, cuts(whole, 3), read)) == -(-len(whole) // 3)
    found = outcomes(path, flips(whole, tries(2_000)), read)
    assert errors(found) > len(found) / 3
    if packed:  # the archive's checksums see every change of a value
        assert all(one == wanted for one in found if isinstance(one, dict) and list(one) == ["a", "b"])


def test_a_bomb_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.npz", packed=True, a=np.zeros(4 << 20, dtype=np.uint8))
    assert len(ps.read(path)) == 4 << 20
    with pytest.raises(ps.DataError, match=r"bytes say that they unpack to 4,194,432; Limits\(ratio=100\) allows less"):
        ps.read(path, limits=ps.Limits(ratio=100))
    with pytest.raises(ps.DataError, match=r"4,194,432 bytes unpacked, Limits\(unpacked_bytes=1,000\) allows fewer"):
        ps.read(path, limits=ps.Limits(unpacked_bytes=1_000))


def test_members_that_are_no_arrays(tmp_path: Path) -> None:
    inner = io.BytesIO()
    np.save(inner, np.arange(3))
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("a.npy", inner.getvalue())
        archive.writestr("b.npy", b"no array")
        archive.writestr("readme.txt", b"hello")
    with pytest.raises(ps.DataError, match=r"x\.npz, b\.npy, byte 0: 6e 6f 20 61 .* where the header of an array"):
        ps.read(tmp_path / "x.npz")
    assert rows_of(ps.read(tmp_path / "x.npz", columns=["a"])) == {"a": [0, 1, 2]}


HEADERS = {
    "cnpy": "{'descr': '<f4', 'fortran_order': False, 'shape': (6, 4), }",
    "without spaces": "{'descr':'<f4','fortran_order':False,'shape':(6,4)}",
    "double quotes": '{"descr": "<f4", "fortran_order": False, "shape": (6, 4)}',
    "another order": "{'shape': (6, 4), 'descr': '<f4', 'fortran_order': False}",
    "Python 2": "{'descr': '<f4', 'fortran_order': False, 'shape': (6L, 4L), }",
    "native order": "{'descr': '=f4', 'fortran_order': False, 'shape': (6, 4), }",
    "tabs and newlines": "{'descr': '<f4',\t'fortran_order': False,\n'shape': (6, 4), }",
}


@pytest.mark.parametrize("padding", [1, 16, 64])
@pytest.mark.parametrize("name", HEADERS)
def test_headers_of_other_writers(name: str, padding: int, tmp_path: Path) -> None:
    """As NumPy reads them: other spaces, quotes and alignments."""
    wanted = np.arange(24, dtype="f4").reshape(6, 4)
    header = HEADERS[name].encode()
    header += b" " * (-(len(header) + 11) % padding) + b"\n"
    path = tmp_path / "a.npy"
    path.write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + wanted.tobytes())
    with warnings.catch_warnings(action="ignore"):  # NumPy's of Python 2
        np.testing.assert_array_equal(np.load(path), wanted)
    assert through(ps.read(path)) == {"array": wanted.tolist()}


def test_fields_that_would_be_one_column_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(3, [("a.b", "i4"), ("a", [("b", "i4")])]))
    with pytest.raises(ps.PlanError, match=r"a\.npy: two values would be the column 'a\.b', .*; rename one"):
        ps.read(tmp_path / "a.npy")
    np.savez(tmp_path / "b.npz", **{"a.b": np.zeros(3), "a": np.zeros(3, [("b", "i4")])})
    with pytest.raises(ps.PlanError, match=r"b\.npz: two values would be the column 'a\.b', .*; rename one"):
        ps.read(tmp_path / "b.npz")


@pytest.mark.parametrize("rows", [1 << 61, (1 << 62) - 1])
def test_more_rows_than_ids_can_count_are_refused(tmp_path: Path, rows: int) -> None:
    """A header of 128 bytes may say so, of rows that have no bytes."""
    for number in range(4):
        with (tmp_path / f"{number}.npy").open("wb") as file:
            numpy_format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (rows, 0)})
    with pytest.raises(ps.DataError, match=f"{4 * rows:,} rows in all, and ids are counted in 63 bits"):
        ps.read(tmp_path)
    each = [ps.read(tmp_path / f"{number}.npy", columns={f"x{number}": "array"}) for number in range(4)]
    with pytest.raises(ps.PlanError, match=f"{4 * rows:,} rows in all, and ids are counted in 63 bits"):
        ps.zip(each)
    each = [ps.read(tmp_path / f"{number}.npy") for number in range(4)]
    for join in (ps.concat, ps.mix):
        with pytest.raises(ps.PlanError, match=f"{4 * rows:,} rows in all, and ids are counted in 63 bits"):
            join(each)
    with pytest.raises(ps.PlanError, match=r"repeat: .* rows in all"):
        each[0].shuffle(seed=0).repeat(8)
