"""Parquet footers and page headers that lie about how much there is: the rows, or an error of ours, in little memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.bounded import Case, read_bounded

ROWS = 1_000
TABLES = {
    "text": pa.table({"s": [f"t{number}" for number in range(ROWS)]}),
    "few values": pa.table({"x": np.arange(ROWS) % 7}),
    "lists": pa.table({"l": [[number, number] for number in range(ROWS)]}),
}
#: What is said instead of a number of rows or values.
LIES = [0, ROWS - 1, ROWS + 1, 1 << 31, -(1 << 62)]
#: Instead of a page's number of values, in as many bytes.
PAGE_LIES = [ROWS - 1, 4_095, -4_095]
#: Fields of Thrift's compact form, one number behind the field before: of 64 bits in footers, of 32 in page headers.
FOOTER_FIELD, PAGE_FIELD = b"\x16", b"\x15"


def number(value: int) -> bytes:
    """A number in Thrift's compact form."""
    rest, found = (value << 1) ^ (value >> 63), bytearray()
    while rest > 127:
        found.append(rest & 127 | 128)
        rest >>= 7
    return bytes([*found, rest])


def replaced(content: bytes, field: bytes, lies: list[int]) -> Iterator[tuple[str, bytes]]:
    """Each number of rows or values, one at a time, by each lie; what follows is moved."""
    for true in (ROWS, 2 * ROWS):
        sought, at = field + number(true), -1
        while (at := content.find(sought, at + 1)) >= 0:
            for lie in lies:
                yield f"{at} {lie}", content[:at] + field + number(lie) + content[at + len(sought) :]


def files(table: pa.Table, path: Path) -> Iterator[tuple[str, bytes]]:
    pq.write_table(table, path, compression="none", use_dictionary=path.stem == "few values")
    content = path.read_bytes()
    footer_bytes = int.from_bytes(content[-8:-4], "little")
    pages, footer = content[: -8 - footer_bytes], content[-8 - footer_bytes : -8]
    for name, lying in replaced(footer, FOOTER_FIELD, LIES):
        yield f"footer {name}", pages + lying + len(lying).to_bytes(4, "little") + b"PAR1"
    for name, lying in replaced(pages, PAGE_FIELD, PAGE_LIES):
        yield f"page {name}", lying + content[len(pages) :]


@pytest.mark.parametrize("kind", TABLES)
def test_numbers_that_lie(kind: str, tmp_path: Path) -> None:
    cases = {}
    for name, content in files(TABLES[kind], tmp_path / f"{kind}.parquet"):
        path = tmp_path / f"{name}.parquet"
        path.write_bytes(content)
        cases[name] = Case(path=str(path))
    assert len(cases) > 3 * len(LIES)
    for name, found in read_bounded(cases, tmp_path / "cache").items():
        assert found.status == 0, name
        assert found.is_ours or found.said in ("read, of 1000 rows", "read, of 999 rows"), (name, found.said)
        assert found.used_mb < 160, name
