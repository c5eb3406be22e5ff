"""The quick demo's images: blocks of one hue, drawn with NumPy and written as PNG, so they need no other package.

The class of a drawing is its hue.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from penstock.cli.console import Report

Pixels = npt.NDArray[np.uint8]

_BLOCK_PIXELS = 8


@dataclass(frozen=True, kw_only=True)
class Drawings:
    """A recipe: how many hues, how many drawings of each, and of which sizes."""

    version: int = 1
    hues: int = 8
    train_per_hue: int = 128
    validation_per_hue: int = 32
    blocks: tuple[int, int] = (8, 12)

    def write(self, folder: Path, report: Report) -> None:
        """Make train and validation inside the folder, each with a folder for every hue."""
        counts = {"train": self.train_per_hue, "validation": self.validation_per_hue}
        done, total = 0, self.hues * sum(counts.values())
        for hue in range(self.hues):
            for split, count in counts.items():
                place = folder / split / f"hue-{360 * hue // self.hues:03}"
                place.mkdir(parents=True)
                random = np.random.default_rng([self.version, hue, split == "validation"])
                for number in range(count):
                    (place / f"{number:04}.png").write_bytes(png(_draw(hue / self.hues, random, self)))
                    report(done := done + 1, total)


def _draw(hue: float, random: np.random.Generator, recipe: Drawings) -> Pixels:
    """Blocks of random brightness, from grey to the full hue."""
    colour = 0.5 + 0.5 * np.cos(2 * np.pi * (hue - np.array([0, 1 / 3, 2 / 3])))
    height, width = random.integers(*recipe.blocks, size=2, endpoint=True)
    brightness, strength = random.random((2, height, width, 1))
    blocks: Pixels = (255 * brightness * (1 - strength * (1 - colour))).astype(np.uint8)
    return blocks.repeat(_BLOCK_PIXELS, axis=0).repeat(_BLOCK_PIXELS, axis=1)


def png(pixels: Pixels) -> bytes:
    """uint8 (height, width, 3) as a PNG file (W3C's specification): 8 bits a channel, rows unfiltered."""
    height, width, channels = pixels.shape
    rows = np.pad(pixels.reshape(height, width * channels), ((0, 0), (1, 0)))
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = zlib.compress(rows.tobytes(), level=1)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", head) + _chunk(b"IDAT", body) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
