"""Words and rules beside spaCy and datatrove, text by text: golden files by `tests/golden/make_text_rules.py`."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.core import kernels
from penstock.core.columns.text_parts import text_array, text_parts
from penstock.plan.expression_values import value_of

GOLDEN = Path(__file__).parents[2] / "golden" / "text_rules.json.gz"
NO_REPETITION: dict[str, Any] = {"repetition": False}
#: Of Gopher's quality nothing is asked.
NO_QUALITY: dict[str, Any] = dict.fromkeys(
    [
        "min_doc_words",
        "max_doc_words",
        "min_avg_word_length",
        "max_avg_word_length",
        "max_symbol_word_ratio",
        "max_bullet_lines_ratio",
        "max_ellipsis_lines_ratio",
        "max_non_alpha_words_ratio",
        "min_stop_words",
    ]
)
RULES = {
    "quality": ps.text.filters.gopher("text", **NO_REPETITION),
    "repetition": ps.text.filters.gopher("text", **NO_QUALITY),
    "fineweb": ps.text.filters.fineweb("text"),
    "c4": ps.text.filters.c4("text"),
    "loose": ps.text.filters.gopher("text", min_doc_words=None, min_stop_words=1, max_doc_words=60, **NO_REPETITION),
    "sentences": ps.text.filters.c4(
        "text", split_paragraph=False, min_num_sentences=2, filter_no_terminal_punct=False, max_word_length=8
    ),
}


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(gzip.decompress(GOLDEN.read_bytes()))
    return found


@pytest.fixture(scope="module")
def texts(rows: list[dict[str, Any]]) -> pa.Array:
    return pa.array([row["text"] for row in rows], pa.large_string())


def test_words_are_spacys(rows: list[dict[str, Any]], texts: pa.Array) -> None:
    counts, starts, ends = kernels.text_words(text_parts(texts))
    place = 0
    for row, count in zip(rows, counts, strict=True):
        data = row["text"].encode()
        places = zip(starts[place : place + count].tolist(), ends[place : place + count].tolist(), strict=True)
        assert [data[start:end].decode() for start, end in places] == row["words"]
        place += count


@pytest.mark.parametrize("name", RULES)
def test_rules_are_datatroves(name: str, rows: list[dict[str, Any]], texts: pa.Array) -> None:
    found = value_of(RULES[name].why, {"text": texts}).to_pylist()
    wrong = [
        (row["text"], one, row[name])
        for row, one in zip(rows, found, strict=True)
        if one != row[name] and row[name] != "?"
    ]
    assert wrong == []
    assert len({*found}) > 2


def test_each_rule_is_broken_somewhere(rows: list[dict[str, Any]]) -> None:
    for name, least in (("quality", 8), ("repetition", 8), ("fineweb", 5), ("c4", 4)):
        assert len({row[name] for row in rows} - {"?"}) >= least


def test_what_is_compared_is_datatroves(rows: list[dict[str, Any]], texts: pa.Array) -> None:
    found = text_array(kernels.text_simplified(text_parts(texts), 1), None).to_pylist()
    assert [one.strip() for one in found] == [row["simplified"] for row in rows]
    counts, starts, ends = kernels.text_words(text_parts(pa.array(found, pa.large_string())))
    place = 0
    for text, count, row in zip(found, counts, rows, strict=True):
        data = text.encode()
        words = [data[starts[at] : ends[at]] for at in range(place, place + count)]
        assert len({tuple(words[at : at + 5]) for at in range(count - 4)}) == row["shingles"]
        place += count
