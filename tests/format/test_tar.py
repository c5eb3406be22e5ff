"""WebDataset tar archives, against what webdataset and GNU tar wrote and webdataset read."""

from __future__ import annotations

import gzip
import json
import os
import struct
import tarfile
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from penstock.core.columns.spec import Field
from penstock.core.errors import DataError, PlanError, RowError, SourceError
from penstock.core.limits import Limits
from support import damage
from support.packers import PACKERS
from support.tars import GOLDEN, archive, member, npy, with_sum, write
from support.tfrecords import listed

PAIRS = [(f"{number:03d}.{kind}", str(number).encode() * number) for number in range(12) for kind in ("jpg", "txt")]


def read(path: Path, **options) -> dict[str, list]:
    """All columns as lists of Python values."""
    columns = damage.load_all(ps.read(str(path), **options))
    return {name: listed(column) for name, column in columns.items()}


def golden(name: str) -> list[dict[str, bytes]]:
    rows = json.loads((GOLDEN / f"{name}.json").read_text())
    return [
        {key: value if key == "__key__" else bytes.fromhex(value) for key, value in row.items() if key != "__bad__"}
        for row in rows
    ]


@pytest.mark.parametrize("name", ["plain.tar", "packed.tar.gz", "gnu.tar", "posix.tar", "v7.tar", "ustar.tar"])
def test_members_are_those_that_webdataset_reads(name: str) -> None:
    wanted = golden(name.replace("packed.tar.gz", "plain.tar"))
    names = list(wanted[0])
    columns = {key: key if key == "__key__" else ps.Column(feature=key, dtype="bytes") for key in names}
    found = read(GOLDEN / name, columns=columns)
    assert found == {key: [row[key] for row in wanted] for key in names}


def test_what_is_inferred_and_decoded() -> None:
    dataset = ps.read(str(GOLDEN / "plain.tar"))
    assert dataset.spec == {
        "__key__": Field("string"),
        "cls": Field("int64"),
        "jpg": Field("bytes"),
        "json": Field("string"),
        "mask.npy": Field("int16", (2, 3)),
        "npy": Field("float32", (None, 1)),
        "txt": Field("string"),
    }
    found = read(GOLDEN / "plain.tar")
    assert found["__key__"] == [f"train/{number:04d}" for number in range(5)]
    assert found["cls"] == [0, 1, 2, 0, 1]
    assert found["txt"][3] == "a pictüre of 3"
    assert [json.loads(text)["number"] for text in found["json"]] == list(range(5))
    assert found["mask.npy"] == [(np.arange(6).reshape(2, 3) + number).tolist() for number in range(5)]
    assert found["npy"] == [(np.arange(n % 4, dtype=np.float32).reshape(-1, 1) / 3).tolist() for n in range(5)]


def test_batches_of_every_order_and_thread_hold_the_same(tmp_path: Path) -> None:
    rows = 700
    files = [
        (f"{number:05d}.{kind}", content)
        for number in range(rows)
        for kind, content in {"cls": b"%d" % number, "bin": b"%d" % number * (number % 50)}.items()
    ]
    write(tmp_path / "a.tar", files[:500])
    write(tmp_path / "b.tar", files[500:])
    dataset = ps.read(str(tmp_path)).shuffle(seed=1).batch(64)
    seen = {}
    with ps.Loader(dataset, to="numpy") as loader:
        for batch in loader:
            seen |= zip(batch["cls"].tolist(), batch["bin"].to_pylist(), strict=True)
    assert seen == {number: b"%d" % number * (number % 50) for number in range(rows)}


def test_long_and_short_members_are_found_alike(tmp_path: Path) -> None:
    """Headers are hopped to behind long members, and read with their neighbours among short ones."""
    sizes = [10, 300_000, 5, 5, 70_000, 40_000, 600_000, 0, 1, 33_000, 2, 1_100_000, 3]
    contents = [bytes([number]) * size for number, size in enumerate(sizes)]
    files = [(f"{number:02d}.{kind}", content) for number, content in enumerate(contents) for kind in ("bin", "txt")]
    write(tmp_path / "a.tar", files)
    found = read(tmp_path / "a.tar")
    assert found["bin"] == contents
    assert found["txt"] == [content.decode() for content in contents]


def test_a_shard_of_other_columns(tmp_path: Path) -> None:
    write(tmp_path / "a.tar", PAIRS)
    write(tmp_path / "b.tar", [("100.png", b"p"), ("100.txt", b"t")])
    with (
        ps.Loader(ps.read(str(tmp_path)).batch(13)) as loader,
        pytest.raises(DataError, match=r'b\.tar, record 0, byte 0: member "jpg": the sample lacks it; expected bytes'),
    ):
        next(iter(loader))


