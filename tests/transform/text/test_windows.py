"""`ps.text.Windows`: the windows of rows of tokens are those of Hugging Face's tokenizers; what else a row has goes with each of them."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tokenizers import processors

import penstock as ps
from support import promises
from support import texts as like
from support.texts import mixed_texts

TEXTS = [*mixed_texts(60), "", "word " * 400, "a"]
QUESTIONS = [text[:7] for text in mixed_texts(len(TEXTS), 1)]
GPT, BERT = like.gpt_like(), like.bert_like()


def overflowing(tokenizer: Any, length: int, stride: int) -> tuple[list[list[int]], list[int]]:
    """Hugging Face's windows: their ids, and of which text each is."""
    tokenizer = type(tokenizer).from_str(tokenizer.to_str())
    tokenizer.enable_truncation(length, stride=stride)
    wholes = enumerate(tokenizer.encode_batch(TEXTS))
    windows = [(number, one.ids) for number, whole in wholes for one in (whole, *whole.overflowing)]
    return [ids for _, ids in windows], [row for row, _ in windows]


def loaded(rows: ps.Dataset) -> dict[str, list[Any]]:
    """All rows that a loader gives, in their order."""
    found: dict[str, list[Any]] = {}
    with ps.Loader(rows.batch(7, lanes=1, drop_last=False)) as loader:
        for batch in loader:
            for name, column in batch.items():
                found.setdefault(name, []).extend(
                    column.to_pylist() if isinstance(column, pa.Array) else column.tolist()
                )
    return found


def tokenized(tokenizer: Any, **said: Any) -> ps.Dataset:
    rows = ps.from_arrays({"text": TEXTS, "row": np.arange(len(TEXTS))})
    made = rows.transform(text=ps.text.Tokenize(tokenizer, special_in_text="as_text", **said))
    return made.select(["tokens", "row", *([said["offsets"]] if "offsets" in said else [])])


@pytest.mark.parametrize(("length", "stride"), [(8, 0), (8, 3), (8, 7), (64, 16), (1, 0), (10_000, 5)])
def test_windows_are_those_of_the_library(length: int, stride: int) -> None:
    found = loaded(tokenized(GPT).flat_map(ps.text.Windows(length, stride=stride)))
    assert (found["tokens"], found["row"]) == overflowing(GPT, length, stride)


@pytest.mark.parametrize(("length", "stride"), [(8, 0), (8, 5), (32, 8)])
def test_windows_between_special_tokens(length: int, stride: int) -> None:
    function = ps.text.Windows(length, stride=stride, begin=BERT.token_to_id("[CLS]"), end=BERT.token_to_id("[SEP]"))
    found = loaded(tokenized(BERT, add_special_tokens=False).flat_map(function))
    assert (found["tokens"], found["row"]) == overflowing(BERT, length, stride)


def test_offsets_are_cut_with_their_tokens() -> None:
    whole = loaded(tokenized(GPT, offsets="places"))
    function = ps.text.Windows(6, stride=2, columns=["tokens", "places"], begin=1, end=2)
    found = loaded(tokenized(GPT, offsets="places").flat_map(function))
    first = 0
    for number, (ids, places, row) in enumerate(zip(found["tokens"], found["places"], found["row"], strict=True)):
        first = first + 2 if number and found["row"][number - 1] == row else 0
        assert ids == [1, *whole["tokens"][row][first : first + 4], 2]
        assert places == [[0, 0], *whole["places"][row][first : first + 4], [0, 0]]
    assert sorted({*found["row"]}) == [*range(len(TEXTS))]


def paired(tokenizer: Any, **said: Any) -> ps.Dataset:
    """Questions and articles, tokenized each for itself."""
    op: dict[str, Any] = {"special_in_text": "as_text", "add_special_tokens": False}
    rows = ps.from_arrays({"question": QUESTIONS, "text": TEXTS, "row": np.arange(len(TEXTS))})
    question = ps.text.Tokenize(tokenizer, into="asked", **op)
    rows = rows.transform(question=question, text=ps.text.Tokenize(tokenizer, **op, **said))
    return rows.select(["tokens", "asked", "row", *([said["offsets"]] if "offsets" in said else [])])


