"""Expressions about the quality and the language of text: `penstock.text.filters` makes them, native rules compute them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa

from penstock.core import kernels
from penstock.core.columns.text_parts import as_text, text_array, text_parts, threads_for
from penstock.plan.expression import Expression


@dataclass(frozen=True)
class Thresholds:
    """Rules and their thresholds; as text those that are not the usual ones. rules: "gopher", "c4" or "fineweb"."""

    rules: str
    given: tuple[tuple[str, Any], ...]
    usual: tuple[tuple[str, Any], ...]

    def __repr__(self) -> str:
        usual = dict(self.usual)
        changed = [f"{name}={value!r}" for name, value in self.given if value != usual[name]]
        return f"{self.rules}({', '.join(changed)})"


class TextRule(Expression):
    """Whether a text breaks no rule, as an expression; null of a text that is null, so that `filter` leaves it out.

    Example:
        rule = ps.text.filters.fineweb("text")
        pages = ps.from_arrays({"text": ["This line is long enough, and ends.", "- menu"]}).with_columns(why=rule.why)
        pages.head()["why"] == ["", "line_punct_ratio"]
    """

    @property
    def why(self) -> Expression:
        """The name of the first rule that a text breaks, as datatrove calls it; "" for none."""
        why: Expression = self.operands[0]
        return why


def text_rule(column: Expression, rules: str, given: Mapping[str, Any], usual: Mapping[str, Any]) -> TextRule:
    """The expression of rules."""
    thresholds = Thresholds(rules, tuple(given.items()), tuple((name, usual[name]) for name in given))
    return TextRule("==", (Expression("broken_rule", (column, thresholds)), ""))


def language_rule(column: Expression, languages: tuple[str, ...], confidence: float) -> Expression:
    """Whether a text is in one of some languages, as surely as that."""
    is_one = Expression("is_in", (Expression("language", (column,)), languages))
    return is_one & (Expression("language_confidence", (column,)) >= confidence)


@lru_cache(maxsize=64)
def _native(thresholds: Thresholds) -> tuple[kernels.TextRules, pa.Array]:
    rules = kernels.TextRules(thresholds.rules, dict(thresholds.given))
    return rules, pa.array(rules.names(), pa.large_string())


def _broken_rule(value: Any, thresholds: Thresholds) -> pa.Array:
    parts = text_parts(as_text(value))
    rules, names = _native(thresholds)
    return names.take(pa.array(rules.broken(parts, threads_for(parts)), mask=parts[2]))


def _language(value: Any) -> pa.Array:
    parts = text_parts(as_text(value))
    codes, _ = kernels.text_languages(parts, threads_for(parts))
    return text_array(codes, parts[2])


def _confidence(value: Any) -> Any:
    from penstock.plan.nullable import taken_apart

    parts = text_parts(as_text(value))
    _, found = kernels.text_languages(parts, threads_for(parts))
    return taken_apart(pa.array(found, mask=parts[2]))


#: What each does, by its name.
RULE_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "broken_rule": _broken_rule,
    "language": _language,
    "language_confidence": _confidence,
}