@pytest.mark.parametrize("format", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_names(tmp_path: Path, format: int) -> None:
    folders = "folder/" * (12 if format == tarfile.USTAR_FORMAT else 60)
    names = [
        f"{folders}{number:03d}{'x' * 90}"[: 200 if format == tarfile.USTAR_FORMAT else None] for number in range(3)
    ]
    write(tmp_path / "a.tar", [(f"{name}.cls", b"7") for name in names], format)
    assert read(tmp_path / "a.tar") == {"__key__": names, "cls": [7, 7, 7]}


def test_names_that_climb_are_keys_and_nothing_else(tmp_path: Path) -> None:
    keys = ["../../up/a", "/etc/passwd", "./b", "c/../d"]
    write(tmp_path / "a.tar", [(f"{key}.cls", b"1") for key in keys])
    assert read(tmp_path / "a.tar")["__key__"] == keys
    assert [path.name for path in tmp_path.iterdir()] == ["a.tar"]


def test_what_belongs_to_no_sample_is_passed(tmp_path: Path) -> None:
    files = [
        ("__index__/x.json", b"{}"),
        ("000.cls", b"0"),
        ("README", b"text" * 500),
        ("000.txt", b"zero"),
        ("._001.cls", b"apple"),
        ("001.cls", b"1"),
        ("001.TXT", b"one"),
        ("docs/.hidden", b""),
    ]
    write(tmp_path / "a.tar", files)
    found = {"__key__": ["000", "001"], "cls": [0, 1], "txt": ["zero", "one"]}
    assert read(tmp_path / "a.tar") == found
    content = (tmp_path / "a.tar").read_bytes()
    (tmp_path / "a.tar").write_bytes(member("folder", tarfile.DIRTYPE) + member("label", b"V") + content)
    assert read(tmp_path / "a.tar") == found


def test_alternatives_and_defaults(tmp_path: Path) -> None:
    write(tmp_path / "a.tar", [("0.jpg", b"j"), ("0.png", b"p"), ("1.png", b"q"), ("1.cls", b" 5\n"), ("2.jpeg", b"r")])
    columns = {
        "image": "png;jpg;jpeg",
        "label": ps.Column(feature="cls", dtype="int8", default=-1),
        "text": ps.Column(feature="txt;json", dtype="string", default="none"),
        "raw": ps.Column(feature="cls", dtype="bytes", default=b""),
    }
    with pytest.raises(PlanError, match=r"no column 'txt;json' in the first samples"):
        read(tmp_path / "a.tar", columns={"text": "txt;json"})
    found = read(tmp_path / "a.tar", columns=columns)
    assert found["image"] == [b"p", b"q", b"r"]
    assert found["label"] == [-1, 5, -1]
    assert found["raw"] == [b"", b" 5\n", b""]
    assert found["text"] == ["none"] * 3


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        ({"x": "jgp"}, r"no column 'jgp' in the first samples; there are __key__, jpg, txt.*; did you mean 'jpg'\?"),
        ({"x": ps.Column(feature="jpg", dtype="float32")}, r"cannot become float32; it can become bytes, string"),
        ({"x": ps.Column(feature="jpg", shape=(3,))}, r"is one value; its shape is \(\)"),
        ({"x": ps.Column(feature="txt", default=1)}, "default 1 is no string"),
        ([], "none are named"),
    ],
)
def test_columns_that_cannot_be(tmp_path: Path, columns, found: str) -> None:
    write(tmp_path / "a.tar", PAIRS)
    with pytest.raises(PlanError, match=found):
        ps.read(str(tmp_path / "a.tar"), columns=columns)


def test_members_that_only_some_samples_have(tmp_path: Path) -> None:
    write(tmp_path / "a.tar", [*PAIRS, ("012.jpg", b"alone")])
    with pytest.raises(
        PlanError, match=r"1 of the first 13 samples of .*a\.tar have no member 'txt'; give the column a def"
    ):
        ps.read(str(tmp_path / "a.tar"))
    write(tmp_path / "a.tar", [*((f"{n:03d}.txt", b"t") for n in range(120)), ("120.jpg", b"alone")])
    with pytest.raises(
        RowError, match='row 120: member "txt": the sample lacks it; expected string; give the column a'
    ):
        read(tmp_path / "a.tar")


