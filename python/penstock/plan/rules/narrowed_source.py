"""Sources with some of their columns, kept as long as the whole source is: what one loader decoded serves the next one."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from penstock.source.protocol import AnySource, ColumnSource

_made: WeakKeyDictionary[AnySource, dict[tuple[str, ...], AnySource]] = WeakKeyDictionary()


def narrowed_source(source: AnySource, names: tuple[str, ...]) -> AnySource | None:
    """The source with these columns alone, in this order; None where it cannot be read without the others."""
    if not isinstance(source, ColumnSource):
        return None
    try:
        found = _made.setdefault(source, {})
    except TypeError:  # a user's own class, of which no weak reference can be held
        found = {}
    if names not in found:
        found[names] = source.only(names)
    less = found[names]
    is_same = tuple(less.spec) == names and less.manifest.samples == source.manifest.samples
    return less if is_same else None
