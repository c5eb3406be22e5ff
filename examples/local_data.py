"""What the examples train on: files made of what scikit-learn and Python bring, so that nothing is downloaded."""

import json
import pkgutil
from pathlib import Path

import numpy as np
import pyarrow as pa
from PIL import Image
from sklearn.datasets import load_sample_images

import penstock as ps


def photographs(folder: Path) -> None:
    """A folder a class, each with pieces of one photograph."""
    for number, photograph in enumerate(load_sample_images().images):
        (folder / f"class{number}").mkdir()
        for piece in range(64):
            top, left = 5 * piece, 8 * piece
            image = Image.fromarray(photograph[top : top + 96, left : left + 96])
            image.save(folder / f"class{number}" / f"{piece}.jpg")


def documents(path: Path) -> None:
    """Beginnings of Python's own modules as JSON lines."""
    modules = [one for one in pkgutil.iter_modules() if one.name.isidentifier()]
    files = [Path(one.module_finder.path) / f"{one.name}.py" for one in modules]
    texts = [file.read_text(errors="ignore")[:2000] for file in files if file.is_file()][:200]
    path.write_text("\n".join(json.dumps({"text": text}) for text in texts))


def tokens(row: dict) -> dict:
    """A row of text as its bytes."""
    return {"tokens": pa.array(np.frombuffer(row["text"].encode(), dtype=np.uint8).astype(np.int64))}


def packed(folder: str, length: int, steps: int) -> ps.Dataset:
    """Eight sequences of so many tokens a step."""
    documents(Path(folder) / "text.jsonl")
    rows = ps.read(f"{folder}/text.jsonl").shuffle(seed=0).map_rows(tokens)
    return rows.pack("tokens", length=length).batch(8, steps=steps)
