"""What is said of files beside their bytes: by the folders that they lie in, or by annotations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.core.columns.spec import Spec


@dataclass(frozen=True, kw_only=True)
class Said:
    """said: a column each, of one row a file, in memory. fields: theirs. classes: names, by label. classes_given: whether the user, or a file, names them.

    settings: names what was said, where it does not follow from the files' names.
    """

    said: Mapping[str, Any] = field(default_factory=dict)
    fields: Spec = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    classes_given: bool = False
    settings: str | None = None
