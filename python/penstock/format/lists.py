"""Manifest files: lists of files, each of which is a sample.

Three kinds, told by their first bytes: plain lists (a path or URL a line), SageMaker's manifest (an array: a prefix, then
names) and its augmented manifest (JSON lines with "source-ref" and labels). docs.aws.amazon.com/sagemaker: "S3DataSource",
"Augmented Manifest". On this machine they name what they like; those of a server name that server's files, and what `read(trust=…)`
allows (`storage.trust`).
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core.columns.rows import new_rows
from penstock.core.columns.spec import Columns, Field, Ids, Spans, Spec
from penstock.core.errors import DataError, PlanError, RowError, SourceError
from penstock.core.files.byte_ranges import ByteRanges, read_range, read_ranges
from penstock.core.files.shards import Shards
from penstock.core.verbs.options import Column, Options
from penstock.format.json.lines import open_jsonl
from penstock.format.media.classes import FileClasses, classes_of
from penstock.source.manifest import Manifest
from penstock.source.protocol import Access, Allocate
from penstock.source.selection import Selection, no_column

_OWN = {"data": Field("bytes"), "path": Field("string")}
_REFERENCE = "source-ref"


@dataclass(frozen=True, eq=False)
class ListedFiles:
    """The bytes of every listed file, its path, and what else the manifest says of it.

    features: new name -> "data", "path" or a key of the manifest. said: these keys' values, in memory, and labels that folders
    give. read_ranges: reads the listed files, which may lie elsewhere than the manifest. classes, labels: if folders name them, as in `MediaFolder`.
    """

    manifest: Manifest
    spec: Spec
    features: dict[str, str]
    said: Columns
    read_ranges: ByteRanges
    classes: tuple[str, ...] = ()
    classes_given: bool = False
    labels: Ids | None = None
    access: Access = Access.RECORDS

    def only(self, names: Sequence[str]) -> ListedFiles:
        """The same files with these columns alone; nothing is read if their bytes are not among them."""
        features = {name: self.features[name] for name in names}
        access = self.access if "data" in features.values() else Access.MEMORY
        return replace(self, spec={name: self.spec[name] for name in names}, features=features, access=access)

    def parse(self, samples: Ids, records: Spans, allocate: Allocate, *, threads: int = 1) -> Columns:
        """One column a field of `spec`: the files' bytes as spans, the rest taken from memory."""
        columns: Columns = {}
        for name, feature in self.features.items():
            if feature == "data":
                columns[name] = records
            elif feature == "path":
                columns[name] = self.manifest.shards.paths.take(pa.array(samples))
            else:
                said: Any = self.said[name]
                taken = said.take(pa.array(samples)) if isinstance(said, pa.Array) else None
                out = allocate(name, self.spec[name], len(samples)) if taken is None else None
                columns[name] = np.take(said, samples, axis=0, out=out) if taken is None else taken
        return columns


def open_manifest(shards: Shards, read: ByteRanges, options: Options) -> ListedFiles:
    """Finds the listed files and, for an augmented manifest, learns its keys.

    Raises SourceError for files that are not there, DataError for what is no manifest, PlanError for columns that are not there.
    """
    if len(shards) != 1:
        raise SourceError(f"{shards.path(0)}: {len(shards)} manifests; a dataset is read from one of them")
    if options.locate is None:
        raise PlanError("a manifest is opened by penstock.read, which knows the storages")
    content = _content(shards, read, options)
    where = shards.path(0)
    said: Columns = {}
    said_spec: dict[str, Field] = {}
    if content.lstrip().startswith(b"{"):
        names, said, said_spec = _augmented(shards, read, options)
    elif content.lstrip().startswith(b"["):
        names = _prefixed(content, where)
    else:
        names = _listed(content, where)
    base = os.path.dirname(where)
    files, read_ranges = options.locate(
        [name if "://" in name or name.startswith("/") else f"{base}/{name}" for name in names]
    )
    classes, names_of_label = _by_folder(files, said_spec, options, where)
    said |= dict.fromkeys(names_of_label, classes.labels)
    said_spec |= dict.fromkeys(names_of_label, Field("int64"))
    features = _features(options, said_spec, where)
    spec = {name: _OWN.get(feature) or said_spec[name] for name, feature in features.items()}
    first_sample = np.arange(len(files) + 1, dtype=np.int64)
    root = f"{base}/" if all(path.startswith(f"{base}/") for path in files.paths.to_pylist()) else ""
    settings = hashlib.blake2b(content, digest_size=16).hexdigest()
    manifest = Manifest("manifest", replace(files, root=root), first_sample, settings=settings)
    numbered = (classes.names, classes.given, classes.labels)
    return ListedFiles(manifest, spec, features, said, read_ranges, *numbered)


