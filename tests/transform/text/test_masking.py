"""What is to be guessed: masked tokens, spans and middles; by each row's own key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps

MASK = ps.text.MaskTokens(mask_id=7, vocab_size=1000, special=[0, 1, 999])
SPANS = ps.text.SpanCorruption(sentinels=range(32099, 31999, -1), end=1)


def ragged(rows: int, longest: int = 60) -> pa.Array:
    rng = np.random.default_rng(3)
    return pa.array([rng.integers(2, 900, rng.integers(0, longest)).tolist() for _ in range(rows)], pa.large_list(pa.int32()))  # fmt: skip


def lists(batch: Any, *names: str) -> list[Any]:
    columns = [batch[name].to_pylist() if hasattr(batch[name], "to_pylist") else batch[name].tolist() for name in names]
    return list(zip(*columns, strict=True))


def epochs(rows: Any, names: tuple[str, ...], count: int = 1, **options: Any) -> list[Any]:
    with ps.Loader(rows, epochs=count, **options) as loader:
        return [lists(batch, *names) for batch in loader]


def test_masked_tokens_are_guessed_and_others_stay() -> None:
    tokens = np.random.default_rng(0).integers(0, 1000, (200, 512))
    rows = ps.from_arrays({"tokens": tokens.astype(np.int32)}).transform(tokens=MASK)
    batch = next(iter(ps.Loader(rows.batch(200))))
    given, made, labels = tokens, batch["tokens"], batch["labels"]
    assert (made.dtype, labels.dtype, made.shape, labels.shape) == (np.int32, np.int64, given.shape, given.shape)
    guessed = labels != -100
    assert (made[~guessed] == given[~guessed]).all()
    assert (labels[guessed] == given[guessed]).all()
    assert not np.isin(given[guessed], [0, 1, 999]).any()
    assert guessed[~np.isin(given, [0, 1, 999])].mean() == pytest.approx(0.15, abs=0.005)
    kinds = [(made == 7)[guessed].mean(), ((made == given) & (made != 7))[guessed].mean()]
    assert kinds == [pytest.approx(0.8, abs=0.01), pytest.approx(0.1, abs=0.01)]


def test_what_is_guessed_is_distributed_as_transformers_has_it() -> None:
    collators = pytest.importorskip("transformers.data.data_collator", reason="transformers is not installed")
    shares = collators.DataCollatorForLanguageModeling.__dataclass_fields__
    ours = ps.text.MaskTokens.__dataclass_fields__
    assert [ours[name].default for name in ("p", "mask", "random")] == [
        shares[name].default for name in ("mlm_probability", "mask_replace_prob", "random_replace_prob")
    ]


def test_extremes_of_shares() -> None:
    rows = ps.from_arrays({"tokens": np.arange(64).reshape(2, 32)})
    for op, expected in (
        (ps.text.MaskTokens(3, 64, p=1.0, mask=1.0, random=0.0), np.full((2, 32), 3)),
        (ps.text.MaskTokens(3, 64, p=0.0), np.arange(64).reshape(2, 32)),
        (ps.text.MaskTokens(3, 64, p=1.0, mask=0.0, random=0.0), np.arange(64).reshape(2, 32)),
    ):
        assert next(iter(ps.Loader(rows.transform(tokens=op).batch(2))))["tokens"].tolist() == expected.tolist()


def t5(tokens: list[int], inputs: list[int], targets: list[int]) -> None:
    """Both say the row."""
    assert (inputs[-1], targets[-1]) == (1, 1)
    spans: dict[int, list[int]] = {}
    for one in targets[:-1]:
        if one >= 32000:
            spans[one] = []
        else:
            spans[next(reversed(spans))].append(one)
    assert list(spans) == list(range(32099, 32099 - len(spans), -1))
    assert [token for one in inputs[:-1] for token in (spans[one] if one >= 32000 else [one])] == tokens
    if len(tokens) > 1:
        noise = min(max(round(len(tokens) * 0.15), 1), len(tokens) - 1)
        assert sum(map(len, spans.values())) == noise
        assert len(spans) == max(round(noise / 3), 1)
        assert inputs[-2] == 32099 - len(spans) + 1  # ends with a span
    else:
        assert not spans


def test_spans_are_those_of_t5() -> None:
    tokens = ragged(300, 400)
    rows = ps.from_arrays({"tokens": tokens}).transform(tokens=SPANS)
    ((*made,),) = epochs(rows.batch(300), ("tokens", "targets"))
    for row, (inputs, targets) in zip(tokens.to_pylist(), made, strict=True):
        t5(row, inputs, targets)


def test_middles_go_to_the_end() -> None:
    texts = [f"def f{i}(é日): return {i}" for i in range(400)]
    rows = ps.from_arrays({"text": texts}).transform(text=ps.text.FillInTheMiddle())
    ((*made,),) = epochs(rows.batch(400), ("text",))
    kinds = {"none": 0, "prefix": 0, "suffix": 0}
    for text, (found,) in zip(texts, made, strict=True):
        if found == text:
            kinds["none"] += 1
            continue
        head, middle = found.removeprefix("<fim_prefix>").split("<fim_middle>")
        prefix, suffix = head.split("<fim_suffix>")
        is_prefix_first = prefix + middle + suffix == text
        assert is_prefix_first or (not prefix and middle + suffix == text)
        kinds["prefix" if is_prefix_first and prefix else "suffix"] += 1
    assert 160 < kinds["none"] < 240
    assert min(kinds["prefix"], kinds["suffix"]) > 60


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda: ps.from_arrays({"tokens": ragged(64)}).transform(tokens=MASK), ("tokens", "labels")),
        (lambda: ps.from_arrays({"tokens": ragged(64)}).transform(tokens=SPANS), ("tokens", "targets")),
        (
            lambda: ps.from_arrays({"text": [f"text {i}" * 3 for i in range(64)]}).transform(
                text=ps.text.FillInTheMiddle()
            ),
            ("text",),
        ),
    ],
    ids=["mask", "spans", "middles"],
)
def test_a_row_draws_by_its_key(make: Callable[[], Any], names: tuple[str, ...]) -> None:
    rows = make().shuffle(seed=5).batch(16)
    alone = epochs(rows, names, 2)
    assert sorted(map(repr, sum(alone[:4], []))) != sorted(map(repr, sum(alone[4:], [])))  # noqa: RUF017  # other draws in every epoch
    ranks = [epochs(rows, names, 2, rank=rank, world_size=4) for rank in range(4)]
    assert [[one for part in step for one in part] for step in zip(*ranks, strict=True)] == alone
    assert epochs(rows, names, 2, cpus=1) == alone
    assert epochs(rows, names, 2, isolation="process") == alone
    with ps.Loader(rows, epochs=2) as loader:
        steps = iter(loader)
        for _ in range(3):
            next(steps)
        state = loader.state_dict()
    halves = []
    for rank in range(2):
        with ps.Loader(rows, epochs=2, rank=rank, world_size=2) as loader:
            loader.load_state_dict(state)
            halves.append([lists(batch, *names) for batch in loader])
    assert [[*one, *other] for one, other in zip(*halves, strict=True)] == alone[3:]


def test_rows_without_tokens() -> None:
    rows = ps.from_arrays({"tokens": np.zeros((2, 0), np.int32)}).transform(tokens=MASK).batch(2)
    assert next(iter(ps.Loader(rows)))["labels"].shape == (2, 0)


def test_golden_draws() -> None:
    rows = ps.from_arrays({"tokens": np.arange(10, 34).reshape(1, 24)})
    masked = rows.transform(tokens=ps.text.MaskTokens(mask_id=7, vocab_size=1000, p=0.4)).batch(1)
    spans = rows.transform(tokens=ps.text.SpanCorruption(sentinels=range(99, 89, -1), p=0.4, mean=2)).batch(1)
    middle = ps.from_arrays({"text": ["abcdefghij"]}).transform(text=ps.text.FillInTheMiddle(p=1.0)).batch(1)
    assert epochs(masked, ("tokens",)) == GOLDEN["mask"]
    assert epochs(spans, ("tokens", "targets")) == GOLDEN["spans"]
    assert epochs(middle, ("text",)) == GOLDEN["middle"]


#: Saved states depend on these: they stay as they are.
GOLDEN: dict[str, Any] = {
    "mask": [[([7, 11, 12, 13, 7, 15, 16, 7, 18, 7, 20, 21, 22, 23, 24, 7, 7, 7, 28, 29, 7, 31, 7, 7],)]],
    "spans": [
        [
            (
                [10, 99, 12, 13, 14, 15, 16, 98, 23, 24, 25, 26, 97, 28, 29, 96, 31, 32, 95],
                [99, 11, 98, 17, 18, 19, 20, 21, 22, 97, 27, 96, 30, 95, 33],
            )
        ]
    ],
    "middle": [[("<fim_prefix>abcd<fim_suffix>hij<fim_middle>efg",)]],
}


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: ps.text.MaskTokens(1000, 1000), "mask_id=1000; ids are from 0 to 999"),
        (lambda: ps.text.MaskTokens(1, 10, special=[-1]), "special"),
        (lambda: ps.text.MaskTokens(1, 10, special=5), "special=5"),
        (lambda: ps.text.FillInTheMiddle(5), "three texts"),
        (lambda: ps.text.FillInTheMiddle(["\ud800", "b", "c"]), "three texts"),
        (
            lambda: epochs(ps.from_arrays({"tokens": ragged(4)}).batch_padded(2).transform(tokens=SPANS), ()),
            "before batch_padded and pack",
        ),
        (
            lambda: epochs(
                ps.from_arrays({"tokens": ragged(4)}).pack("tokens", length=8).transform(tokens=SPANS).batch(2), ()
            ),
            "before batch_padded and pack",
        ),
        (lambda: ps.text.MaskTokens(1, 10, p=15), "p=15; pass a number from 0 to 1"),
        (lambda: ps.text.MaskTokens(1, 10, p=float("nan")), "p=nan"),
        (lambda: ps.text.MaskTokens(1, 10, mask=0.8, random=0.3), "more than 1 together"),
        (lambda: ps.text.MaskTokens(1, 0), "vocab_size"),
        (lambda: ps.text.SpanCorruption([]), "sentinels"),
        (lambda: ps.text.SpanCorruption(5), "sentinels=5"),
        (lambda: ps.text.SpanCorruption([5, 6, 5]), "5 stands there twice"),
        (lambda: ps.text.SpanCorruption([5, 6], end=6), "6 stands there twice"),
        (lambda: ps.text.SpanCorruption([5], mean=0), "mean=0"),
        (lambda: ps.text.FillInTheMiddle(["a", "a", "b"]), "three texts"),
        (lambda: ps.text.FillInTheMiddle("abc"), "three texts"),
        (lambda: ps.from_arrays({"tokens": np.zeros((2, 3))}).transform(tokens=MASK), "float64.*rows of tokens"),
        (lambda: ps.from_arrays({"tokens": np.arange(3)}).transform(tokens=MASK), "rows of tokens"),
        (lambda: ps.from_arrays({"tokens": np.zeros((2, 3), np.uint8)}).transform(tokens=MASK), "no room for 1,000"),
        (lambda: ps.from_arrays({"tokens": np.zeros((2, 3), np.uint8)}).transform(tokens=SPANS), "no room for its"),
        (
            lambda: ps.from_arrays({"labels": np.zeros((2, 3), int)}).transform(labels=MASK),
            "a column of their own",
        ),
        (lambda: ps.from_arrays({"text": np.arange(3)}).transform(text=ps.text.FillInTheMiddle()), "give it text"),
    ],
)
def test_what_cannot_be_is_said_at_once(make: Callable[[], Any], error: str) -> None:
    with pytest.raises(ps.PlanError, match=error):
        make()


def test_bad_rows_say_what_is_wrong() -> None:
    few = ps.text.SpanCorruption([9, 8])
    rows = ps.from_arrays({"tokens": pa.array([[1] * 5, [1] * 100])}).transform(tokens=few).batch(2)
    with pytest.raises(ps.DataError, match="5 spans are taken out of its tokens, and there are 2 sentinels"):
        epochs(rows, ("tokens",))
    forged = ps.from_arrays({"text": ["a", "b<fim_middle>"]}).transform(text=ps.text.FillInTheMiddle()).batch(2)
    with pytest.raises(ps.DataError, match="column 'text': the text holds \"<fim_middle>\""):
        epochs(forged, ("text",))
