"""Damaged tokenizers of each kind: an error in words, or ids. What the fuzz target `text_models` does, over its seeds and what is made of them."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from penstock.core import kernels
from penstock.core.columns.text_parts import text_parts
from support.mutated import flipped, mutated
from support.tries import tries

SEEDS = Path(__file__).parents[2] / "fuzz/seeds/text_models"
TEXT = text_parts(pa.array(["a bé 一  <s>\n1 "]))


def ids_of(kind: int, data: bytes) -> int:
    """How many ids a tokenizer gives in all; ValueError for what is none."""
    if kind % 3 == 0:
        model = kernels.TextTokenizer.of_json(data.decode(errors="replace"), False)
    elif kind % 3 == 1:
        model = kernels.TextTokenizer.of_ranks(data, r"\w+|\W", [("<s>", 70_000)], False)
    else:
        model = kernels.TextTokenizer.of_sentencepiece(data, False)
    count = 0
    for special in ("error", "as_text", "as_token"):
        ids, *_ = model.run(
            TEXT,
            None,
            add_special=True,
            special=special,
            most=1 << 62,
            keeps_last=False,
            begin=None,
            end=None,
            spans=False,
            types=False,
            threads=1,
        )
        count += len(ids)
    return count


def damaged(seed: bytes, rng: random.Random) -> Iterator[bytes]:
    """The seed, then it with something changed, without an end."""
    yield seed
    while True:
        if seed[0] % 3 == 0 and rng.random() < 0.5:
            yield seed[:1] + json.dumps(mutated(json.loads(seed[1:]), rng)).encode()
        else:
            yield flipped(seed, rng)


@pytest.mark.parametrize("name", sorted(seed.name for seed in SEEDS.iterdir()))
def test_damaged_tokenizers_give_words_or_ids(name: str) -> None:
    refused, given = list[str](), 0
    for _, content in zip(range(tries(4_000)), damaged((SEEDS / name).read_bytes(), random.Random(name)), strict=False):
        try:
            given += ids_of(content[0] if content else 0, content[1:]) > 0
        except ValueError as error:
            refused.append(str(error))
    assert given
    assert refused
    assert min(map(len, refused)) > 10


def test_words_of_any_length_take_no_memory_ahead() -> None:
    """The process ended: the library took memory for so many letters."""
    said = json.loads((SEEDS / "json-wordpiece").read_bytes()[1:])
    said["model"]["max_input_chars_per_word"] = 1 << 53
    with pytest.raises(ValueError, match="max_input_chars_per_word"):
        ids_of(0, json.dumps(said).encode())
