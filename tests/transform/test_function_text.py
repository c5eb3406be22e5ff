"""Text reaches functions as str, if they wish."""

from __future__ import annotations

import traceback
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

import penstock as ps

TEXTS = ["a b c", "", "d", "e f", "f", "a a"]


def words() -> Tokenizer:
    made = Tokenizer(models.WordLevel({word: number for number, word in enumerate("abcdef")}, unk_token="a"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return made


def expected() -> list[list[int]]:
    return [["abcdef".index(word) for word in text.split()] for text in TEXTS]


def data() -> ps.Dataset:
    return ps.from_arrays({"text": TEXTS, "raw": [text.encode() for text in TEXTS], "id": np.arange(6)})


def test_a_tokenizer() -> None:
    """encode_batch(batch["text"]) works with text="list", and lists of ids are a ragged column."""
    tokenizer = words()
    dataset = data().map(lambda batch: {"ids": [one.ids for one in tokenizer.encode_batch(batch["text"])]}, text="list")
    batches = [batch["ids"] for batch in ps.Loader(dataset.batch(2))]
    assert [row for batch in batches for row in batch.to_pylist()] == expected()
    assert {batch.type for batch in batches} == {pa.large_list(pa.int64())}


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["map", "map_rows"])
def test_a_tokenizer_of_transformers(verb: str) -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words(), unk_token="a")
    options: dict[str, Any] = {"text": "list"} if verb == "map" else {}
    dataset = getattr(data(), verb)(lambda batch: tokenizer(batch["text"]), **options).batch(3)
    found = [row for batch in ps.Loader(dataset) for row in batch["input_ids"].to_pylist()]
    assert found == expected()


def test_without_it_the_error_is_one_sentence_with_the_fix() -> None:
    """The traceback has the loop and the function, and no frame of the engine."""
    tokenizer = words()
    dataset = data().map(lambda batch: {"ids": tokenizer.encode_batch(batch["text"])}).batch(2)
    with pytest.raises(ps.PlanError, match=r"^map\(.*\): text comes as Arrow arrays \('text', 'raw'\), and the function takes lists of str; write map\(…, text='list'\)"):  # fmt: skip
        next(iter(ps.Loader(dataset)))


def test_what_kinds_of_text_become() -> None:
    seen: list[Any] = []

    def look(batch: dict[str, Any]) -> dict[str, Any]:
        seen.append(batch)
        return batch

    lists = pa.array([["a"], [], None], pa.large_list(pa.large_string()))
    dataset = ps.from_arrays({"t": ["a", None, "b"], "b": [b"a", b"", b"b"], "l": lists, "n": [[1], [], [2]]}, nulls="arrow")  # fmt: skip
    batch = next(iter(ps.Loader(dataset.map(look, text="list").batch(3))))
    assert seen[0]["t"] == ["a", None, "b"]
    assert seen[0]["b"] == [b"a", b"", b"b"]
    assert seen[0]["l"] == [["a"], [], None]
    assert isinstance(seen[0]["n"], pa.Array)
    assert batch["t"].to_pylist() == ["a", None, "b"]


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["thread", "process"])
def test_verbs(workers: Any) -> None:
    """map, filter and flat_map take it, in processes as well; filter(ahead=True) too."""
    begins = data().filter(lambda batch: np.array([text.startswith("a") for text in batch["text"]]), text="list", workers=workers)  # fmt: skip
    assert next(iter(ps.Loader(begins.batch(2, steps=1, lanes=1))))["id"].tolist() == [0, 5]
    split = data().flat_map(lambda batch: {"word": [word for text in batch["text"] for word in text.split()]}, rows=6, text="list", workers=workers)  # fmt: skip
    assert next(iter(ps.Loader(split.batch(9, steps=1, lanes=1))))["word"].to_pylist() == [*"abcdeffaa"]
    ahead = data().filter(lambda batch: np.array([len(text) > 2 for text in batch["text"]]), text="list", ahead=True)
    assert len(ahead) == 3
    with pytest.raises(ps.PlanError, match="map: text='str'; choose 'list'"):
        data().map(lambda batch: batch, text="str")  # type: ignore[arg-type]


def test_errors_of_a_function_keep_its_frames_alone() -> None:
    def fails(_: Any) -> Any:
        raise KeyError("mine")

    with pytest.raises(KeyError) as caught:
        next(iter(ps.Loader(data().map(fails).batch(2))))
    frames = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert frames[-1] == "fails"
    assert len([frame for frame in traceback.extract_tb(caught.value.__traceback__) if "penstock/engine" in frame.filename]) == 0  # fmt: skip


def test_a_state_knows_how_text_came() -> None:
    one, other = (data().map(lambda batch: batch, text=text).batch(2) for text in ("arrow", "list"))
    state = ps.Loader(one).state_dict()
    with pytest.raises(ps.StateError, match="text"):
        ps.Loader(other).load_state_dict(state)
