"""Writes the seed files of the JPEG targets from tests/golden/jpeg; `python fuzz/seeds.py` from the repository's root."""

from pathlib import Path

golden = sorted(Path("tests/golden/jpeg").glob("*.jpg"), key=lambda path: path.stat().st_size)
for target, tail in {"jpeg_header": b"", "jpeg_scan": bytes([0, 90, 90, 200, 200, 3])}.items():
    directory = Path("fuzz/corpus") / target
    directory.mkdir(parents=True, exist_ok=True)
    for path in golden[:40:2]:
        (directory / path.stem).write_bytes(path.read_bytes() + tail)
directory = Path("fuzz/corpus/jpeg_entry_points")
directory.mkdir(parents=True, exist_ok=True)
for path in golden[:40:2]:
    # Version 1, every 4 MCUs, 1x1 MCUs, 3 components, the entry at bit 4,984, predictions 0.
    index = bytes([1, 4, 1, 1, 3, 0xF8, 0x26, 0, 0, 0])
    (directory / path.stem).write_bytes(len(index).to_bytes(2, "little") + index + path.read_bytes())
