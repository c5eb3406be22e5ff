"""Texts with their middles at their ends, for models of code that fill in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import pyarrow as pa

from penstock.core import kernels
from penstock.core.arguments import is_encodable
from penstock.core.columns.spec import Field, Spec
from penstock.core.columns.text_parts import text_array
from penstock.core.draw_keys import DrawKeys
from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.transform.text.masking import check_shares
from penstock.transform.text.native_texts import naming, texts_of
from penstock.transform.text.op import Step, TextOp
from penstock.transform.text.token_rows import row_keys


@dataclass(frozen=True)
class FillInTheMiddle(TextOp):
    """Fill in the middle (Bavarian et al. 2022): a text is cut in three at two of its characters, and its middle goes to its end, behind a mark.

    "prefix first" is <prefix>…<suffix>…<middle>…; "suffix first" is <prefix><suffix>suffix<middle>prefix middle, as StarCoder and Megatron have it. `Tokenize(special_in_text="as_token")` behind it makes the marks tokens. A row draws by its key.

    Args:
        marks: the special tokens before prefix, suffix and middle. Default: StarCoder's, "<fim_prefix>", "<fim_suffix>", "<fim_middle>".
        p: the probability that a text is cut; others stay. Default: 0.5.
        suffix_first: the probability that a text that is cut has its suffix first. Default: 0.5.

    Returns:
        The op, for `Dataset.transform`.

    Raises:
        PlanError: for arguments that fit no text, and by `transform`, for a column that is no text.
        DataError: from a Loader, for a text that holds a mark, or that is no UTF-8.

    Example:
        import penstock as ps

        rows = ps.from_arrays({"text": ["def f(x): return x"]}).transform(text=ps.text.FillInTheMiddle(p=1.0, suffix_first=0.0))
        text = next(iter(ps.Loader(rows.batch(1))))["text"][0].as_py()
        text.startswith("<fim_prefix>") and "<fim_middle>" in text
    """

    marks: Sequence[str] = ("<fim_prefix>", "<fim_suffix>", "<fim_middle>")
    _: KW_ONLY
    p: float = 0.5
    suffix_first: float = 0.5

    is_random = True
    draws_apart = True
    drawn_by = ("p", "suffix_first")

    def __post_init__(self) -> None:
        """PlanError for arguments that fit no text."""
        check_shares("FillInTheMiddle", p=self.p, suffix_first=self.suffix_first)
        marks = () if isinstance(self.marks, str) or not isinstance(self.marks, Iterable) else tuple(self.marks)
        are_texts = all(isinstance(one, str) and one and is_encodable(one) for one in marks)
        if not are_texts or len({*marks}) != 3:
            raise PlanError(
                f"FillInTheMiddle: marks={quoted(self.marks)}; pass three texts, for prefix, suffix and middle"
            )
        object.__setattr__(self, "marks", marks)

    def output(self, name: str, given: Spec) -> Spec:
        """See `Op`."""
        self.check_text(name, given)
        return {**given, name: given.get(name, Field("string"))}

    def step(self, name: str, fields: Spec, number: int) -> Step:
        """See `TextOp`."""
        return lambda columns, keys, work: {name: self._run(name, columns[name], keys, number)}  # noqa: ARG005

    def _run(self, name: str, column: Any, keys: DrawKeys, number: int) -> pa.Array:
        edges, data, missing = texts_of(name, column)
        with naming(name):
            made, ends = kernels.text_middles(
                edges, data, row_keys(keys), number, self.p, self.suffix_first, list(self.marks)
            )
        return text_array((ends, made), missing)
