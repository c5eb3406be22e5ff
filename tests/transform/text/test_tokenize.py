"""`ps.text.Tokenize` in plans: ranks, resuming, caches, processes, what follows it; and what is refused, with words that say why."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from support import promises
from support import texts as like
from support.texts import mixed_texts

TEXTS = mixed_texts(48)
GPT = like.gpt_like()


def tokenize(**said: Any) -> ps.text.Tokenize:
    return ps.text.Tokenize(GPT, **{"special_in_text": "as_text", **said})


def data(**said: Any) -> ps.Dataset:
    rows = ps.from_arrays({"text": TEXTS, "other": TEXTS[::-1], "label": np.arange(len(TEXTS))})
    return rows.shuffle(seed=1).transform(text=tokenize(**said))


def passes(plan: ps.Dataset, epochs: int = 2, **options: Any) -> list[dict[str, Any]]:
    with ps.Loader(plan, **options) as loader:
        return [promises.keep(batch) for _ in range(epochs) for batch in loader]


def lengths(batch: dict[str, Any]) -> dict[str, Any]:
    return {"lengths": np.array([len(row) for row in batch["tokens"].to_pylist()])}


PLANS: dict[str, Callable[[], ps.Dataset]] = {
    "beside": lambda: data().batch(12),
    "alone": lambda: data(end="<|endoftext|>").select(["tokens"]).batch(12),
    "offsets": lambda: data(offsets="places", max_length=20).select(["tokens", "places"]).batch(12),
    "pairs": lambda: data(pair="other", type_ids="types").select(["tokens", "types", "label"]).batch(12),
    "padded": lambda: data(max_length=32).select(["tokens", "label"]).batch_padded(12, length=32),
    "packed": lambda: data(end="<|endoftext|>").pack("tokens", length=64).batch(4, lanes=4, steps=5),
    "cached": lambda: data().cache().select(["tokens", "label"]).batch(12),
    "two transforms": lambda: data().transform(other=tokenize(into="more")).select(["tokens", "more"]).batch(12),
    "a function after": lambda: data().map(lengths).batch(12),
    "by length": lambda: data().select(["tokens"]).batch_tokens(
        4_000, by=np.array([len(text) for text in TEXTS]), padded=False, lanes=4
    ),
}  # fmt: skip


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_ranks_make_one_batch(plan: Callable[[], ps.Dataset]) -> None:
    wanted = passes(plan(), 1)
    parts = [passes(plan(), 1, rank=rank, world_size=2) for rank in range(2)]
    for step, part in enumerate(zip(*parts, strict=True)):
        promises.assert_same(promises.join(part), wanted[step], f"step {step}")


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_it_resumes(plan: Callable[[], ps.Dataset]) -> None:
    wanted = passes(plan())
    with ps.Loader(plan()) as loader:
        next(iter(loader))
        state = json.loads(json.dumps(loader.state_dict()))
    assert len(json.dumps(state)) < 5_000
    with ps.Loader(plan()) as loader:
        loader.load_state_dict(state)
        for step, batch in enumerate(loader, 1):
            promises.assert_same(promises.keep(batch), wanted[step], f"step {step}")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["alone", "packed"])
def test_a_process_makes_the_same(kind: str) -> None:
    for found, wanted in zip(passes(PLANS[kind](), isolation="process"), passes(PLANS[kind]()), strict=True):
        promises.assert_same(found, wanted)


def test_a_state_knows_the_tokenizer() -> None:
    with ps.Loader(data().batch(12)) as loader:
        next(iter(loader))
        state = loader.state_dict()
    other = ps.text.Tokenize(like.bert_like(), special_in_text="as_text")
    rows = ps.from_arrays({"text": TEXTS, "other": TEXTS[::-1], "label": np.arange(len(TEXTS))})
    with (
        ps.Loader(rows.shuffle(seed=1).transform(text=other).batch(12)) as loader,
        pytest.raises(ps.StateError, match="another plan"),
    ):
        loader.load_state_dict(state)


def test_what_nobody_uses_is_not_made() -> None:
    told = data().select(["label"]).batch(12).explain()
    assert "Tokenize" not in told.partition("Plan as it runs")[2].partition("Changed")[0]
    told = data().select(["tokens"]).batch(12).explain()
    assert "Tokenize(tokenizer=json:" in told.partition("Plan as it runs")[2]
    assert "columns=[text]" in told.partition("Plan as it runs")[2]


def test_an_op_pickles_small_and_whole() -> None:
    op = tokenize(max_length=9)
    assert pickle.loads(pickle.dumps(op)) == op  # our own
    assert len(repr(op)) < 200


def test_nulls_and_empty_texts(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a b", None, ""]}), tmp_path / "rows.parquet")
    rows = ps.read(tmp_path / "rows.parquet", nulls="arrow").transform(text=tokenize(end="<|endoftext|>"))
    (batch,) = passes(rows.batch(3), 1)
    found = batch["tokens"].to_pylist()
    assert found[1] is None
    assert found[2] == [0]


@pytest.mark.parametrize("kind", ["gpt", "tiktoken"])
def test_special_tokens_in_a_text(kind: str) -> None:
    tokenizer = GPT if kind == "gpt" else like.tiktoken_like("cl100k")
    text = "a <|endoftext|> b"
    rows = ps.from_arrays({"text": ["fine", text]})

    def found(policy: str) -> list[list[int]]:
        op = ps.text.Tokenize(tokenizer, special_in_text=policy)
        return passes(rows.transform(text=op).batch(2), 1)[0]["tokens"].to_pylist()

    with pytest.raises(ps.DataError, match=r'sample 1.*special token "<\|endoftext\|>".*as_text'):
        found("error")
    special = 0 if kind == "gpt" else tokenizer.encode("<|endoftext|>", allowed_special="all")[0]
    assert special not in found("as_text")[1]
    assert found("as_token")[1].count(special) == 1


def test_control_pieces_in_a_text() -> None:
    processor = like.sentencepiece_like("bpe")
    rows = ps.from_arrays({"text": ["fine", "no <s> here"]})
    with pytest.raises(ps.DataError, match="special token"):
        passes(rows.transform(text=ps.text.Tokenize(processor)).batch(2), 1)
    with pytest.raises(ps.PlanError, match="finds no control token in a text"):
        ps.text.Tokenize(processor, special_in_text="as_token")
    framed = ps.text.Tokenize(processor, begin="<s>", end="</s>", special_in_text="as_text")
    (batch,) = passes(rows.transform(text=framed).batch(2), 1)
    assert batch["tokens"].to_pylist() == processor.encode(["fine", "no <s> here"], add_bos=True, add_eos=True)


@pytest.mark.parametrize("bad", [b"\xff\xfe", b"ok \xed\xa0\x80", b"cut \xe4\xb8"])
def test_texts_that_are_no_utf8(bad: bytes) -> None:
    """Half a surrogate pair, too, as other programs write them."""
    rows = ps.from_arrays({"text": pa.array([b"fine", bad], pa.binary()).view(pa.string())})
    with pytest.raises(ps.DataError, match="UTF-8"):
        passes(rows.transform(text=tokenize()).batch(2), 1)


def changed(change: Callable[[dict[str, Any]], Any], base: Any = GPT) -> bytes:
    value = json.loads(base.to_str())
    change(value)
    return json.dumps(value).encode()


def big_id(value: dict[str, Any]) -> None:
    value["model"]["vocab"]["a"] = 2**31


def same_id(value: dict[str, Any]) -> None:
    value["model"]["vocab"]["a"] = value["model"]["vocab"]["b"]


def lost_token(value: dict[str, Any]) -> None:
    del value["model"]["vocab"][next(iter(value["model"]["merges"]))[0]]


def unknown_part(value: dict[str, Any]) -> None:
    value["pre_tokenizer"] = {"type": "FromTheFuture"}


def unknown_model(value: dict[str, Any]) -> None:
    value["model"]["type"] = "Neural"


def no_model(value: dict[str, Any]) -> None:
    del value["model"]


def added_elsewhere(value: dict[str, Any]) -> None:
    value["added_tokens"][0]["id"] = 77


def unknown_around(value: dict[str, Any]) -> None:
    added = {"[CLS]": {"id": "[CLS]", "ids": [99_999], "tokens": ["[CLS]"]}}
    one = [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    both = [*one, {"Sequence": {"id": "B", "type_id": 1}}]
    value["post_processor"] = {"type": "TemplateProcessing", "single": one, "pair": both, "special_tokens": added}


def bad_pattern(value: dict[str, Any]) -> None:
    value["pre_tokenizer"] = {
        "type": "Split",
        "pattern": {"Regex": "(unclosed"},
        "behavior": "Isolated",
        "invert": False,
    }


FILES = {
    "empty": b"",
    "no JSON": b"{",
    "a list": b"[]",
    "nothing in it": b"{}",
    "no protobuf": b"\x0a\xff\xff\xff",
    "another protobuf": b"\x08\x01",
    "an id of 2^31": changed(big_id),
    "one id twice": changed(same_id),
    "a token that merges name is lost": changed(lost_token),
    "an unknown component": changed(unknown_part),
    "an unknown model": changed(unknown_model),
    "no model": changed(no_model),
    "an added token of another id": changed(added_elsewhere),
    "a post-processor of an unknown id": changed(unknown_around),
    "a bad regular expression": changed(bad_pattern),
    "cut": GPT.to_str().encode()[:1000],
}


@pytest.mark.parametrize("kind", FILES)
def test_files_that_are_no_tokenizers(kind: str, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes(FILES[kind])
    with pytest.raises(ps.PlanError, match=f"Tokenize: {tmp_path}/tokenizer.json: "):
        ps.text.Tokenize(tmp_path / "tokenizer.json")


RANKS = like.tiktoken_file(like.tiktoken_like("gpt2"))


@pytest.mark.parametrize(
    ("data", "pattern", "special"),
    [
        (b"IQ== 0\n", r"\S+", {}),
        (RANKS + b"IQ== 9999\n", r"\S+", {}),
        (RANKS + b"bm90 one\n", r"\S+", {}),
        (RANKS.replace(b" 300\n", b" 301\n"), r"\S+", {}),
        (RANKS.replace(b" 300\n", b" 3000000000\n"), r"\S+", {}),
        (RANKS, r"(", {}),
        (RANKS, r"\S+", {"<|end|>": 5}),
        (RANKS, r"\S+", {"": 5_000}),
    ],
)
def test_bad_files_of_tiktoken(data: bytes, pattern: str, special: dict[str, int], tmp_path: Path) -> None:
    (tmp_path / "own.tiktoken").write_bytes(data)
    with pytest.raises(ps.PlanError, match="Tokenize: "):
        ps.text.Tokenize(ps.text.Tiktoken(tmp_path / "own.tiktoken", pattern, special))


@pytest.mark.parametrize("pattern", ["(", "[z-a]", r"\p{Nonsense}", "(?P<a", "a{99999999999}"])
def test_a_bad_pattern_is_an_error_and_nothing_else(
    pattern: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own.tiktoken").write_bytes(RANKS)
    with pytest.raises(ps.PlanError, match=r"its pattern .* is no regular expression"):
        ps.text.Tokenize(ps.text.Tiktoken(tmp_path / "own.tiktoken", pattern, {}))
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("pattern", ["", "(?=a)"])
def test_a_pattern_that_matches_nothing_is_an_error(pattern: str, tmp_path: Path) -> None:
    (tmp_path / "own.tiktoken").write_bytes(RANKS)
    with pytest.raises(ps.PlanError, match="the tokenizer's own library breaks off"):
        ps.text.Tokenize(ps.text.Tiktoken(tmp_path / "own.tiktoken", pattern, {}))


@pytest.mark.parametrize(
    ("said", "match"),
    [
        ({"special_tokens": ["a"]}, "pass a dict of their ids"),
        ({"special_tokens": None}, "pass a dict of their ids"),
        ({"special_tokens": {"a": "1"}}, "'a' has the id '1'; pass a whole number"),
        ({"special_tokens": {"a": -1}}, "has the id -1; pass a whole number"),
        ({"special_tokens": {"a": 1 << 40}}, "pass a whole number from 0 to 2,147,483,647"),
        ({"special_tokens": {"a": True}}, "has the id True"),
        ({"special_tokens": {3: 5_000}}, "the name of a special token=3; pass a text"),
        ({"pattern": 5}, "pattern=5; pass a text"),
        ({"path": 5}, "path: 5 is no path"),
        ({"path": "a\0b"}, "zero byte"),
    ],
)
def test_words_of_tiktoken_that_do_not_fit(said: dict[str, Any], match: str, tmp_path: Path) -> None:
    (tmp_path / "own.tiktoken").write_bytes(RANKS)
    with pytest.raises(ps.PlanError, match=match):
        ps.text.Tokenize(ps.text.Tiktoken(**{"path": tmp_path / "own.tiktoken", "pattern": r"\S+", **said}))


@pytest.mark.parametrize(
    ("said", "match"),
    [
        ({"special_in_text": "maybe"}, "pass one of 'error', 'as_text', 'as_token'"),
        ({"keep": "middle"}, "pass one of 'first', 'last'"),
        ({"max_length": 0}, "whole number"),
        ({"max_length": 1, "begin": "a", "end": "b"}, "2 tokens are added"),
        ({"end": "<nowhere>"}, "no such token"),
        ({"offsets": "tokens"}, "one name for two columns"),
        ({"type_ids": "types"}, "give pair="),
        ({"pair": "other", "offsets": "places"}, "offsets of pairs"),
        ({"into": 3}, "pass a text"),
        ({"into": None}, "into=None; pass a text"),
        ({"into": ""}, "no name of a column"),
        ({"pair": "other", "type_ids": 5}, "type_ids=5; pass a text"),
        ({"pair": "other", "type_ids": ["x"]}, "type_ids=.*; pass a text"),
        ({"add_special_tokens": "yes"}, "True or False"),
    ],
)
def test_words_that_do_not_fit(said: dict[str, Any], match: str) -> None:
    with pytest.raises(ps.PlanError, match=match):
        tokenize(**said)


def test_what_is_no_tokenizer(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\na\n")
    (tmp_path / "saved").mkdir()
    (tmp_path / "saved" / "tokenizer.json").write_text(GPT.to_str())
    for given, match in (
        (3, "is no tokenizer"),
        (tmp_path / "vocab.txt", r"BertWordPieceTokenizer\("),
        (tmp_path / "saved", r"give '.*saved/tokenizer.json'"),
        (tmp_path / "nowhere", "No such file"),
        ("a.tiktoken", "Tiktoken\\("),
        ("a\0b", "zero byte"),
    ):
        with pytest.raises(ps.PlanError, match=match):
            ps.text.Tokenize(given)
    with pytest.raises(ps.PlanError, match="byte-level BPE"):
        ps.text.Tokenize(like.sentencepiece_like("bpe"), offsets="places")


def test_columns_that_do_not_fit() -> None:
    rows = ps.from_arrays({"text": TEXTS, "label": np.arange(len(TEXTS))})
    with pytest.raises(ps.PlanError, match="Tokenize on column 'label', which is int64; give it text"):
        rows.transform(label=tokenize())
    with pytest.raises(ps.PlanError, match="no column 'other'"):
        rows.transform(text=tokenize(pair="other"))
    with pytest.raises(ps.PlanError, match="on that column itself"):
        rows.transform(text=tokenize(pair="text"))
    with pytest.raises(ps.PlanError, match="which is uint8"):
        rows.transform(text=[ps.text.Bytes(), tokenize()])


@pytest.mark.parametrize("said", [{"into": "label"}, {"offsets": "label"}, {"into": "text"}, {"offsets": "text"}])
def test_a_column_that_exists_is_not_written_over(said: dict[str, str]) -> None:
    with pytest.raises(ps.PlanError, match=f"Tokenize makes column '{next(iter(said.values()))}'.*say into="):
        data(**said)


def test_a_column_behind_a_function_is_not_written_over() -> None:
    rows = ps.from_arrays({"text": TEXTS}).map(lambda batch: {**batch, "tokens": batch["text"]})
    with pytest.raises(ps.PlanError, match="makes column 'text', which there is already"):
        rows.transform(text=tokenize(into="text"))
    with pytest.raises(ps.PlanError, match="makes column 'tokens', which there is already"):
        passes(rows.transform(text=tokenize()).batch(4), 1)


@pytest.mark.parametrize(
    "chains",
    [
        {"text": tokenize(), "other": tokenize(end="<|endoftext|>")},
        {"other": ps.text.Normalize(), "text": tokenize(into="other")},
        {"text": tokenize(into="other"), "other": ps.text.Normalize()},
        {"text": [tokenize(), tokenize()]},
        {"text": [tokenize(offsets="places"), tokenize(into="places")]},
    ],
)
@pytest.mark.parametrize("known", [True, False])
def test_one_transform_makes_a_column_once(chains: dict[str, Any], known: bool) -> None:
    rows = ps.from_arrays({"text": TEXTS, "other": TEXTS})
    with pytest.raises(ps.PlanError, match=r"make column .(tokens|other|places).; say into="):
        (rows if known else rows.map(dict)).transform(**chains)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        (ps.text.Normalize, r"Normalize is a class of ops; write Normalize\(\)"),
        ([ps.text.Bytes], r"write Bytes\(\)"),
        (None, "None is not an op"),
        ("Tokenize", "'Tokenize' is not an op"),
    ],
)
def test_what_is_no_op(given: Any, match: str) -> None:
    with pytest.raises(ps.PlanError, match=match):
        ps.from_arrays({"text": TEXTS}).transform(text=given)


def test_a_difference_to_the_own_library_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the native tokenizer made other ids, nothing would be tokenized."""
    from penstock.transform.text import same_ids

    encoding = like.tiktoken_like("gpt2")
    monkeypatch.setattr(type(encoding), "encode_ordinary", lambda self, text: [1, 2, 3])
    with pytest.raises(ps.PlanError, match=r"own library gives \[1, 2, 3\]"):
        ps.text.Tokenize(encoding)
    assert len(same_ids.TEXTS) > 20


