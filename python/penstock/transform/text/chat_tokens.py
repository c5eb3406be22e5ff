"""Rendered chats as tokens, and which of these are in the spans that are learnt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.core.columns.spec import Ids
from penstock.core.columns.text_parts import TextParts, text_parts
from penstock.core.errors import RowError
from penstock.transform.text.models import Model

if TYPE_CHECKING:
    from penstock.transform.text.chat_jinja import Span

_ALL = 1 << 62


class ChatTokens:
    """Texts as tokens. spans: whether to tell which are learnt."""

    def __init__(self, model: Model, *, spans: bool) -> None:
        self._native = model.native(spans=spans)
        self._spans = spans

    def __call__(
        self, texts: Sequence[str], spans: Sequence[Sequence[Span]], most: int | None, threads: int
    ) -> tuple[npt.NDArray[np.int32], Ids, npt.NDArray[np.uint8] | None]:
        """Tokens, where each row's begin and end, and their mask. spans: of each row, in characters. most: tokens of a row."""
        given = text_parts(pa.array(texts, pa.large_string()))
        ids, edges, _, places, bad = self._run(given, "as_token", most, threads)
        if bad:
            raise RowError(*bad[0])
        bases, spans = given[0][:-1], [_in_bytes(text, one) for text, one in zip(texts, spans, strict=True)]
        places = places.reshape(-1, 2).astype(np.int64)
        if not self._spans:
            return ids, edges, None
        return ids, edges, _mask(places + np.repeat(bases, np.diff(edges))[:, None], spans, bases)

    def special_in(self, texts: Sequence[str]) -> list[tuple[int, str]]:
        """Which texts hold a special token, and which one."""
        bad = self._run(text_parts(pa.array(texts, pa.large_string())), "error", None, 1)[4]
        return [(row, found) for row, found, _ in bad if "special token" in found]

    def _run(self, given: TextParts, special: str, most: int | None, threads: int) -> Any:
        return self._native.run(
            given, None, add_special=False, special=special, most=_ALL if most is None else most, keeps_last=False,
            begin=None, end=None, spans=self._spans, types=False, threads=threads,
        )  # fmt: skip


def _mask(places: npt.NDArray[np.int64], spans: Sequence[Sequence[Span]], bases: Ids) -> npt.NDArray[np.uint8]:
    """Which tokens have a character of a span. places: first and last of each, counted over all texts."""
    whole = sorted(
        (begin + base, end + base)
        for base, row in zip(bases.tolist(), spans, strict=True)
        for begin, end in row
        if begin < end
    )
    if not whole:
        return np.zeros(len(places), np.uint8)
    begins, ends = np.array(whole, np.int64).T
    before = np.searchsorted(begins, places[:, 1])  # spans that begin before a token's end
    reach = np.maximum.accumulate(ends)[np.maximum(before - 1, 0)]  # a span may hold another one
    return ((before > 0) & (places[:, 0] < places[:, 1]) & (reach > places[:, 0])).astype(np.uint8)


def _in_bytes(text: str, spans: Sequence[Span]) -> Sequence[Span]:
    """Spans of characters as spans of UTF-8."""
    if text.isascii() or not spans:
        return spans
    letters = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    places = np.concatenate([[0], np.cumsum(1 + (letters > 0x7F) + (letters > 0x7FF) + (letters > 0xFFFF))])
    return [(int(places[begin]), int(places[end])) for begin, end in spans]