def _by_folder(files: Shards, said: Mapping[str, Field], options: Options, where: str) -> tuple[FileClasses, list[str]]:
    """The classes that the files' folders name, and the names that the label is to have; none unless someone asks for them."""
    given = options.own.get("classes")
    wanted = Selection(options.columns).columns(["label"])
    asked = [name for name, column in wanted.items() if column.feature == "label"]
    if set(asked) & set(said):
        if given is not None:
            raise PlanError(f"{where}: its lines say the label, which classes= cannot number; leave classes away")
        return FileClasses(), []
    if given is None and (options.columns is None or not asked):
        return FileClasses(), []
    classes = classes_of(files, given)
    return classes, [] if classes.labels is None else asked


def _content(shards: Shards, read: ByteRanges, options: Options) -> bytes:
    size = int(shards.sizes[0])
    if size > options.limits.record_bytes:
        raise DataError(
            f"{shards.path(0)}: a manifest of {size} bytes, the limit is {options.limits.record_bytes}; "
            "raise Limits.record_bytes if it can be trusted"
        )
    return read_range(read, shards, 0, 0, size).tobytes()


def _listed(content: bytes, where: str) -> list[str]:
    """One name a line; empty lines are none."""
    try:
        lines = content.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise DataError(f"{where}, byte {error.start}: not UTF-8; a manifest is a list of names") from None
    names = [name for line in lines if (name := line.strip())]
    if bad := next((name for name in names if "\0" in name), None):
        raise DataError(f"{where}: {bad[:40]!r} is no name of a file; a manifest is a list of names")
    return names


def _prefixed(content: bytes, where: str) -> list[str]:
    """SageMaker's manifest: [{"prefix": "s3://bucket/folder/"}, "a.jpg", "b.jpg"]."""
    try:
        items = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where}: no JSON ({error}); a manifest that begins with '[' is an array of names") from None
    first = items[0] if items else None
    prefix = first.get("prefix") if isinstance(first, dict) else ""
    names = items[1:] if isinstance(first, dict) else items
    if not isinstance(prefix, str) or not all(isinstance(name, str) and "\0" not in name for name in names):
        raise DataError(
            f'{where}: no manifest of SageMaker, which is [{{"prefix": "s3://…"}}, "name", …] with names that are strings'
        )
    return [prefix + name for name in names]


def _augmented(shards: Shards, read: ByteRanges, options: Options) -> tuple[list[str], Columns, dict[str, Field]]:
    """The files that an augmented manifest names, the values of its other keys by column, and their fields."""
    keys: Any = None
    if options.columns is not None:
        asked = Selection(options.columns).columns()
        keys = {name: column for name, column in asked.items() if column.feature not in _OWN}
        keys = {**keys, _REFERENCE: Column(feature=_REFERENCE, dtype="string", shape=())}
    lines = open_jsonl(shards, read, replace(options, columns=keys))
    if lines.spec.get(_REFERENCE) != Field("string"):
        raise DataError(
            f"{shards.path(0)}: lines without a name in 'source-ref' name no files; if their values are the data, read them with "
            "format='jsonl'"
        )
    try:
        numbers, manifest = np.arange(lines.manifest.samples), lines.manifest
        said = lines.parse(numbers, read_ranges(read, manifest.stored, *manifest.extents(numbers)), new_rows)
    except RowError as error:
        raise DataError(f"{lines.manifest.place(error.row)}: {error.found}; {error.do}") from None
    references: Any = said.pop(_REFERENCE)
    return references.to_pylist(), said, {name: field for name, field in lines.spec.items() if name != _REFERENCE}


def _features(options: Options, said: Mapping[str, Field], where: str) -> dict[str, str]:
    """New name -> "data", "path" or the name of a column of `said`."""
    wanted = Selection(options.columns).columns((*_OWN, *said))
    features = {name: name if name in said else column.feature for name, column in wanted.items()}
    for feature in features.values():
        if feature not in _OWN and feature not in said:
            raise no_column(where, feature, (*_OWN, *said))
    return features
