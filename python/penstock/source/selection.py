"""Which of a source's columns a user wants, and under which names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from penstock.core.errors import PlanError
from penstock.core.options import Column, Options
from penstock.core.spec import Field


def choose_features(options: Options, offered: Iterable[str], what: str) -> dict[str, str]:
    """New name -> name in the data, for all that is offered or for what `options.columns` selects and renames.

    `what` names the source in the PlanError for a column that is not there: "a folder of pictures".
    """
    known = list(offered)
    features = asked_features(options, known)
    for feature in features.values():
        if feature not in known:
            close = difflib.get_close_matches(feature, known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise PlanError(f"columns: {what} has no {feature!r}; it has {', '.join(known) or 'none'}{hint}")
    return features


def asked_features(options: Options, offered: Iterable[str]) -> dict[str, str]:
    """New name -> name in the data, whether it is there or not; all that is offered where nothing is asked for."""
    if options.columns is None:
        return {name: name for name in offered}
    wanted = options.columns if isinstance(options.columns, Mapping) else {name: name for name in options.columns}
    return {name: asked.feature if isinstance(asked, Column) else asked for name, asked in wanted.items()}


def check_typed(options: Options, name: str, stored: Field, what: str) -> None:
    """PlanError where `columns` asks for another dtype or shape of a column than the data's own, which are kept as they are."""
    asked = options.columns[name] if isinstance(options.columns, Mapping) else None
    if not isinstance(asked, Column):
        return
    other = (asked.dtype is not None and asked.dtype != stored.dtype) or asked.shape not in (None, stored.shape)
    if other or asked.default is not None:
        raise PlanError(
            f"columns: {what} holds {asked.feature!r} as {stored}, which is taken as it is; change it with .map(…)"
        )