def test_numbers_that_are_none(tmp_path: Path) -> None:
    write(tmp_path / "a.tar", [("0.cls", b"cat"), ("1.cls", b"5")])
    assert read(tmp_path / "a.tar")["cls"] == ["cat", "5"]
    number = {"x": ps.Column(feature="cls", dtype="uint8")}
    with pytest.raises(RowError, match='row 0: member "cls": "cat" is no whole number; expected uint8'):
        read(tmp_path / "a.tar", columns=number)
    write(tmp_path / "a.tar", [("0.cls", b"255"), ("1.cls", b"256")])
    with pytest.raises(RowError, match=r"row 1: .*the value 256 does not fit; expected uint8; give the column a wider"):
        read(tmp_path / "a.tar", columns=number)
    write(tmp_path / "a.tar", [("0.txt", b"\xff")])
    with pytest.raises(RowError, match="bytes that are not UTF-8; expected string"):
        read(tmp_path / "a.tar")


def test_arrays_of_many_dtypes(tmp_path: Path) -> None:
    for dtype in ("?", "i1", ">i2", "<u4", ">u8", "f2", ">f4", "f8"):
        arrays = [np.arange(24).reshape(2, 3, 4).astype(dtype) + np.array(number).astype(dtype) for number in range(3)]
        arrays[1] = np.asfortranarray(arrays[1])
        write(tmp_path / "a.tar", [(f"{number}.npy", npy(array)) for number, array in enumerate(arrays)])
        assert ps.read(str(tmp_path / "a.tar")).spec["npy"] == Field(np.dtype(dtype).newbyteorder("=").name, (2, 3, 4))
        assert read(tmp_path / "a.tar")["npy"] == [array.tolist() for array in arrays]


@pytest.mark.parametrize(
    ("array", "found"),
    [
        (np.array([{"a": 1}], dtype=object), "holds Python objects, which are a pickle and are never loaded"),
        (np.array(["text"]), "which is no number"),
        (np.zeros(2, dtype=[("a", "i4")]), "an array of structures"),
    ],
)
def test_arrays_of_something_else_than_numbers(tmp_path: Path, array: np.ndarray, found: str) -> None:
    write(tmp_path / "a.tar", [("0.npy", npy(array) if array.dtype != object else pickled())])
    with pytest.raises(DataError, match=found):
        ps.read(str(tmp_path / "a.tar"))
    raw = {"x": ps.Column(feature="npy", dtype="bytes")}
    assert read(tmp_path / "a.tar", columns=raw)["x"][0].startswith(b"\x93NUMPY")


def pickled() -> bytes:
    """An array of objects whose pickle would run a command."""
    header = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
    return b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) + header + b"cos\nsystem\n(S'touch /tmp/executed'\ntR."


def test_arrays_whose_shapes_differ(tmp_path: Path) -> None:
    shapes = [(2, 3), (2, 4)]
    write(tmp_path / "a.tar", [(f"{number}.npy", npy(np.zeros(shape))) for number, shape in enumerate(shapes)])
    with pytest.raises(PlanError, match=r"are arrays of the shapes \(2, 3\), \(2, 4\), which are not None"):
        ps.read(str(tmp_path / "a.tar"))
    shapes = [(2, 3)] * 101 + [(5, 3)]
    write(tmp_path / "a.tar", [(f"{number}.npy", npy(np.zeros(shape))) for number, shape in enumerate(shapes)])
    with pytest.raises(RowError, match=r"row 101: .*an array of float64\[5, 3\]; expected float64\(2, 3\)"):
        read(tmp_path / "a.tar")
    varying = {"x": ps.Column(feature="npy", shape=(None, 3))}
    assert len(read(tmp_path / "a.tar", columns=varying)["x"][101]) == 5
    with pytest.raises(RowError, match="an array of 15 numbers, the limit is 14"):
        read(tmp_path / "a.tar", columns=varying, limits=Limits(values=14))


def test_a_sample_with_a_member_twice(tmp_path: Path) -> None:
    write(tmp_path / "a.tar", [("0.cls", b"1"), ("0.CLS", b"2")])
    with pytest.raises(DataError, match=r'a\.tar, byte 1024: a second member "0\.CLS" of one sample; give each sample'):
        ps.read(str(tmp_path / "a.tar"))


@pytest.mark.parametrize(
    ("kind", "found"),
    [
        (tarfile.LNKTYPE, "a hard link, which holds no data; write the archive with tar --hard-dereference"),
        (tarfile.SYMTYPE, "a symbolic link"),
        (tarfile.GNUTYPE_SPARSE, "sparse"),
        (tarfile.FIFOTYPE, "a device or pipe"),
        (b"?", "of a kind that no dataset has"),
    ],
)
def test_members_without_data_are_refused(tmp_path: Path, kind: bytes, found: str) -> None:
    (tmp_path / "a.tar").write_bytes(archive(PAIRS)[:1024] + member("001.cls", kind) + archive(PAIRS)[1024:])
    with pytest.raises(DataError, match=rf'byte \d+: member "001\.cls" \(type .*\) is {found}'):
        ps.read(str(tmp_path / "a.tar"))


