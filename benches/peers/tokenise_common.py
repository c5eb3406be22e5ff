"""What both sides of the bench of tokenising share: the tokenizer, trained once on the documents, and the line of figures."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import tokenizers

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

LENGTH, BATCH = 2_048, 32
VOCABULARY = 8_192
TRAINED_ON = 4_000


def files(folder: Path) -> list[Path]:
    """The documents."""
    return sorted((folder / "documents").glob("*.jsonl"))


def tokenizer(folder: Path) -> tokenizers.Tokenizer:
    """Byte-level BPE, trained on the first documents of the first file when there is none yet."""
    path = folder / "tokenizer.json"
    if not path.exists():
        made = tokenizers.Tokenizer(tokenizers.models.BPE())
        made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=VOCABULARY,
            special_tokens=["<end>"],
            initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        with files(folder)[0].open() as lines:
            made.train_from_iterator((json.loads(line)["text"] for line in islice(lines, TRAINED_ON)), trainer)
        made.save(str(path))
    return tokenizers.Tokenizer.from_file(str(path))


def measure(peer: str, version: str, batches: Callable[[], Iterator[tuple[int, int]]]) -> dict[str, Any]:
    """Figures of one pass, from files to arrays of batches, each given as its tokens and its places."""
    cpu, began = cpu_s(), time.perf_counter()
    tokens = places = 0
    for real, all_ in batches():
        tokens, places = tokens + real, places + all_
    elapsed = time.perf_counter() - began
    figures = {"tokens": tokens, "seconds": elapsed, "fill": tokens / places, "tokens_per_s": tokens / elapsed}
    return figures | {"peer": peer, "version": version, "cpu_s_per_million": (cpu_s() - cpu) / tokens * 1e6}


def cpu_s() -> float:
    """Of this process and of all its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)
