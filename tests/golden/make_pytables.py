"""Writes tests/golden/pytables.h5 with PyTables: python tests/golden/make_pytables.py.

A table with a column of PyTables' own type of time, arrays in chunks through filters that HDF5 has and one that it has not, and lists. Row n holds n.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tables

ROWS = 9
IDS = np.arange(ROWS)


class Row(tables.IsDescription):
    """One row of the table."""

    number = tables.Int32Col()
    time = tables.Time64Col()


class Plain(tables.IsDescription):
    """One row of the other table."""

    number = tables.Int32Col(pos=0)
    name = tables.StringCol(5, pos=1)
    pair = tables.Float64Col(shape=(2,), pos=2)


def main() -> None:
    """Writes it anew."""
    with tables.open_file(Path(__file__).parent / "pytables.h5", "w") as file:
        for name, kind in (("times", Row), ("table", Plain)):
            table = file.create_table("/", name, kind, expectedrows=ROWS, chunkshape=(4,))
            for number in range(ROWS):
                table.row["number"] = number
                if name == "table":
                    table.row["name"], table.row["pair"] = f"n{number}", (number, number / 2)
                table.row.append()
            table.flush()
        file.create_array("/", "plain", obj=IDS)
        filters = tables.Filters(5, "zlib", shuffle=True, fletcher32=True)
        file.create_carray("/", "packed", obj=np.stack([IDS, -IDS], 1), filters=filters, chunkshape=(4, 2))
        file.create_carray(
            "/", "blosc", obj=np.zeros((ROWS, 64)), filters=tables.Filters(5, "blosc"), chunkshape=(9, 64)
        )
        lists = file.create_vlarray("/", "lists", tables.Int32Atom(), expectedrows=ROWS, chunkshape=4)
        for number in range(ROWS):
            lists.append(list(range(number)))


if __name__ == "__main__":
    main()
