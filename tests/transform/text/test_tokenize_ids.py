"""Ids are those of a tokenizer's own library, on texts of a dozen scripts with odd blanks, for each kind of tokenizer."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tokenizers
from tokenizers import AddedToken, Regex, models, normalizers, pre_tokenizers, trainers

import penstock as ps
from support import texts as like
from support.texts import mixed_texts

COUNT = 600
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
DEEPSEEK = (
    r"\p{N}{1,3}",
    r"[一-龥぀-ゟ゠-ヿ]+",
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
)


def tokens(op: ps.text.Tokenize, texts: Sequence[str], **columns: Any) -> list[list[int]]:
    """What a loader gives."""
    rows = ps.from_arrays({"text": [*texts], **columns}).transform(text=op)
    with ps.Loader(rows.batch(64)) as loader:
        return [row for batch in loader for row in batch["tokens"].to_pylist()]


def as_text(tokenizer: Any, **said: Any) -> ps.text.Tokenize:
    return ps.text.Tokenize(tokenizer, special_in_text="as_text", **said)


HUGGING_FACE: dict[str, Callable[[], Any]] = {
    "gpt": like.gpt_like,
    "clip": like.clip_like,
    "bert": like.bert_like,
    "bert, cased": lambda: like.bert_like(lowercase=False),
    "llama": like.llama_like,
    "unigram": like.unigram_like,
}


@pytest.mark.parametrize("kind", HUGGING_FACE)
def test_ids_of_tokenizers(kind: str) -> None:
    tokenizer, texts = HUGGING_FACE[kind](), mixed_texts(COUNT)
    for add in (True, False):
        mine = tokens(as_text(tokenizer, add_special_tokens=add), texts)
        tokenizer.encode_special_tokens = True
        theirs = [one.ids for one in tokenizer.encode_batch(texts, add_special_tokens=add)]
        assert mine == theirs


@pytest.mark.parametrize("pattern", like.PATTERNS)
def test_ids_of_tiktoken(pattern: str) -> None:
    encoding, texts = like.tiktoken_like(pattern), mixed_texts(COUNT)
    assert tokens(as_text(encoding), texts) == encoding.encode_ordinary_batch(texts)
    framed = [f"{text}<|endoftext|>{text}<|fim|>" for text in texts[:100]]
    mine = tokens(ps.text.Tokenize(encoding, special_in_text="as_token"), framed)
    assert mine == encoding.encode_batch(framed, allowed_special="all")


@pytest.mark.parametrize("kind", ["gpt", "bert", "llama"])
def test_ids_of_long_texts(kind: str) -> None:
    """Beyond 256 KiB a text is done with buffers of its own."""
    tokenizer = HUGGING_FACE[kind]()
    special = {"gpt": "<|endoftext|>", "bert": "[SEP]", "llama": "</s>"}[kind]
    part = "\n".join(mixed_texts(60, 7))
    texts = [f"{part * (1 + (1 << 18) // len(part.encode()))} {special}{part}", "short"]
    for way in ("as_text", "as_token"):
        tokenizer.encode_special_tokens = way == "as_text"
        theirs = [one.ids for one in tokenizer.encode_batch(texts)]
        assert tokens(ps.text.Tokenize(tokenizer, special_in_text=way), texts) == theirs


def built(pre: Any, normalizer: Any = None, kind: str = "bpe") -> Any:
    """A tokenizer.json of such parts, with tokens added that take blanks, stand alone or are normalized."""
    makers: dict[str, tuple[Any, Any]] = {
        "bpe": (models.BPE(unk_token="<unk>"), trainers.BpeTrainer),
        "words": (models.WordLevel(unk_token="<unk>"), trainers.WordLevelTrainer),
        "pieces": (models.WordPiece(unk_token="<unk>"), trainers.WordPieceTrainer),
    }
    model, trainer = makers[kind]
    made = tokenizers.Tokenizer(model)
    made.pre_tokenizer = pre
    if normalizer is not None:
        made.normalizer = normalizer
    said: dict[str, Any] = {"vocab_size": 900, "special_tokens": ["<unk>", "<s>"], "show_progress": False}
    if kind == "bpe":
        said["initial_alphabet"] = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(mixed_texts(200, 1), trainer(**said))
    made.add_special_tokens([AddedToken("<mask>", lstrip=True, rstrip=True), AddedToken("<end>")])
    made.add_tokens([AddedToken("born", single_word=True), AddedToken("Libres", normalized=True), AddedToken("égaux")])
    return made


def splits(*patterns: str) -> list[Any]:
    return [pre_tokenizers.Split(Regex(one), "isolated") for one in patterns]


BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
BUILT: dict[str, Callable[[], Any]] = {
    "blanks as letters": lambda: built(pre_tokenizers.Metaspace()),
    "before the first": lambda: built(pre_tokenizers.Metaspace(prepend_scheme="first")),
    "never, uncut": lambda: built(pre_tokenizers.Metaspace(prepend_scheme="never", split=False)),
    "bytes": lambda: built(pre_tokenizers.ByteLevel(add_prefix_space=False)),
    "bytes behind a blank": lambda: built(pre_tokenizers.ByteLevel()),
    "bytes, uncut": lambda: built(BYTES),
    "bytes of Llama 3": lambda: built(pre_tokenizers.Sequence([*splits(LLAMA3), BYTES])),
    "bytes of three cuts": lambda: built(pre_tokenizers.Sequence([*splits(*DEEPSEEK), BYTES])),
    "digits and signs": lambda: built(
        pre_tokenizers.Sequence(
            [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation(), pre_tokenizers.Digits(True)]
        )
    ),
    "uncut": lambda: built(None),
    "normalized": lambda: built(
        pre_tokenizers.Whitespace(),
        normalizers.Sequence(
            [
                normalizers.NFKD(),
                normalizers.StripAccents(),
                normalizers.Lowercase(),
                normalizers.Strip(),
                normalizers.Replace("e", "3"),
            ]
        ),
    ),
    "prepended": lambda: built(None, normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])),
    "words": lambda: built(pre_tokenizers.Whitespace(), normalizers.NFC(), "words"),
    "pieces": lambda: built(pre_tokenizers.BertPreTokenizer(), normalizers.BertNormalizer(), "pieces"),
    **HUGGING_FACE,
}


@pytest.mark.long
@pytest.mark.parametrize("kind", BUILT)
@pytest.mark.parametrize("way", ["as_text", "as_token"])
def test_ids_of_a_text_of_a_megabyte(kind: str, way: str) -> None:
    tokenizer = BUILT[kind]()
    marks = ["<mask>", " <end> ", "born", "reborn", " Libres", "libres ", "égaux", "<s>", " [SEP]", "<|endoftext|>"]
    part = "".join(one for pair in zip(mixed_texts(2000, 9), itertools.cycle(marks), strict=False) for one in pair)
    long = part * (1 + (1 << 20) // len(part.encode()))
    tokenizer.encode_special_tokens = way == "as_text"
    texts = [long, part, " " + long]
    theirs = [one.ids for one in tokenizer.encode_batch(texts)]
    assert tokens(ps.text.Tokenize(tokenizer, special_in_text=way), texts) == theirs


SENTENCEPIECE: dict[str, Callable[[], Any]] = {
    "unigram": lambda: like.sentencepiece_like("unigram"),
    "unigram, as it is": lambda: like.sentencepiece_like(
        "unigram", normalization_rule_name="identity", remove_extra_whitespaces=False, add_dummy_prefix=False
    ),
    "unigram, bytes": lambda: like.sentencepiece_like(
        "unigram", byte_fallback=True, normalization_rule_name="nmt_nfkc_cf"
    ),
    "unigram, symbols": lambda: like.sentencepiece_like("unigram", user_defined_symbols=["<sep>", "<|", "All h"]),
    "bpe": lambda: like.sentencepiece_like("bpe"),
    "bpe, bytes": lambda: like.sentencepiece_like(
        "bpe", byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False
    ),
    "bpe, symbols": lambda: like.sentencepiece_like("bpe", user_defined_symbols=["<sep>", "<|", "All h"]),
}


@pytest.mark.parametrize("kind", SENTENCEPIECE)
def test_ids_of_sentencepiece(kind: str) -> None:
    processor, texts = SENTENCEPIECE[kind](), mixed_texts(COUNT)
    assert tokens(as_text(processor), texts) == processor.encode(texts)


def test_files_are_the_same_as_objects(tmp_path: Any) -> None:
    texts = mixed_texts(50)
    (tmp_path / "tokenizer.json").write_text(like.gpt_like().to_str())
    assert tokens(as_text(tmp_path / "tokenizer.json"), texts) == tokens(as_text(like.gpt_like()), texts)
    processor = like.sentencepiece_like("bpe")
    (tmp_path / "spiece.model").write_bytes(processor.serialized_model_proto())
    assert tokens(as_text(str(tmp_path / "spiece.model")), texts) == processor.encode(texts)
    encoding = like.tiktoken_like("cl100k")
    (tmp_path / "own.tiktoken").write_bytes(like.tiktoken_file(encoding))
    file = ps.text.Tiktoken(tmp_path / "own.tiktoken", like.PATTERNS["cl100k"], {"<|endoftext|>": 5_000})
    assert tokens(as_text(file, end="<|endoftext|>"), texts) == [
        [*ids, 5_000] for ids in encoding.encode_ordinary_batch(texts)
    ]


def test_fast_tokenizers_of_transformers() -> None:
    from transformers import PreTrainedTokenizerFast

    fast = PreTrainedTokenizerFast(
        tokenizer_object=like.bert_like(), unk_token="[UNK]", cls_token="[CLS]"
    )  # no password
    texts = mixed_texts(100)
    assert tokens(as_text(fast), texts) == fast(texts)["input_ids"]


def test_a_byte_without_a_token_is_told() -> None:
    """The library drops such bytes from texts without a word."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.train_from_iterator(["some words, and no more"], trainers.BpeTrainer(vocab_size=60, show_progress=False))
    texts = ["some more words", "and", ""]
    assert tokens(as_text(made), texts) == [one.ids for one in made.encode_batch(texts)]
    with pytest.raises(ps.DataError, match="a byte that the tokenizer has no token for; train the tokenizer with all"):
        tokens(as_text(made), ["some", "Zürich"])


