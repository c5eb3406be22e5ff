"""Writes tests/golden/megatron/{small,text}.{bin,idx} by the layout's description alone: python tests/golden/make_megatron.py.

Megatron-LM's megatron/core/datasets/indexed_dataset.py, version 1: "MMIDIDX" and two zeros, version (u64), dtype code (u8), number of sequences (u64),
number of documents' bounds (u64); then a length (i32) for every sequence, the byte where each begins (i64), and the first sequence of each document with
the number of sequences at the end (i64). Nothing of Penstock is used.
"""

from __future__ import annotations

import array
import struct
from pathlib import Path

FOLDER = Path(__file__).parent / "megatron"
CODES = {"H": 8, "i": 4}


def write(name: str, kind: str, documents: list[list[list[int]]]) -> None:
    """Documents of sequences of tokens; `kind` is the array module's code of the tokens' type."""
    sequences = [sequence for document in documents for sequence in document]
    data = [array.array(kind, sequence).tobytes() for sequence in sequences]
    bounds = [0]
    for document in documents:
        bounds.append(bounds[-1] + len(document))
    place, starts = 0, []
    for part in data:
        starts.append(place)
        place += len(part)
    header = b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, CODES[kind], len(sequences), len(bounds))
    lengths = b"".join(struct.pack("<i", len(sequence)) for sequence in sequences)
    numbers = b"".join(struct.pack("<q", number) for number in (*starts, *bounds))
    (FOLDER / f"{name}.bin").write_bytes(b"".join(data))
    (FOLDER / f"{name}.idx").write_bytes(header + lengths + numbers)


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    write("small", "H", [[[1, 2, 3], [4, 5]], [[6] * 4], [[7, 8, 9, 10, 11, 12, 13]], [[65535]]])
    write("text", "i", [[list(range(70_000, 70_000 + 25))], [list(range(10))]])
