"""Writes tests/golden/lmdb/<name>/data.mdb with py-lmdb (which brings LMDB itself): python tests/golden/make_lmdb.py."""

from __future__ import annotations

import shutil
from pathlib import Path

import lmdb

ROOT = Path(__file__).parent / "lmdb"


def write(name: str, records: dict[bytes, bytes], database: bytes | None = None, **options: object) -> None:
    """Puts records in the given order, in three transactions, the last of which removes a record again."""
    env = lmdb.open(str(ROOT / name), map_size=1 << 24, max_dbs=4)
    handle = env.open_db(database, **options)
    rows = list(records.items())
    for part in (rows[: len(rows) // 2], rows[len(rows) // 2 :]):
        with env.begin(write=True, db=handle) as transaction:
            for key, value in part:
                transaction.put(key, value)
    with env.begin(write=True, db=handle) as transaction:
        transaction.put(b"zzzz", b"gone" * 100)
        transaction.delete(b"zzzz")
    env.close()
    (ROOT / name / "lock.mdb").unlink()


if __name__ == "__main__":
    shutil.rmtree(ROOT, ignore_errors=True)
    ROOT.mkdir()
    write("plain", {b"%04d" % row: bytes([row]) * (row * row * 3) for row in [*range(1, 40, 2), *range(0, 40, 2)]})
    write("named", {b"a": b"picture"}, b"images")
    write("named", {b"%d" % row: bytes([row]) for row in range(5)}, b"labels")
    write("empty", {})
    write("several", {b"a": b"x"}, b"many", dupsort=True)