@pytest.mark.parametrize("text", ["a" * 300_000, " " * 300_000 + "x"])
def test_expressions_that_would_give_up_are_told(text: str) -> None:
    """An expression that looks around, and a stretch that it may not cut to its end."""
    encoding = like.tiktoken_like("own")
    rows = ps.from_arrays({"text": [text]}).transform(text=ps.text.Tokenize(encoding)).batch(1)
    with pytest.raises(ps.DataError, match="cannot cut exactly"):
        passes(rows, 1)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["gpt", "cl100k", "bert", "bpe", "unigram"])
@pytest.mark.parametrize("shape", ["words", "one word", "blanks"])
def test_a_document_of_100_megabytes(kind: str, shape: str) -> None:
    tokenizer = {
        "gpt": like.gpt_like,
        "cl100k": lambda: like.tiktoken_like("cl100k"),
        "bert": like.bert_like,
        "bpe": lambda: like.sentencepiece_like("bpe"),
        "unigram": lambda: like.sentencepiece_like("unigram"),
    }[kind]()
    size = 100_000_000
    text = {"words": "all human beings ", "one word": "x", "blanks": " "}[shape]
    text = text * (size // len(text))
    op = ps.text.Tokenize(tokenizer, special_in_text="as_text")
    rows = ps.from_arrays({"text": pa.array([text], pa.large_string())}).transform(text=op).select(["tokens"])
    with ps.Loader(rows.batch(1), memory="8GB") as loader:
        (batch,) = loader
    assert len(batch["tokens"]) == 1