def overflowing_pairs(tokenizer: Any, length: int, stride: int) -> list[tuple[int, Any]]:
    """Hugging Face's windows of the second texts, each with its row."""
    tokenizer = type(tokenizer).from_str(tokenizer.to_str())
    tokenizer.enable_truncation(length, stride=stride, strategy="only_second")
    wholes = enumerate(tokenizer.encode_batch([*zip(QUESTIONS, TEXTS, strict=True)]))
    return [(number, one) for number, whole in wholes for one in (whole, *whole.overflowing)]


@pytest.mark.parametrize(("length", "stride"), [(40, 0), (40, 7), (40, 20), (500, 9), (10_000, 5)])
def test_windows_of_pairs_are_those_of_the_library(length: int, stride: int) -> None:
    cls, sep = BERT.token_to_id("[CLS]"), BERT.token_to_id("[SEP]")
    cut = ps.text.Windows(
        length,
        stride=stride,
        columns=["tokens", "places"],
        before="asked",
        begin=cls,
        between=sep,
        end=sep,
        type_ids="types",
    )
    found = loaded(paired(BERT, offsets="places").flat_map(cut))
    wanted = overflowing_pairs(BERT, length, stride)
    assert found["tokens"] == [one.ids for _, one in wanted]
    assert found["types"] == [one.type_ids for _, one in wanted]
    assert found["row"] == [row for row, _ in wanted]
    for places, (row, one) in zip(found["places"], wanted, strict=True):
        letters = zip(one.sequence_ids, one.offsets, strict=True)
        ends = [[len(TEXTS[row][:end].encode()) for end in pair] if of else [0, 0] for of, pair in letters]
        assert places == ends


def test_windows_of_pairs_with_two_tokens_between() -> None:
    """As RoBERTa's."""
    roberta = like.gpt_like()
    roberta.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 1), add_prefix_space=False)
    cut = ps.text.Windows(64, stride=16, before="asked", begin=1, between=[2, 2], end=2)
    found = loaded(paired(GPT).flat_map(cut))
    wanted = overflowing_pairs(roberta, 64, 16)
    assert (found["tokens"], found["row"]) == ([one.ids for _, one in wanted], [row for row, _ in wanted])


def test_nulls_and_questions_without_room() -> None:
    cut = ps.text.Windows(6, stride=2, before="asked", begin=7, between=8, end=9, type_ids="types")
    asked = pa.array([[5, 5, 5, 5], None, [], [5, 5, 5], [5]], pa.list_(pa.int64()))[1:]
    tokens = pa.array([[0], None, [], [], [1, 2, 3]], pa.large_list(pa.int32()))[1:]
    with pytest.raises(ps.DataError, match=r"'asked' of row 3 of 4 has 1 tokens, so that 2 of length=6"):
        cut({"tokens": tokens, "asked": asked})
    made = cut({"tokens": tokens[:3], "asked": asked[:3]})
    assert made["tokens"].to_pylist() == [None, [7, 8, 9], [7, 5, 5, 5, 8, 9]]
    assert made["types"].to_pylist() == [None, [0, 0, 1], [0, 0, 0, 0, 0, 1]]
    with pytest.raises(ps.DataError, match="row 1 of 2 has no 'asked'"):
        cut({"tokens": pa.array([[1], [2]]), "asked": pa.array([[1], None])})
    with pytest.raises(ps.PlanError, match="there is already"):
        cut({"tokens": tokens, "asked": asked, "types": np.arange(4)})