def test_two_texts_and_their_types() -> None:
    tokenizer, texts = like.bert_like(), mixed_texts(200)
    others = texts[::-1]
    for most in (None, 3, 7, 16):
        op = as_text(tokenizer, pair="other", type_ids="types", max_length=most)
        rows = ps.from_arrays({"text": texts, "other": others}).transform(text=op).batch(200)
        with ps.Loader(rows) as loader:
            batch = next(iter(loader))
        tokenizer.no_truncation()
        if most is not None:
            tokenizer.enable_truncation(most)
        theirs = tokenizer.encode_batch([*zip(texts, others, strict=True)])
        assert batch["tokens"].to_pylist() == [one.ids for one in theirs]
        assert batch["types"].to_pylist() == [one.type_ids for one in theirs]


@pytest.mark.parametrize("keep", ["first", "last"])
def test_long_texts_are_cut(keep: str) -> None:
    tokenizer, texts = like.bert_like(), mixed_texts(200)
    mine = tokens(as_text(tokenizer, max_length=9, keep=keep), texts)
    tokenizer.enable_truncation(9, direction="right" if keep == "first" else "left")
    assert mine == [one.ids for one in tokenizer.encode_batch(texts)]


@pytest.mark.parametrize("tokenizer", [like.gpt_like, lambda: like.tiktoken_like("cl100k")])
def test_offsets_are_bytes(tokenizer: Callable[[], Any]) -> None:
    texts = mixed_texts(200)
    own = tokenizer()
    rows = ps.from_arrays({"text": texts}).transform(
        text=as_text(own, offsets="places", end="<|endoftext|>", max_length=20)
    )
    with ps.Loader(rows.batch(200)) as loader:
        batch = next(iter(loader))
    decode = own.decode_single_token_bytes if hasattr(own, "decode_single_token_bytes") else None
    for text, ids, places in zip(texts, batch["tokens"].to_pylist(), batch["places"].to_pylist(), strict=True):
        assert len(ids) == len(places)
        assert places[-1] == [0, 0]
        assert all(end == start for (_, end), (start, _) in itertools.pairwise(places[:-1]))
        if decode is not None:
            assert [decode(one) for one in ids[:-1]] == [text.encode()[start:end] for start, end in places[:-1]]


def test_every_way_of_calling_gives_the_same() -> None:
    """Threads, parts of batches and sliced columns change nothing."""
    texts = mixed_texts(300)
    op = as_text(like.gpt_like())
    rows = ps.from_arrays({"text": texts}).transform(text=op).select(["tokens"])
    expected = tokens(op, texts)
    for cpus in (1, 3):
        with ps.Loader(rows.batch(300), cpus=cpus) as loader:
            assert next(iter(loader))["tokens"].to_pylist() == expected
    with ps.Loader(rows.skip(7).take(20).batch(20)) as loader:
        assert next(iter(loader))["tokens"].to_pylist() == expected[7:27]
    assert np.array(expected[0]).dtype.kind == "i"
