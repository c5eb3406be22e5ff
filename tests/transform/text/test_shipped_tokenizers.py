"""Ids of 10,000 real texts in fifteen scripts, with tokenizers that packages ship, beside each tokenizer's own library; and documents of many megabytes."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from support import shipped
from support.texts import gpt_like

COUNT = 10_000

pytestmark = [pytest.mark.long]
needs_packages = pytest.mark.skipif(not shipped.FOLDER.exists(), reason="`make shipped` fetches the tokenizers")


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return [*shipped.real_texts(COUNT)]


def tokens(tokenizer: Any, texts: list[str]) -> list[list[int]]:
    """What a loader gives."""
    op = ps.text.Tokenize(tokenizer, special_in_text="as_text")
    rows = ps.from_arrays({"text": texts}).transform(text=op).select(["tokens"])
    with ps.Loader(rows.batch(500)) as loader:
        return [row for batch in loader for row in batch["tokens"].to_pylist()]


@needs_packages
def test_texts_are_of_many_scripts(texts: list[str]) -> None:
    by_script = shipped.translations()
    assert min(map(len, by_script.values())) > 100
    assert len(texts) >= COUNT
    assert max(map(len, texts)) > 200


@needs_packages
@pytest.mark.parametrize("name", [*shipped.ENCODINGS, "tekken"])
def test_ids_of_tiktoken(name: str, texts: list[str]) -> None:
    encoding = shipped.tekken() if name == "tekken" else shipped.encoding(name)
    assert tokens(encoding, texts) == encoding.encode_ordinary_batch(texts)


@needs_packages
@pytest.mark.parametrize("name", shipped.MODELS)
def test_ids_of_sentencepiece(name: str, texts: list[str]) -> None:
    processor = shipped.sentencepiece(name)
    assert tokens(processor, texts) == processor.encode(texts)


@needs_packages
def test_ids_of_clip(texts: list[str]) -> None:
    tokenizer = shipped.clip()
    assert tokens(tokenizer, texts) == [one.ids for one in tokenizer.encode_batch(texts)]


@needs_packages
@pytest.mark.parametrize("lowercase", [True, False])
def test_ids_of_bert(lowercase: bool, texts: list[str]) -> None:
    tokenizer = shipped.bert(lowercase=lowercase)
    wanted = [one.ids for one in tokenizer.encode_batch(texts)]
    assert tokens(tokenizer, texts) == wanted
    unknown = sum(row.count(tokenizer.token_to_id("[UNK]")) for row in wanted)
    assert unknown < sum(map(len, wanted)) / 2  # its words are of Chinese, Latin and a dozen other scripts' letters


def shipped_one(name: str) -> tuple[Any, Callable[[str], list[int]]]:
    """A tokenizer, and its own library's ids of a text."""
    if name == "CLIP" or name.startswith("BERT"):
        tokenizer = shipped.clip() if name == "CLIP" else shipped.bert(lowercase=name == "BERT")
        return tokenizer, lambda text: [*tokenizer.encode(text).ids]
    if name in shipped.MODELS:
        processor = shipped.sentencepiece(name)
        return processor, processor.encode
    encoding = shipped.tekken() if name == "tekken" else shipped.encoding(name)
    return encoding, encoding.encode_ordinary


@needs_packages
@pytest.mark.parametrize(
    "name",
    [
        *shipped.ENCODINGS,
        "tekken",
        *(name for name in shipped.MODELS if "Unigram" not in name),  # docs/text.md says how long texts differ
        "CLIP",
        "BERT",
        "BERT, cased",
    ],
)
def test_ids_of_a_text_of_a_megabyte(name: str, texts: list[str]) -> None:
    chosen, parts, size = random.Random(1), list[str](), 0
    while size < 1 << 20:
        parts += [chosen.choice(texts), chosen.choice([" ", "\n\n", ", ", "  \n", "\t", " "])]
        size += len(parts[-2].encode())
    tokenizer, own = shipped_one(name)
    assert tokens(tokenizer, ["".join(parts)]) == [own("".join(parts))]


def test_a_document_of_megabytes() -> None:
    """Its tokens are those of its lines, which the tokenizer cuts between."""
    lines = [f"All human beings {number} are born free, and equal — in dignity.\n" for number in range(400_000)]
    whole = "".join(lines)
    assert len(whole.encode()) > 20 << 20
    op = ps.text.Tokenize(gpt_like(), special_in_text="error")
    rows = ps.from_arrays({"text": pa.array([whole, "".join(lines[:1000])], pa.large_string())}).transform(text=op)
    with ps.Loader(rows.select(["tokens"]).batch(2), memory="2GB") as loader:
        long, short = next(iter(loader))["tokens"]
    assert np.array_equal(np.asarray(long.values)[: len(short)], np.asarray(short.values))
    last = gpt_like().encode("".join(lines[-1000:])).ids
    assert np.array_equal(np.asarray(long.values)[-len(last) :], last)
