"""`deduplicate`: which rows stay, against sets and exact Jaccard similarities; and what every verb that chooses rows keeps."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.core import kernels
from penstock.core.columns.text_parts import text_parts
from support.cli_runner import invoke

WORDS = [
    f"{a}{b}" for a in ("ka", "lo", "mi", "nu", "pe", "ra", "si", "to") for b in ("ban", "der", "fil", "gom", "hus")
]


def near_copies(count: int, seed: int = 0) -> list[str]:
    """Texts, a third of which are others with some words changed."""
    draw = random.Random(seed)
    texts: list[list[str]] = []
    for _ in range(count):
        if texts and draw.random() < 1 / 3:
            words = [*draw.choice(texts)]
            for _ in range(draw.randint(0, 6)):
                words[draw.randrange(len(words))] = draw.choice(WORDS)
        else:
            words = draw.choices(WORDS, k=draw.randint(60, 120))
        texts.append(words)
    return [" ".join(words) for words in texts]


def shingles(text: str) -> set[tuple[str, ...]]:
    words = text.split()
    return {tuple(words[at : at + 5]) for at in range(max(1, len(words) - 4))}


@given(st.lists(st.one_of(st.sampled_from(["", "a", "b", "ä", "aa"]), st.binary(max_size=3)), min_size=1, max_size=40))
@settings(max_examples=60, deadline=None)
def test_exact_copies_are_those_of_a_dict(values: list[str | bytes]) -> None:
    column = [one.encode() if isinstance(one, str) else one for one in values]
    data = ps.from_arrays({"x": column, "n": np.arange(len(column))})
    first = {one: row for row, one in reversed([*enumerate(column)])}
    last = {one: row for row, one in enumerate(column)}
    assert data.deduplicate("x").head(99)["n"].tolist() == sorted(first.values())
    assert data.deduplicate("x", keep="last").head(99)["n"].tolist() == sorted(last.values())


def test_near_copies_are_found() -> None:
    """Recall and precision against exact Jaccard similarities, of pairs; the odds by theory are 0.92 at 0.8, and 0.05 at 0.5."""
    texts = near_copies(700)
    sets = [shingles(text) for text in texts]
    similar = np.zeros((len(sets), len(sets)))
    for row, one in enumerate(sets):
        for other in range(row + 1, len(sets)):
            if common := len(one & sets[other]):
                similar[row, other] = common / (len(one) + len(sets[other]) - common)
    bands = kernels_bands(texts)
    found = (bands[:, None, :] == bands[None, :, :]).any(axis=2)
    pairs = np.triu(np.ones(similar.shape, dtype=bool), 1)
    alike, unlike = pairs & (similar >= 0.85), pairs & (similar < 0.4)
    assert alike.sum() > 50
    assert (found & alike).sum() / alike.sum() > 0.95  # recall
    assert (found & pairs & (similar >= 0.5)).sum() / (found & pairs).sum() > 0.95  # precision
    assert (found & unlike).sum() == 0
    for low, high in ((0.6, 0.7), (0.7, 0.8), (0.8, 0.9)):
        some = pairs & (similar >= low) & (similar < high)
        expected = (1 - (1 - similar[some] ** 8) ** 14).mean()
        assert abs(found[some].mean() - expected) < 0.15


def kernels_bands(texts: list[str]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    import pyarrow as pa

    from penstock.core.columns.text_parts import text_parts

    parts = text_parts(pa.array(texts, pa.large_string()))
    return kernels.text_bands(parts, 5, 14, 8, 1, 1).reshape(-1, 14)


def test_sets_are_what_is_linked_and_the_first_row_stays() -> None:
    texts = near_copies(600)
    bands = kernels_bands(texts)
    root = [*range(len(texts))]
    for band in bands.T:
        seen: dict[int, int] = {}
        for row, key in enumerate(band.tolist()):
            one, other = root[seen.setdefault(key, row)], root[row]
            root = [min(one, other) if found in (one, other) else found for found in root]
    expected = [row for row in range(len(texts)) if root[row] == row]
    data = ps.from_arrays({"text": texts, "n": np.arange(len(texts))})
    assert data.deduplicate("text", how="minhash").head(999)["n"].tolist() == expected
    assert len(expected) < 500


def test_a_chain_of_near_copies_is_one_set() -> None:
    words, chain = [one + other for one in WORDS[:20] for other in WORDS[:10]], []
    for step in range(40):
        words[5 * step] = f"x{WORDS[step]}"
        chain.append(" ".join(words))
    data = ps.from_arrays({"text": [*chain, "something else"]})
    assert len(data.deduplicate("text", how="minhash", num_buckets=60)) == 2


def test_what_is_compared() -> None:
    texts = ["One, two; 12.5 THREE four five six", "one two 3 three four five six", "One", "one!", "", "?", "two"]
    data = ps.from_arrays({"text": texts})
    assert data.deduplicate("text", how="minhash").head()["text"].to_pylist() == [texts[0], "One", "", "two"]
    assert len(data.deduplicate("text")) == 7
    assert len(data.deduplicate(ps.col("text").str.lower().str.strip("!"))) == 6


def test_rows_without_a_text_all_stay() -> None:
    data = ps.from_arrays([{"text": None}, {"text": "a"}, {"text": None}, {"text": "a"}], nulls="arrow")
    for how in ("exact", "minhash"):
        assert data.deduplicate("text", how=how).head()["text"].to_pylist() == [None, "a", None]  # type: ignore[arg-type]


def test_all_are_copies() -> None:
    data = ps.from_arrays({"text": ["same text in each of these rows"] * 5000})
    assert len(data.deduplicate("text")) == len(data.deduplicate("text", how="minhash", keep="last")) == 1


def test_the_same_rows_on_any_ranks_and_resumed(tmp_path: Path) -> None:
    texts = near_copies(300)
    for shard in range(3):
        rows = [
            {"text": text, "n": 100 * shard + row} for row, text in enumerate(texts[100 * shard : 100 * shard + 100])
        ]
        (tmp_path / f"{shard}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = ps.read(str(tmp_path / "*.jsonl")).deduplicate("text", how="minhash")
    kept = sorted(data.head(999)["n"].tolist())
    assert (
        kept
        == ps.from_arrays({"text": texts, "n": [*range(300)]})
        .deduplicate("text", how="minhash")
        .head(999)["n"]
        .tolist()
    )
    plan = data.shuffle(seed=1).batch(8, drop_last=False)
    one = [batch["n"].tolist() for batch in ps.Loader(plan)]
    assert sorted(n for some in one for n in some) == kept
    ranks = [[batch["n"].tolist() for batch in ps.Loader(plan, rank=rank, world_size=2)] for rank in range(2)]
    assert [first + second for first, second in zip(*ranks, strict=True)][:-1] == one[:-1]
    loader = ps.Loader(plan)
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    batches.close()  # type: ignore[attr-defined]
    other = ps.Loader(plan, isolation="process")
    other.load_state_dict(state)
    assert [batch["n"].tolist() for batch in other] == one[1:]
    other.close()
    assert "deduplicate by=col('text') how=MinHashSettings(" in plan.explain()


def test_it_is_kept_in_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": f"text {n % 7}"}) + "\n" for n in range(50)))
    figures = json.loads(invoke("index", str(tmp_path / "a.jsonl"), "--dedup", "text", "--json").stdout)["dedup"]
    assert (figures["samples"], figures["rows"]) == (50, 7)
    calls = list[int]()
    data = ps.read(str(tmp_path / "a.jsonl"))
    assert len(data.deduplicate("text", progress=lambda done, _: calls.append(done))) == 7
    assert calls == []
    assert len(data.deduplicate("text", how="minhash", n_grams=1)) == 1
    assert (
        "7 of 50 rows stay after deduplication by text"
        in invoke("index", str(tmp_path / "a.jsonl"), "--dedup", "text").stdout
    )


def test_the_command_looks_as_training_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "a.jsonl"
    rows = [{"text": f"text {n % 7}" if n % 5 else None, "n": n} for n in range(50)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    text = invoke("index", str(path), "--dedup", "text", "--nulls", "arrow", "--columns", "text, n").stdout
    assert "17 of 50 rows stay" in text
    calls = list[int]()
    data = ps.read(str(path), nulls="arrow", columns=["text", "n"])
    assert len(data.deduplicate("text", progress=lambda done, _: calls.append(done))) == 17
    assert calls == []


def test_many_rows_lie_in_a_file_meanwhile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("penstock.looking.duplicates._MOST_HELD", 0)
    texts = near_copies(200)
    data = ps.from_arrays({"text": texts})
    kept = len(data.deduplicate("text", how="minhash"))
    monkeypatch.undo()
    assert kept == len(data.deduplicate("text", how="minhash")) < 200
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"by": "n"}, "is numbers, and text or bytes can be compared"),
        ({"by": "bytes", "how": "minhash"}, "large_binary, and text can be compared"),
        ({"by": "none"}, "no column 'none'"),
        ({"by": "text", "how": "fuzzy"}, "choose 'exact' or 'minhash'"),
        ({"by": "text", "keep": "none"}, "choose 'first' or 'last'"),
        ({"by": "text", "num_buckets": 0}, "num_buckets"),
        ({"by": "text", "n_grams": 2.5}, "n_grams"),
        ({"by": "text", "n_grams": "5"}, "n_grams='5'; pass a whole number from 1 to 1,000"),
        ({"by": "text", "seed": -1}, "seed=-1; pass a whole number from 0 to"),
        ({"by": "text", "hashes_per_bucket": 1 << 20}, "from 1 to 65,536"),
        ({"by": "text", "hashes_per_bucket": 1 << 15}, "at most"),
        ({"by": 3}, "neither the name of a column"),
    ],
)
def test_what_cannot_be_compared_is_refused(arguments: dict[str, Any], found: str) -> None:
    data = ps.from_arrays({"text": ["a"], "bytes": [b"a"], "n": [1]})
    with pytest.raises(ps.PlanError, match=found):
        data.deduplicate(**arguments)


def test_words_are_the_same_whatever_lies_between_them() -> None:
    """Parts of ASCII are hashed apart from words with other letters, which are cut at spaces and line ends alone."""
    draw = random.Random(0)
    pieces = [
        "a",
        "B2",
        " ",
        "\n",
        " ",
        " ",
        "é",
        "Σ",
        "ΣAΣ",
        "1,",
        "٣",
        "5",
        "人",
        "\u0301",
        "can't",
        "’",
        "‘",
        "s",
        "\t",
        "\u3000",
        "x-y",
        "5km",
    ]
    texts = ["".join(draw.choices(pieces, k=30)) for _ in range(2000)]
    apart = [text.replace(" ", "\u00a0").replace("\n", "\u2003") for text in texts]
    one, other = (
        kernels.text_bands(text_parts(pa.array(rows, pa.large_string())), 2, 20, 1, 1, 1) for rows in (texts, apart)
    )
    assert (one == other).all()
    assert len({*one.tolist()}) > 10_000