def test_rows_of_one_length_and_nulls() -> None:
    cut = pickle.loads(pickle.dumps(ps.text.Windows(3, stride=1, end=9)))
    made = cut({"tokens": np.array([[1, 2, 3], [4, 5, 6]]), "text": pa.array(["a", None])})
    assert made["tokens"].to_pylist() == [[1, 2, 9], [2, 3, 9], [4, 5, 9], [5, 6, 9]]
    assert made["text"].to_pylist() == ["a", "a", None, None]
    column = pa.array([[0], None, [], [1, 2, 3], None], pa.large_list(pa.int32()))[1:]
    made = cut({"tokens": column, "score": np.arange(4.0)})
    assert made["tokens"].to_pylist() == [None, [9], [1, 2, 9], [2, 3, 9], None]
    assert made["score"].tolist() == [0, 1, 2, 2, 3]
    assert made["tokens"].type == pa.large_list(pa.int32())
    assert ps.text.Windows(3)({"tokens": column[:0]})["tokens"].to_pylist() == []


def test_ranks_and_resuming_give_the_same_windows() -> None:
    plan = tokenized(GPT).shuffle(seed=3).flat_map(ps.text.Windows(8, stride=2)).batch(8, steps=20, lanes=4)
    with ps.Loader(plan) as loader:
        wanted = [promises.keep(batch) for batch in loader]
    parts = []
    for rank in range(2):
        with ps.Loader(plan, rank=rank, world_size=2) as loader:
            parts.append([promises.keep(batch) for batch in loader])
    for step, part in enumerate(zip(*parts, strict=True)):
        promises.assert_same(promises.join(part), wanted[step], f"step {step}")
    with ps.Loader(plan) as loader:
        next(iter(loader))
        state = loader.state_dict()
    with ps.Loader(plan) as loader:
        loader.load_state_dict(state)
        promises.assert_same(promises.keep(next(iter(loader))), wanted[1], "resumed")
    other = tokenized(GPT).shuffle(seed=3).flat_map(ps.text.Windows(8, stride=3)).batch(8, steps=20, lanes=4)
    with ps.Loader(other) as loader, pytest.raises(ps.StateError, match="another plan"):
        loader.load_state_dict(state)


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ({"length": 0}, "length"),
        ({"length": 4, "stride": 4}, "from 0 to 3"),
        ({"length": 4, "stride": -1}, "from 0 to 3"),
        ({"length": 4, "stride": True}, "from 0 to 3"),
        ({"length": 2, "begin": 1, "end": 2}, "no room"),
        ({"length": 4, "begin": -1}, "the id of a token"),
        ({"length": 4, "end": "[SEP]"}, "the id of a token"),
        ({"length": 4, "columns": []}, "each once"),
        ({"length": 4, "columns": ["a", "a"]}, "each once"),
        ({"length": 4, "columns": 3}, "each once"),
        ({"length": 4, "between": 3}, "of pairs"),
        ({"length": 4, "type_ids": "types"}, "of pairs"),
        ({"length": 4, "before": "asked", "between": [3, -1]}, "the id of a token"),
        ({"length": 4, "before": "asked", "between": None}, "the id of a token"),
        ({"length": 4, "before": "asked", "between": [1, 2, 3, 4]}, "no room"),
        ({"length": 4, "before": "tokens"}, "one name for two columns"),
        ({"length": 4, "before": 3}, "before"),
    ],
)
def test_what_makes_no_windows(said: dict[str, Any], found: str) -> None:
    with pytest.raises(ps.PlanError, match=found):
        ps.text.Windows(**said)


@pytest.mark.parametrize(
    ("function", "found"),
    [
        (ps.text.Windows(4, columns="ids"), "no column 'ids'"),
        (ps.text.Windows(4, columns="row"), "give it rows of tokens"),
        (ps.text.Windows(4, columns=["tokens", "other"]), "other lengths"),
    ],
)
def test_columns_that_are_no_rows_of_tokens(function: ps.text.Windows, found: str) -> None:
    rows = ps.from_arrays(
        {
            "tokens": pa.array([[1], [2, 3]], pa.large_list(pa.int32())),
            "other": pa.array([[1], [2]], pa.large_list(pa.int32())),
            "row": [0, 1],
        }
    )
    with pytest.raises((ps.PlanError, ps.DataError), match=found):
        loaded(rows.flat_map(function))
