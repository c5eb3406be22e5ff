"""Tokens to guess: masked ones, as BERT has them, and spans, as T5 does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from penstock.core import kernels
from penstock.core.arguments import check_texts, check_whole, is_whole
from penstock.core.columns.spec import Columns, Field, Spec
from penstock.core.draw_keys import DrawKeys
from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.core.verbs.packing import SEGMENT_IDS
from penstock.core.verbs.padding import lengths_name, mask_name
from penstock.transform.family import Workspace
from penstock.transform.text.native_texts import ragged
from penstock.transform.text.op import Step, TextOp, check_new
from penstock.transform.text.token_rows import RowsOfTokens, check_tokens, row_keys, token_rows


@dataclass(frozen=True)
class MaskTokens(TextOp):
    """Masked language modelling, as BERT has it: some tokens are to be guessed, and most of these become the mask.

    Each token for itself, with probability `p`, as in transformers' `DataCollatorForLanguageModeling`: of those, `mask` become `mask_id`, `random` any token of the vocabulary, and the others stay. A row draws by its key: other tokens in every epoch, the same on any
    ranks, threads and processes.

    Args:
        mask_id: the mask's id.
        vocab_size: how many tokens there are: a random one is one of them.
        into: the column of labels, int64: the token where it is to be guessed, `ignore` elsewhere. Default: "labels".
        p: the probability that a token is to be guessed. Default: 0.15.
        mask: the share of these that become the mask. Default: 0.8.
        random: the share that become any token. Default: 0.1.
        special: ids that are never guessed: [CLS], [SEP], padding. Default: none.
        ignore: the label of all other tokens. Default: -100, which PyTorch's losses leave out.

    Returns:
        The op, for `Dataset.transform`. The column keeps its dtype, its shape and its lengths.

    Raises:
        PlanError: for shares beyond 0 to 1, and by `transform`, for a column that holds no rows of tokens.

    Example:
        import numpy as np
        import penstock as ps

        rows = ps.from_arrays({"tokens": np.arange(1000).reshape(2, 500)})
        rows = rows.transform(tokens=ps.text.MaskTokens(mask_id=103, vocab_size=1000, special=[0, 101, 102]))
        batch = next(iter(ps.Loader(rows.batch(2))))
        guessed = batch["labels"] != -100  # about 150 of 1,000
        (batch["tokens"] == np.arange(1000).reshape(2, 500))[~guessed].all()
    """

    mask_id: int
    vocab_size: int
    _: KW_ONLY
    into: str = "labels"
    p: float = 0.15
    mask: float = 0.8
    random: float = 0.1
    special: Sequence[int] = ()
    ignore: int = -100

    is_random = True
    draws_apart = True
    drawn_by = ("p", "mask", "random", "vocab_size", "special")

    def __post_init__(self) -> None:
        """PlanError for arguments that fit no rows."""
        check_shares("MaskTokens", p=self.p, mask=self.mask, random=self.random)
        if self.mask + self.random > 1 + 1e-9:
            raise PlanError(
                f"MaskTokens: mask={self.mask} and random={self.random} are more than 1 together; they are shares of what is guessed"
            )
        check_whole("MaskTokens", vocab_size=self.vocab_size)
        check_texts("MaskTokens", into=self.into)
        special = tuple(self.special) if isinstance(self.special, Iterable) else (None,)
        for word, ids in (("mask_id", (self.mask_id,)), ("special", special)):
            if not all(is_whole(one) and 0 <= one < self.vocab_size for one in ids):
                raise PlanError(
                    f"MaskTokens: {word}={quoted(getattr(self, word))}; ids are from 0 to {self.vocab_size - 1:,}, below vocab_size"
                )
        if not is_whole(self.ignore):
            raise PlanError(f"MaskTokens: ignore={quoted(self.ignore)}; pass a whole number")
        object.__setattr__(self, "special", tuple(sorted({int(one) for one in self.special})))

    def makes(self, name: str) -> tuple[str, ...]:
        """See `Op`."""
        return (name, self.into)

    def output(self, name: str, given: Spec) -> Spec:
        """See `Op`."""
        if self.into == name:
            raise PlanError(
                f"transform: MaskTokens on column {quoted(name)}: labels go into a column of their own; say into="
            )
        check_new("MaskTokens", (self.into,), given)
        field = check_tokens("MaskTokens", name, given)
        if self.vocab_size - 1 > np.iinfo(field.dtype).max:
            raise PlanError(
                f"transform: MaskTokens on column {quoted(name)}, which is {field}: it has no room for {self.vocab_size:,} tokens"
            )
        return {**given, name: field, self.into: Field("int64", field.shape)}

    def step(self, name: str, fields: Spec, number: int) -> Step:
        """See `TextOp`."""
        made = self.output(name, fields)
        return lambda columns, keys, work: self._run(name, made, columns[name], keys, number, work)

    def _run(self, name: str, made: Spec, column: Any, keys: DrawKeys, number: int, work: Workspace) -> Columns:
        rows = token_rows("MaskTokens", name, column)
        labels = np.full(len(rows.values), self.ignore, np.int64)
        kernels.text_mask(
            rows.values, labels, rows.edges, row_keys(keys), number, (self.p, self.mask, self.random), self.mask_id, self.vocab_size, list(self.special)
        )  # fmt: skip
        return {
            name: _column(name, made[name], rows._replace(values=rows.values), work),
            self.into: _column(self.into, made[self.into], rows._replace(values=labels), work),
        }


def _column(name: str, field: Field, rows: RowsOfTokens, work: Workspace) -> Any:
    """Rows of tokens as they go on: in memory that is given where all have one length."""
    if rows.length is None:
        return ragged(rows.values.astype(field.numpy_dtype), rows.edges, None)
    out = work.allocate(name, Field(field.dtype, (rows.length,)), len(rows.edges) - 1)
    out[...] = rows.values.reshape(out.shape)
    return out


def check_shares(op: str, **shares: float) -> None:
    """PlanError for what is no share of a whole."""
    for word, share in shares.items():
        if isinstance(share, bool) or not isinstance(share, (int, float, np.floating)) or not 0 <= share <= 1:
            raise PlanError(f"{op}: {word}={quoted(share)}; pass a number from 0 to 1")


@dataclass(frozen=True)
class SpanCorruption(TextOp):
    """Span corruption, as T5 has it: spans are taken out of a row, a sentinel in the place of each, and are what is to be written.

    Of n tokens, round(n · p) are taken out, in round(that / mean) spans, at least one of each; lengths of spans and of what is between are drawn uniformly, and what is between comes first, so that a row always ends with a span: T5's `random_spans_noise_mask`.
    The targets are each sentinel with its span behind it. A row of fewer than two tokens stays as it is. A row draws by its key.

    Args:
        sentinels: the ids of the sentinels, the first span's first: range(32099, 31999, -1) for T5. A row with more spans is bad.
        into: the column of targets, of the dtype of the tokens. Default: "targets".
        p: the share of tokens that are taken out. Default: 0.15.
        mean: tokens of a span, on average, at least 1. Default: 3.0.
        end: a token behind both, 1 for T5. Default: None.

    Returns:
        The op, for `Dataset.transform`. Both columns are ragged.

    Raises:
        PlanError: for arguments that fit no rows, and by `transform`, for a column that holds no rows of tokens.
        DataError: from a Loader, for a row with more spans than sentinels.

    Example:
        import numpy as np
        import penstock as ps

        rows = ps.from_arrays({"tokens": np.arange(10, 30).reshape(1, 20)})
        rows = rows.transform(tokens=ps.text.SpanCorruption(sentinels=range(99, 89, -1), end=1))
        batch = next(iter(ps.Loader(rows.batch(1))))
        batch["targets"].to_pylist()  # [[99, 27, 28, 29, 1]]: 20 tokens have one span of 3
    """

    sentinels: Sequence[int]
    _: KW_ONLY
    into: str = "targets"
    p: float = 0.15
    mean: float = 3.0
    end: int | None = None

    is_random = True
    draws_apart = True
    drawn_by = ("p", "mean")

    def __post_init__(self) -> None:
        """PlanError for arguments that fit no rows."""
        check_shares("SpanCorruption", p=self.p)
        if isinstance(self.mean, bool) or not isinstance(self.mean, (int, float, np.floating)) or not self.mean >= 1:
            raise PlanError(f"SpanCorruption: mean={quoted(self.mean)}; pass tokens of a span, 1 or more")
        check_texts("SpanCorruption", into=self.into)
        ids = tuple(self.sentinels) if isinstance(self.sentinels, (Sequence, range, np.ndarray)) else ()
        if not ids or not all(is_whole(one) and one >= 0 for one in (*ids, *(() if self.end is None else (self.end,)))):
            raise PlanError(
                f"SpanCorruption: sentinels={quoted(self.sentinels)}, end={quoted(self.end)}; pass ids of tokens, range(32099, 31999, -1) for T5"
            )
        said = [int(one) for one in (*ids, *(() if self.end is None else (self.end,)))]
        twice = next((one for place, one in enumerate(said) if one in {*said[:place]}), None)
        if twice is not None:
            raise PlanError(
                f"SpanCorruption: among sentinels= and end= {twice} stands there twice, so that targets could not be told apart; give each its own"
            )
        object.__setattr__(self, "sentinels", tuple(int(one) for one in ids))

    def makes(self, name: str) -> tuple[str, ...]:
        """See `Op`."""
        return (name, self.into)

    def output(self, name: str, given: Spec) -> Spec:
        """See `Op`."""
        if self.into == name:
            raise PlanError(
                f"transform: SpanCorruption on column {quoted(name)}: targets go into a column of their own; say into="
            )
        check_new("SpanCorruption", (self.into,), given)
        field = check_tokens("SpanCorruption", name, given)
        beside = [one for one in (lengths_name(name), mask_name(name), SEGMENT_IDS) if one in given]
        if beside:
            raise PlanError(
                f"transform: SpanCorruption on column {quoted(name)}, beside which {beside[0]} tells of its places: write it before batch_padded and pack"
            )
        if max(*self.sentinels, self.end or 0, 0) > np.iinfo(field.dtype).max:
            raise PlanError(
                f"transform: SpanCorruption on column {quoted(name)}, which is {field}: it has no room for its sentinels"
            )
        made = Field(field.dtype, (None,))
        return {**given, name: made, self.into: made}

    def step(self, name: str, fields: Spec, number: int) -> Step:
        """See `TextOp`."""
        dtype = self.output(name, fields)[name].numpy_dtype

        def run(columns: Columns, keys: DrawKeys, work: Workspace) -> Columns:  # noqa: ARG001  # a step
            rows = token_rows("SpanCorruption", name, columns[name])
            made = kernels.text_spans(
                rows.values, rows.edges, row_keys(keys), number, self.p, self.mean, list(self.sentinels), self.end
            )  # fmt: skip
            return {
                one: ragged(values.astype(dtype), edges, None)
                for one, (values, edges) in zip((name, self.into), made, strict=True)
            }

        return run
