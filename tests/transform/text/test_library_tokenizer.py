"""Tokenizers that are run by the package `tokenizers`: with every option as the native one has it."""

from __future__ import annotations

import itertools
import json
import pickle
import unicodedata
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from support import texts as like
from support.texts import mixed_texts

tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")

from penstock.core.columns.text_parts import text_parts  # noqa: E402
from penstock.transform.text.library_tokenizer import LibraryTokenizer  # noqa: E402
from penstock.transform.text.models import model_of  # noqa: E402

TEXTS = [*mixed_texts(25), "", None, "a [SEP] b<|endoftext|>", None, "é日👍🏽 x"]


def roberta_like() -> Any:
    """Byte-level BPE that puts a blank before a text."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=True)
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=500, special_tokens=["<s>", "</s>"], initial_alphabet=alphabet, show_progress=False
    )
    made.train_from_iterator(mixed_texts(200, 1), trainer)
    made.post_processor = tokenizers.processors.RobertaProcessing(("</s>", 1), ("<s>", 0))
    return made


@pytest.mark.parametrize("special", ["error", "as_text", "as_token"])
@pytest.mark.parametrize("make", [like.gpt_like, like.bert_like])
def test_both_do_the_same(make: Any, special: str) -> None:
    model = model_of(make())
    native, library = model.native(), LibraryTokenizer(model.data.decode())
    assert (native.added(), native.id_of("a"), native.id_of("none")) == (library.added(), library.id_of("a"), None)
    given = text_parts(pa.array(TEXTS, pa.large_string())[1:])
    other = text_parts(pa.array([None if one is None else one[::-1] for one in TEXTS], pa.large_string())[1:])
    for pair, add, most, keeps_last, end in itertools.product(
        (None, other), (True, False), (1 << 62, 7), (False, True), (None, 3)
    ):
        said: dict[str, Any] = {
            "add_special": add, "special": special, "most": most, "keeps_last": keeps_last, "begin": None, "end": end, "spans": False, "types": True, "threads": 1,
        }  # fmt: skip
        mine, theirs = native.run(given, pair, **said), library.run(given, pair, **said)
        for one, another in zip(mine[:4], theirs[:4], strict=True):
            np.testing.assert_array_equal(one, another)
        assert [(row, found) for row, found, _ in mine[4]] == [(row, found) for row, found, _ in theirs[4]]


def test_places_are_bytes() -> None:
    model = model_of(like.gpt_like())
    given = text_parts(pa.array([one or "" for one in TEXTS], pa.large_string()))
    said: dict[str, Any] = {
        "add_special": False, "special": "as_text", "most": 1 << 62, "keeps_last": False, "begin": 1, "end": 2, "spans": True, "types": False, "threads": 1,
    }  # fmt: skip
    text = json.loads(model.data)
    text["post_processor"] = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": True}
    mine, theirs = model.native(spans=True).run(given, None, **said), LibraryTokenizer(json.dumps(text)).run(given, None, **said)  # fmt: skip
    np.testing.assert_array_equal(mine[0], theirs[0])
    begins, ends = theirs[3].reshape(-1, 2).T
    letters = np.frombuffer(given[1], np.uint8)  # the package gives whole letters, the native tokenizer bytes of them
    assert (begins <= mine[3][::2]).all()
    assert (ends >= mine[3][1::2]).all()
    assert len(letters) == given[0][-1]


@pytest.mark.parametrize("make", [roberta_like, like.unigram_like])
def test_what_is_not_done_exactly_natively_is_run_by_the_package(make: Any) -> None:
    tokenizer, texts = make(), mixed_texts(300)
    op = pickle.loads(pickle.dumps(ps.text.Tokenize(tokenizer, special_in_text="as_text")))
    rows = ps.from_arrays({"text": texts}).transform(text=op).select(["tokens"]).batch(50)
    assert "by the package tokenizers" in rows.explain()
    tokenizer.encode_special_tokens = True
    theirs = [one.ids for one in tokenizer.encode_batch(texts)]
    for said in ({}, {"isolation": "process"}):
        with ps.Loader(rows, epochs=1, **said) as loader:
            assert [row for batch in loader for row in batch["tokens"].to_pylist()] == theirs


def test_what_draws_is_refused() -> None:
    said = json.loads(like.gpt_like().to_str())
    said["model"]["dropout"] = 0.1
    with pytest.raises(ps.PlanError, match="dropout"):
        ps.text.Tokenize(tokenizers.Tokenizer.from_str(json.dumps(said)))


@pytest.mark.long
@pytest.mark.parametrize("make", [like.gpt_like, like.bert_like])
def test_which_letters_another_edition_of_unicode_cuts_elsewhere(make: Any) -> None:
    """docs/text.md says which: the native tokenizer's tables are newer than those of the package."""
    tokenizer = make()
    letters = [chr(code) for code in range(1, 0x110000) if not 0xD800 <= code < 0xE000]
    texts = [f"a{letter}b 1{letter}" for letter in letters]
    rows = ps.from_arrays({"text": texts}).transform(text=ps.text.Tokenize(tokenizer, special_in_text="as_text"))
    with ps.Loader(rows.select(["tokens"]).batch(50_000), epochs=1) as loader:
        mine = [row for batch in loader for row in batch["tokens"].to_pylist()]
    theirs = [one.ids for one in tokenizer.encode_batch_fast(texts)]
    differ = [letter for letter, one, other in zip(letters, mine, theirs, strict=True) if one != other]
    old = [letter for letter in differ if unicodedata.category(letter) != "Cn"]  # Python 3.11 has Unicode 14
    assert len(old) <= (106 if make is like.bert_like else 0)
