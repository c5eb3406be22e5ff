"""Tokens of texts that are in memory, and nothing else, with 2 CPUs: `tokenise_alone.py FOLDER ENGINE TIMES` prints one line of JSON; of the same texts so many times. All engines have one tokenizer.json, and say the same ids."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from tokenise_common import files, measure, tokenizer

CPUS = 2
#: In a call, or a batch.
TEXTS = 1_000

Ids = Iterable[tuple[int, Any]]


def parts(texts: list[str]) -> Iterator[list[str]]:
    """As many texts as go into a call."""
    return (texts[first : first + TEXTS] for first in range(0, len(texts), TEXTS))


def by_tokenizers(folder: Path, texts: list[str]) -> Ids:
    """`encode_batch_fast`."""
    encoder = tokenizer(folder)
    for part in parts(texts):
        rows = [one.ids for one in encoder.encode_batch_fast(part)]
        yield sum(map(len, rows)), rows


def by_gigatoken(folder: Path, texts: list[str]) -> Ids:
    """`encode_batch`."""
    import gigatoken

    encoder = gigatoken.Tokenizer(tokenizer(folder))
    for part in parts(texts):
        rows = encoder.encode_batch(part)
        yield sum(map(len, rows)), rows


def by_datasets(folder: Path, texts: list[str]) -> Ids:
    """`Dataset.map` with 2 processes, which writes what it makes into files."""
    import datasets

    encoder = tokenizer(folder)

    def tokenise(examples: dict[str, list[Any]]) -> dict[str, list[Any]]:
        return {"tokens": [one.ids for one in encoder.encode_batch_fast(examples["text"])]}

    with tempfile.TemporaryDirectory() as cache:
        rows = datasets.Dataset.from_dict({"text": texts}).save_to_disk(f"{cache}/texts") or datasets.load_from_disk(
            f"{cache}/texts"
        )
        made = rows.map(tokenise, batched=True, num_proc=CPUS, remove_columns=["text"])
        for part in made.with_format("arrow").iter(TEXTS):
            column = part["tokens"].combine_chunks()
            yield len(column.flatten()), column.to_pylist()


def by_penstock(folder: Path, texts: list[str]) -> Ids:
    """A loader of a plan that tokenizes."""
    import penstock as ps

    op = ps.text.Tokenize(tokenizer(folder), special_in_text="as_text")
    rows = ps.from_arrays({"text": texts}).transform(text=op).select(["tokens"])
    with ps.Loader(rows.batch(TEXTS), cpus=CPUS) as loader:
        for batch in loader:
            yield len(batch["tokens"].flatten()), batch["tokens"]


ENGINES: dict[str, tuple[str, Callable[[Path, list[str]], Ids]]] = {
    "tokenizers": ("encode_batch_fast", by_tokenizers),
    "gigatoken": ("gigatoken", by_gigatoken),
    "datasets": ("datasets.map", by_datasets),
    "penstock": ("Penstock, tokens only", by_penstock),
}


def digest(rows: Ids) -> str:
    """Of the first ids, which all engines have alike."""
    _, first = next(iter(rows))
    lists = first.to_pylist() if hasattr(first, "to_pylist") else [np.asarray(row).tolist() for row in first]
    return hashlib.sha256(json.dumps(lists).encode()).hexdigest()[:16]


def main() -> None:
    """Prints one line of JSON."""
    os.environ["TOKENIZERS_PARALLELISM"], os.environ["RAYON_NUM_THREADS"] = "true", str(CPUS)
    folder, engine, times = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    title, encode = ENGINES[engine]
    texts = [json.loads(line)["text"] for file in files(folder) for line in file.open()]
    version = imported(engine)
    line = measure(title, version, lambda: ((tokens, tokens) for tokens, _ in encode(folder, texts * times)))
    print(json.dumps(line | {"digest": digest(encode(folder, texts[:TEXTS]))}))


def imported(engine: str) -> str:
    """Imports an engine, which does not count; its version."""
    module = importlib.import_module(engine)
    if engine == "penstock":
        _ = module.text, module.Loader, module.from_arrays  # whose modules are imported at first use
        return str(module.__version__)
    return metadata.version(engine)


if __name__ == "__main__":
    main()
