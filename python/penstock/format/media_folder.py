"""Folders of media files: every file is one record, and the folder below the root names its class.

What a kind of file is called is its `Kind`: pictures (see image_folder), sound, films. The bytes stay encoded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import PlanError, SourceError
from penstock.format.choose import choose_features
from penstock.format.manifest import Manifest
from penstock.format.protocol import Allocate, Format, Options, ReadRanges
from penstock.shards import Shards
from penstock.spec import Columns, Field, Ids, Spans, Spec


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What a folder holds. column: the name of the bytes; what: the folder in messages; matches, detects: as in `Format`."""

    format: str
    column: str
    what: str
    suffixes: tuple[str, ...]
    matches: Callable[[bytes], bool]
    detects: str

    @property
    def fields(self) -> dict[str, Field]:
        """The columns that such a folder can have."""
        return {self.column: Field("bytes"), "label": Field("int64"), "path": Field("string")}


@dataclass(frozen=True, eq=False)
class MediaFolder:
    """Files as bytes, with class number (int64, `classes` in sorted order, or as the option says) and path.

    Files that lie directly in the root, without class folders, and files of several roots have no label.
    """

    manifest: Manifest
    spec: Spec
    features: dict[str, str]
    classes: tuple[str, ...]
    labels: Ids | None
    classes_given: bool = False
    random_access: bool = False

    def parse(self, samples: Ids, records: Spans, allocate: Allocate, *, threads: int = 1) -> Columns:
        """The columns of bytes (spans), label (int64) and path (large_string), under the names that were asked for."""
        columns: Columns = {}
        for name, feature in self.features.items():
            if feature == "path":
                columns[name] = self.manifest.shards.paths.take(pa.array(samples))
            elif feature == "label" and self.labels is not None:
                out = allocate(name, self.spec[name], len(samples))
                columns[name] = np.take(self.labels, samples, out=out)
            else:
                columns[name] = records
        return columns


def folder_format(kind: Kind) -> Format:
    """The registry's row of a kind."""

    def open_folder(shards: Shards, _: ReadRanges, options: Options) -> MediaFolder:
        return open_media_folder(shards, options, kind)

    return Format(
        name=kind.format,
        suffixes=kind.suffixes,
        matches=kind.matches,
        access="one file",
        detects=kind.detects,
        options={"classes": "all class folders in the order of their numbers, also those of which no file is here"},
        open=open_folder,
    )


def open_media_folder(shards: Shards, options: Options, kind: Kind) -> MediaFolder:
    """Opens files of a kind; `options.columns` selects and renames among the bytes, label and path."""
    if (empty := np.flatnonzero(shards.sizes == 0)).size:
        raise SourceError(f"{shards.path(int(empty[0]))}: the file is empty ({empty.size:,} such files); remove it")
    folders = _class_folders(shards)
    given = options.own.get("classes")
    classes: tuple[str, ...] = ()
    labels = None
    if folders is not None:
        encoded = folders.dictionary_encode()
        names = encoded.dictionary.to_pylist()
        classes = tuple(sorted(names)) if given is None else _checked(given, names, shards)
        number_of = {name: number for number, name in enumerate(classes)}
        labels = np.array([number_of[name] for name in names], dtype=np.int64)[encoded.indices.to_numpy()]
    offered = [name for name in kind.fields if name != "label" or labels is not None]
    features = choose_features(options, offered, kind.what)
    spec = {name: kind.fields[feature] for name, feature in features.items()}
    first_sample = np.arange(len(shards) + 1, dtype=np.int64)
    return MediaFolder(Manifest(kind.format, shards, first_sample), spec, features, classes, labels, given is not None)


def _checked(given: Any, names: list[str], shards: Shards) -> tuple[str, ...]:
    """The classes that the user named; PlanError if they are none, or lack one of the folders."""
    if isinstance(given, str) or len(set(given)) != len(given) or not all(isinstance(name, str) for name in given):
        raise PlanError(f"classes={given!r}: pass a list of the names of all class folders, each once")
    if missing := sorted(set(names) - set(given)):
        raise PlanError(
            f"classes: {shards.root} has the class folder {missing[0]!r}, which is not among the {len(given)} named"
        )
    return tuple(given)


def _class_folders(shards: Shards) -> pa.Array | None:
    """The first folder below the root for every file; None if no file lies in one, or there are several roots."""
    if shards.several_roots:
        return None  # whether the roots are classes, or hold them, cannot be told; a guess would be a wrong label
    below = pc.utf8_slice_codeunits(shards.paths, len(shards.root))
    cut = pc.find_substring(below, "/").to_numpy(zero_copy_only=False)
    if (cut < 0).all():
        return None
    if (cut < 0).any():
        stray = shards.path(int(np.argmax(cut < 0)))
        raise SourceError(
            f"{stray}: lies beside the class folders of {shards.root}; move it into one, or out of the way"
        )
    return pc.replace_substring_regex(below, "/.*", "")


def _is_sound(head: bytes) -> bool:
    riff = head[:4] in (b"RIFF", b"RF64") and head[8:12] == b"WAVE"
    frame = (
        len(head) > 2 and head[0] == 0xFF and head[1] & 0xE6 == 0xE2 and head[2] >> 4 not in (0, 15)
    )  # MPEG layer III
    return riff or frame or head.startswith((b"fLaC", b"OggS", b"ID3")) or head[4:12] == b"ftypM4A "


def _is_film(head: bytes) -> bool:
    boxes = head[4:8] == b"ftyp" and head[8:12] != b"M4A "
    return boxes or head.startswith(b"\x1a\x45\xdf\xa3") or (head[:4] == b"RIFF" and head[8:12] == b"AVI ")


AUDIO = folder_format(
    Kind(
        format="audio_folder",
        column="audio",
        what="a folder of sound",
        suffixes=(".wav", ".flac", ".mp3", ".ogg", ".opus", ".m4a"),
        matches=_is_sound,
        detects="what its decoder sees",
    )
)

VIDEO = folder_format(
    Kind(
        format="video_folder",
        column="video",
        what="a folder of films",
        suffixes=(".mp4", ".mkv", ".webm", ".avi", ".mov"),
        matches=_is_film,
        detects="what its decoder sees",
    )
)
