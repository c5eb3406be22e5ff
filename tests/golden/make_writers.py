"""Writes tests/golden/writers: Parquet by DuckDB, fastparquet, parquet-go, parquet-java and Spark; Arrow IPC by arrow-go and apache-arrow for JavaScript.

    python tests/golden/make_writers.py [WRITER …]      duckdb, fastparquet, go, java, spark, arrow-go, arrow-js; without names all

Every file has columns of all the types that its writer has, with nulls. Needs duckdb, fastparquet, pyspark, Go, Node, a JDK and Maven; Spark runs on
Java 17. Compressed data depends on the versions, so that files are written anew only on purpose.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

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


SPARK = """
select id, case when id % 3 <> 0 then concat('text ', id % 5) end as text, case when id % 4 <> 0 then id / 2D end as half, id % 2 = 0 as flag,
    cast(id - 20 as tinyint) as tiny, cast(id as smallint) as small, cast(id as float) as single,
    cast(id * 0.25 - 1 as decimal(9, 2)) as price, cast(id * 1.2345 as decimal(18, 4)) as cost, cast(id * 1.000001 as decimal(38, 6)) as wide,
    date_add(date'2022-01-08', cast(id as int)) as day, timestamp_micros(1700000000000000 + id) as `when`,
    cast(timestamp_micros(1700000000000000 + id) as timestamp_ntz) as naive, cast(repeat('ab', cast(id % 4 as int)) as binary) as data,
    transform(sequence(0, cast(id % 4 as int)), x -> x) as list, interval '1' day * id as span,
    case when id % 6 <> 0 then struct(case when id % 2 = 0 then id end as left, concat('box ', id) as name) end as box,
    transform(sequence(0, cast(id % 3 as int)), x -> struct(id as left, concat('l', x) as label)) as boxes,
    map_from_entries(transform(sequence(0, cast(id % 3 as int)), x -> struct(concat('k', x), id))) as map LISTS
from range(40) order by id
"""
#: Settings of Spark by file: what it writes today, and as Spark 1.4 and Hive did.
SPARK_FILES = {
    "spark": {},
    "spark-legacy": {
        "spark.sql.parquet.writeLegacyFormat": "true",
        "spark.sql.parquet.outputTimestampType": "INT96",
        "spark.sql.parquet.compression.codec": "gzip",
    },
}


def write_duckdb() -> None:
    import duckdb

    duckdb.sql(DUCKDB.replace("PATH", str(ROOT / "duckdb.parquet")))


def write_fastparquet() -> None:
    import fastparquet

    path = ROOT / "fastparquet.parquet"
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


def write_go() -> None:
    subprocess.run(["go", "run", ".", ROOT / "parquet-go.parquet", f"{ROWS}"], cwd=ROOT / "go", check=True)


def write_arrow_go() -> None:
    subprocess.run(["go", "run", ".", ROOT / "arrow-go"], cwd=ROOT / "arrow-go", check=True)


def write_arrow_js() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name in ("package.json", "write.mjs"):
            (Path(folder) / name).write_bytes((ROOT / "arrow-js" / name).read_bytes())
        subprocess.run(["npm", "install", "--no-audit", "--no-fund"], cwd=folder, check=True)
        subprocess.run(["node", "write.mjs", ROOT / "arrow-js"], cwd=folder, check=True)


def write_spark() -> None:
    """One file each; lists of lists in the legacy layout are what Arrow refuses, and go to a file of their own."""
    from pyspark.sql import SparkSession

    local = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    session = (
        SparkSession.builder.master("local[1]").config(map=local | {"spark.sql.session.timeZone": "UTC"}).getOrCreate()
    )
    lists = ", case when id % 5 <> 0 then array(array(id), array(id, id + 1)) end as lists"
    for name, settings in SPARK_FILES.items():
        for key, value in settings.items():
            session.conf.set(key, value)
        _one_file(session.sql(SPARK.replace("LISTS", lists if name == "spark" else "")), name)
    _one_file(
        session.sql("select array(array(id), array(id, cast(null as bigint))) as lists from range(3)"),
        "spark-legacy-lists",
    )


def _one_file(frame: object, name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        frame.coalesce(1).write.mode("overwrite").parquet(folder)
        (found,) = Path(folder).glob("*.parquet")
        suffix = ".refused" if name.endswith("lists") else ".parquet"
        (ROOT / f"{name}{suffix}").write_bytes(found.read_bytes())


def write_java() -> None:
    """With pages of both versions. The order of entries in the metadata of version 1 differs from run to run."""
    with tempfile.TemporaryDirectory() as folder:
        copy = ["dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
        subprocess.run(["mvn", "-q", "-B", "-f", ROOT / "pom.xml", *copy], check=True)
        for version in "12":
            path = ROOT / f"parquet-java-{version}.parquet"
            path.unlink(missing_ok=True)
            subprocess.run(["java", "-cp", f"{folder}/*", ROOT / "Write.java", path, f"{ROWS}", version], check=True)
            path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


WRITERS = {
    "duckdb": write_duckdb,
    "fastparquet": write_fastparquet,
    "go": write_go,
    "java": write_java,
    "spark": write_spark,
    "arrow-go": write_arrow_go,
    "arrow-js": write_arrow_js,
}


if __name__ == "__main__":
    for name in sys.argv[1:] or WRITERS:
        WRITERS[name]()
