"""pandas.read_sql through SQLAlchemy, in chunks; PostgreSQL through psycopg with a server-side cursor, if PENSTOCK_BENCH_POSTGRES names one."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pandas as pd
import psycopg
import sqlalchemy
from common import BATCH, Feed, endless, main

from work import SQL_QUERY, SQL_ROWS, Data

CHUNK = 64 * BATCH["sql"]
POSTGRES = os.environ.get("PENSTOCK_BENCH_POSTGRES", "")


def table() -> pd.DataFrame:
    """What both databases hold."""
    rng = np.random.default_rng(0)
    columns = {f"x{number}": rng.random(SQL_ROWS) for number in range(4)}
    return pd.DataFrame({"id": np.arange(SQL_ROWS), **columns, "label": rng.integers(0, 1000, SQL_ROWS)})


def write(data: Data) -> None:
    """One table with a primary key, in SQLite and, where there is one, in PostgreSQL."""
    path = data.place("sql", "samples.sqlite")
    path.unlink(missing_ok=True)
    rows = table()
    kinds = ", ".join(f"x{number} DOUBLE PRECISION" for number in range(4))
    made = f"CREATE TABLE samples (id BIGINT PRIMARY KEY, {kinds}, label BIGINT)"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(made)
        connection.executemany("INSERT INTO samples VALUES (?, ?, ?, ?, ?, ?)", rows.itertuples(index=False))
    if POSTGRES:
        with psycopg.connect(POSTGRES) as server, server.cursor() as cursor:
            cursor.execute("DROP TABLE IF EXISTS samples")
            cursor.execute(made)
            with cursor.copy("COPY samples FROM STDIN (FORMAT csv)") as copy:
                copy.write(rows.to_csv(index=False, header=False))


def engine_uri(uri: str) -> str:
    return uri.replace("postgresql://", "postgresql+psycopg://")


def rows(uri: str, **settings: object) -> Feed:
    """Rows in the key's order, as NumPy batches."""
    engine = sqlalchemy.create_engine(uri)

    def batches() -> Iterator[dict[str, Any]]:
        with engine.connect().execution_options(stream_results=True) as connection:
            for chunk in pd.read_sql(sqlalchemy.text(f"{SQL_QUERY} ORDER BY id"), connection, chunksize=CHUNK):
                columns = {name: chunk[name].to_numpy() for name in chunk}
                for first in range(0, len(chunk) // BATCH["sql"] * BATCH["sql"], BATCH["sql"]):
                    yield {name: column[first : first + BATCH["sql"]] for name, column in columns.items()}

    return Feed(batches=endless(batches), column=lambda batch: batch["x0"], settings={"chunksize": CHUNK, **settings})


if __name__ == "__main__":
    feeds = {"sqlite": lambda data: rows(f"sqlite:///{data.place('sql', 'samples.sqlite')}")}
    if POSTGRES:
        feeds["postgresql"] = lambda _: rows(engine_uri(POSTGRES), stream_results=True)
    main(
        "pandas.read_sql",
        f"{pd.__version__}, SQLAlchemy {sqlalchemy.__version__}",
        {"sql": feeds},
        write={"sql": write},
    )
