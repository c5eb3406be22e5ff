"""Writes the golden RecordIO files with MXNet itself (1.9.1; its wheel runs with Python 3.11 and numpy 1.23).

    python tests/golden/make_recordio.py

Beside each NAME.rec lies NAME.json with what MXNet's own reader gives for it, data in hex.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path

import mxnet as mx
import numpy as np

FOLDER = Path(__file__).parent / "recordio"
MAGIC = struct.pack("<I", 0xCED7230A)
RNG = np.random.default_rng(21)


def contents(count):
    """Data of every length modulo 4, and with the magic number at every kind of place."""
    special = [
        b"",
        MAGIC,
        MAGIC * 3,
        b"abcd" + MAGIC,
        b"abcd" + MAGIC + b"ef",
        b"ab" + MAGIC + b"cd",
        MAGIC + b"abcd" + MAGIC + MAGIC + b"x",
    ]
    plain = [RNG.bytes(int(RNG.integers(0, 60))) for _ in range(count - len(special))]
    return special + plain


def write_headed(name, labels):
    writer = mx.recordio.MXIndexedRecordIO(str(FOLDER / f"{name}.idx"), str(FOLDER / f"{name}.rec"), "w")
    for number, (data, label) in enumerate(zip(contents(len(labels)), labels, strict=True)):
        header = mx.recordio.IRHeader(0, label, 1000 + number if number else 2**64 - 1, number * 7)
        writer.write_idx(number, mx.recordio.pack(header, data))
    writer.close()
    reader = mx.recordio.MXIndexedRecordIO(str(FOLDER / f"{name}.idx"), str(FOLDER / f"{name}.rec"), "r")
    rows = []
    for key in reader.keys:
        header, data = mx.recordio.unpack(reader.read_idx(key))
        label = header.label.tolist() if isinstance(header.label, np.ndarray) else header.label
        rows.append({"label": label, "id": header.id, "id2": header.id2, "data": data.hex()})
    (FOLDER / f"{name}.json").write_text(json.dumps(rows, indent=0))


def write_plain(name, count):
    writer = mx.recordio.MXRecordIO(str(FOLDER / f"{name}.rec"), "w")
    for data in contents(count)[1:]:  # an empty record ends MXNet's reader
        writer.write(data)
    writer.close()
    reader = mx.recordio.MXRecordIO(str(FOLDER / f"{name}.rec"), "r")
    rows = []
    while (data := reader.read()) is not None:
        rows.append({"data": data.hex()})
    (FOLDER / f"{name}.json").write_text(json.dumps(rows, indent=0))


def main():
    FOLDER.mkdir(exist_ok=True)
    write_headed("scalar", [number / 3 for number in range(20)])
    write_headed("vector", [np.arange(3, dtype=np.float32) + number for number in range(12)])
    write_headed("ragged", [np.arange(number % 4 + 1, dtype=np.float32) / 7 for number in range(11)] + [2.5])
    write_plain("plain", 15)


if __name__ == "__main__":
    main()