def test_sparse_members_of_gnu_tar_in_extended_headers_are_refused(tmp_path: Path) -> None:
    records = b"22 GNU.sparse.major=1\n"
    extended = member("x", tarfile.XHDTYPE, size=len(records)) + records.ljust(512, b"\0")
    (tmp_path / "a.tar").write_bytes(extended + archive(PAIRS))
    with pytest.raises(DataError, match=r"a\.tar, byte 0: a sparse member, .*; write the archive without tar --sparse"):
        ps.read(str(tmp_path / "a.tar"))


def test_sizes_in_base_256_and_in_extended_headers(tmp_path: Path) -> None:
    plain = archive([("0.cls", b"7")])
    big = with_sum(plain[:124] + b"\x80" + bytes(10) + b"\x01" + plain[136:512]) + plain[512:]
    records = b"10 size=1\n"
    extended = member("x", tarfile.XHDTYPE, size=len(records)) + records.ljust(512, b"\0")
    extended += with_sum(plain[:124] + b"00000000000\0" + plain[136:512]) + plain[512:]
    for content in (big, extended):
        (tmp_path / "a.tar").write_bytes(content)
        assert read(tmp_path / "a.tar") == {"__key__": ["0"], "cls": [7]}


def test_sums_of_signed_bytes_as_old_writers_made_them(tmp_path: Path) -> None:
    plain = archive([("ü.cls", b"7")])
    signed = sum(byte - 256 * (byte > 127) for byte in plain[:148] + plain[156:512]) + 8 * 32
    (tmp_path / "a.tar").write_bytes(plain[:148] + b"%06o\0 " % signed + plain[156:])
    assert read(tmp_path / "a.tar")["__key__"] == ["ü"]


def test_archives_that_end_badly(tmp_path: Path) -> None:
    whole = archive(PAIRS)
    path = tmp_path / "a.tar"
    path.write_bytes(whole[:-1024])
    with pytest.raises(DataError, match=rf"byte {len(whole) - 1024}: the end of the file.*truncate -s \+1024"):
        ps.read(str(path))
    path.write_bytes(whole + whole)
    with pytest.raises(
        DataError, match=rf"byte {len(whole)}: the archive ends before it, and more follows; .*joined with"
    ):
        ps.read(str(path))
    path.write_bytes(whole[:1024] + bytes(1024))
    assert read(path)["jpg"] == [b""]
    path.write_bytes(bytes(10_240))
    with pytest.raises(SourceError, match=r"no samples in 1 archive"):
        ps.read(str(path))


def test_a_packed_archive_is_unpacked_within_limits(tmp_path: Path) -> None:
    path = tmp_path / "a.tgz"
    path.write_bytes(gzip.compress(archive(PAIRS)))
    assert read(path)["txt"][11] == "11" * 11
    path.write_bytes(gzip.compress(archive([("0.bin", bytes(8 << 20))])))
    with pytest.raises(DataError, match=r"compressed bytes expand to more than \d+; raise Limits"):
        ps.read(str(path), limits=Limits(ratio=50))


@pytest.mark.parametrize("kind", ["gz", "zst", "bz2", "xz", "lz4"])
def test_archives_packed_in_other_ways(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"a.tar.{kind}"
    path.write_bytes(PACKERS[kind](archive(PAIRS)))
    assert read(path)["txt"][11] == "11" * 11
    assert ps.read(str(path)).source.manifest.format == "webdataset"
    path.write_bytes(PACKERS[kind](archive([("0.bin", bytes(8 << 20))])))
    with pytest.raises(DataError, match=r"compressed bytes expand to more than \d+; raise Limits"):
        ps.read(str(path), limits=Limits(ratio=50))


def test_the_suffix_is_not_needed(tmp_path: Path) -> None:
    path = tmp_path / "shard-000"
    path.write_bytes(archive(PAIRS))
    with pytest.raises(DataError, match=r'byte 1024: sample "001" has 2048 bytes, the limit is 2000; raise Limits'):
        ps.read(str(path), limits=Limits(record_bytes=2_000))
    assert len(ps.read(str(path))) == 12


def test_a_file_that_changed_in_place_with_its_old_time(tmp_path: Path) -> None:
    files = [("000.jpg", b"j" * 1100), *PAIRS[1:]]
    path = write(tmp_path / "a.tar", files)
    dataset, listed = ps.read(str(path)).batch(12), path.stat()
    write(path, [*files[2:], *files[:2]])
    os.utime(path, ns=(listed.st_atime_ns, listed.st_mtime_ns))
    with ps.Loader(dataset) as loader:
        batches = iter(loader)
        with pytest.raises(DataError, match=r"a\.tar, record 0, byte 0: byte 2048 of the record: .*index it again"):
            next(batches)
