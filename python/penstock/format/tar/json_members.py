"""Keys of JSON members as columns: "json.meta.width" is the key meta.width in a sample's .json member.

The parser of samples finds the members, and the parser that JSON lines use reads them where they lie. Types, missing keys and null are as in
JSON lines; a sample without the member is one without its keys.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace

from penstock.core import kernels
from penstock.core.columns.spec import Columns, Spans
from penstock.core.errors import DataError, RowError
from penstock.core.verbs.options import Column, Options
from penstock.format.json.features import JsonColumn, choose_columns, finish, learn
from penstock.format.tar.columns import Members
from penstock.source.manifest import Manifest
from penstock.source.protocol import Allocate
from penstock.source.records.native_columns import parse_records
from penstock.source.selection import Selection

_ENDINGS = ("json", "jsn")


@dataclass(frozen=True)
class JsonMember:
    """The columns that are made of one JSON member; its bytes come in the first of them."""

    extension: str
    columns: tuple[JsonColumn, ...]
    parser: kernels.JsonParser = field(repr=False)

    @property
    def name(self) -> str:
        """The column in which the member's bytes come."""
        return self.columns[0].name

    @property
    def wish(self) -> Column:
        """The member's bytes; an object without keys for samples without it, if no column needs a key."""
        optional = all(column.default is not None or None in column.field.shape for column in self.columns)
        return Column(feature=self.extension, dtype="bytes", default=b"{}" if optional else None)

    def parse(self, contents: Spans, allocate: Allocate, threads: int) -> Columns:
        """One column a key; RowError for the first member that is no JSON object or lacks what the columns need."""
        try:
            return parse_records(self.parser, self.columns, contents, allocate, threads, finish)
        except RowError as error:
            found, do = _of_it(error.found), error.do.replace("the line", "it")
            raise RowError(error.row, f'member "{self.extension}": {found}', do) from None


def open_members(samples: Sequence[Members], options: Options, manifest: Manifest) -> tuple[Options, list[JsonMember]]:
    """The JSON members of which keys are columns, and the options with the columns of members.

    Raises DataError for a member of the first samples that is no JSON object, PlanError for keys that none of them has and for columns that
    cannot be.
    """
    offered = {extension for sample in samples for extension in sample}
    members: dict[str, dict[str, Column]] = {}
    rest: dict[str, str | Column] = {}
    for name, column in Selection(options.columns).columns().items():
        extension, key = split_feature(column.feature, offered)
        if key:
            members.setdefault(extension, {})[name] = replace(column, feature=key)
        else:
            rest[name] = column
    opened = [
        _open(extension, replace(options, columns=keys), samples, manifest) for extension, keys in members.items()
    ]
    if opened:
        options = replace(options, columns=rest | {member.name: member.wish for member in opened})
    return options, opened


def split_feature(feature: str, offered: Collection[str]) -> tuple[str, str]:
    """The extension of a JSON member, and the key in it; "" for the key where a whole member is meant.

    split_feature("json.meta.width", {"json", "jpg"}) == ("json", "meta.width")
    """
    parts = feature.strip().lstrip(".").split(".")
    if ";" in feature or ".".join(parts).lower() in offered:
        return feature, ""
    ways = [
        (".".join(parts[:at]).lower(), ".".join(parts[at:]))
        for at in range(1, len(parts))
        if parts[at - 1].lower() in _ENDINGS
    ]
    return next((way for way in ways if way[0] in offered), ways[0] if ways else (feature, ""))


def _open(extension: str, options: Options, samples: Sequence[Members], manifest: Manifest) -> JsonMember:
    rows = [row for row, sample in enumerate(samples) if extension in sample]
    try:
        kinds = learn(samples[row][extension] for row in rows)
    except RowError as error:
        raise DataError(
            f'{manifest.place(rows[error.row])}: member "{extension}": no JSON object ({_of_it(error.found)}); repair it, or take '
            f"the member as it is with the feature {extension!r}"
        ) from None
    columns = choose_columns(kinds, options, f'{manifest.shards.path(0)}, member "{extension}"')
    parser = kernels.JsonParser([column.description for column in columns], values_limit=options.limits.values)
    return JsonMember(extension, columns, parser)


def _of_it(found: str) -> str:
    """What is wrong with a line, worded for a member."""
    return found.replace("of the line:", "of it:", 1).replace("the line is", "it is", 1)
