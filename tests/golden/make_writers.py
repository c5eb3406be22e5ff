"""Writes tests/golden/writers/<writer>.parquet with DuckDB, fastparquet, parquet-go and parquet-java: python tests/golden/make_writers.py.

Every file has columns of all the types that its writer has, with nulls. Needs duckdb, fastparquet, Go, a JDK and Maven; Spark, Hive and Trino write with
parquet-java. Compressed data depends on the versions, so that files are written anew only on purpose.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import duckdb
import fastparquet
import numpy as np
import pandas as pd

ROOT = Path(__file__).parent / "writers"
ROWS = 40

DUCKDB = """
copy (select
    n::bigint id, case when n % 3 <> 0 then 'text ' || (n % 5) end as text, case when n % 4 <> 0 then n / 2.0::double end half, n % 2 = 0 flag,
    (n - 20)::tinyint tiny, (18446744073709551615::ubigint - n::ubigint) large, (n * n)::hugeint huge,
    (n * 0.25 - 1)::decimal(9, 2) price, (n * 1.2345)::decimal(18, 4) as cost, (n * 1.000001)::decimal(38, 6) as wide,
    date '2022-01-08' + n::int as day, make_timestamp(1700000000000000 + n) as "when", make_timestamp(1700000000000000 + n)::timestamptz as utc,
    make_timestamp(1700000000000000 + n)::timestamp_ns as ns, make_time(n % 24, n, 1.5) clock, ('abc'[n % 3 + 1])::enum('a', 'b', 'c') word,
    ('00000000-0000-0000-0000-0000000000' || lpad(n::varchar, 2, '0'))::uuid as key, repeat('ab', n % 4)::blob as data,
    case when n % 5 <> 0 then list_transform(range(n % 4), lambda x: case when x <> 1 then x * n end) end as list,
    list_transform(range(n % 3), lambda x: range(x)) as lists, [n, -n]::int[2] as pair,
    case when n % 6 <> 0 then {'left': case when n % 2 = 0 then n end, 'name': 'box ' || n} end as box,
    list_transform(range(n % 3), lambda x: {'left': n, 'label': 'l' || x}) as boxes,
    map_from_entries(list_transform(range(n % 3), lambda x: {'k': 'k' || x, 'v': n})) as map, ('{"n": ' || n || '}')::json as json
    from range(40) t(n)
) to 'PATH' (format parquet, parquet_version v2, compression zstd)
"""


def write_fastparquet(path: Path) -> None:
    rows = np.arange(ROWS)
    frame = pd.DataFrame(
        {
            "id": rows,
            "text": pd.Series([f"text {row % 5}" if row % 3 else None for row in rows], dtype=object),
            "half": np.where(rows % 4, rows / 2, np.nan),
            "flag": rows % 2 == 0,
            "small": pd.array([row if row % 3 else None for row in rows], dtype="Int16"),
            "maybe": pd.array([bool(row % 2) if row % 3 else None for row in rows], dtype="boolean"),
            "word": pd.Categorical(["abc"[row % 3] for row in rows]),
            "when": pd.to_datetime(1_700_000_000_000_000 + rows, unit="us"),
            "span": pd.to_timedelta(rows, unit="s"),
            "data": [b"\xff" * (row % 4) for row in rows],
        }
    )
    encoding = {"text": "utf8", "data": "bytes"}
    fastparquet.write(str(path), frame, compression="GZIP", object_encoding=encoding, write_index=False)


def write_java(folder: Path) -> None:
    """With pages of both versions."""
    subprocess.run(
        ["mvn", "-q", "-B", "-f", ROOT / "pom.xml", "dependency:copy-dependencies", f"-DoutputDirectory={folder}"],
        check=True,
    )
    for version in "12":
        path = ROOT / f"parquet-java-{version}.parquet"
        path.unlink(missing_ok=True)
        subprocess.run(["java", "-cp", f"{folder}/*", ROOT / "Write.java", path, f"{ROWS}", version], check=True)
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def main() -> None:
    """All of them."""
    duckdb.sql(DUCKDB.replace("PATH", str(ROOT / "duckdb.parquet")))
    write_fastparquet(ROOT / "fastparquet.parquet")
    subprocess.run(["go", "run", ".", ROOT / "parquet-go.parquet", f"{ROWS}"], cwd=ROOT / "go", check=True)
    with tempfile.TemporaryDirectory() as folder:
        write_java(Path(folder))


if __name__ == "__main__":
    main()
