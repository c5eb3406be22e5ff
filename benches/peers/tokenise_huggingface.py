"""Hugging Face datasets: map() tokenises with 2 processes, group_texts packs with 2, then NumPy batches. Nothing is in its cache at the beginning."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

PROCESSES = 2


def packed(folder: Path, cache: str) -> Any:
    """The library's own example of language modelling (run_clm.py): tokenise, then group_texts."""
    import datasets
    from tokenise_common import LENGTH, files, tokenizer

    encoder = tokenizer(folder)

    def tokenise(examples: dict[str, list[Any]]) -> dict[str, list[Any]]:
        return {"tokens": [encoding.ids for encoding in encoder.encode_batch_fast(examples["text"])]}

    def group_texts(examples: dict[str, list[Any]]) -> dict[str, list[Any]]:
        joined = list(chain(*examples["tokens"]))
        total = len(joined) // LENGTH * LENGTH
        return {"tokens": [joined[first : first + LENGTH] for first in range(0, total, LENGTH)]}

    texts = datasets.load_dataset(
        "json", data_files=[str(file) for file in files(folder)], split="train", cache_dir=cache
    )
    tokenised = texts.map(tokenise, batched=True, num_proc=PROCESSES, remove_columns=texts.column_names)
    return tokenised.map(group_texts, batched=True, num_proc=PROCESSES).with_format("numpy")


def batches(folder: Path, cache: str) -> Iterator[tuple[int, int]]:
    """Tokens and places of each batch; what is left of 1,000 documents is dropped, so every place is a token."""
    from tokenise_common import BATCH

    for batch in packed(folder, cache).iter(batch_size=BATCH):
        yield batch["tokens"].size, batch["tokens"].size


def main() -> None:
    """Prints one line of JSON."""
    folder = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as cache:
        os.environ["HF_HOME"], os.environ["TOKENIZERS_PARALLELISM"] = cache, "true"
        import datasets
        from tokenise_common import measure

        datasets.disable_progress_bars()
        print(json.dumps(measure("Hugging Face datasets", datasets.__version__, lambda: batches(folder, cache))))


if __name__ == "__main__":
    main()
