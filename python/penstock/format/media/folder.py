"""Folders of images, audio and video: every file is one record, and its folder names its class (see `classes`). The bytes stay encoded.

Files of annotations say more of images: see `annotations`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from penstock.core.columns.plain import as_indices
from penstock.core.columns.spec import Columns, Field, Ids, Spans, Spec
from penstock.core.errors import DataError, RowError, SourceError
from penstock.core.files.shards import Shards
from penstock.core.images.heads import is_image
from penstock.core.verbs.options import Options
from penstock.format.media.classes import FileClasses, classes_of
from penstock.format.media.said import Said
from penstock.source.manifest import Manifest, joined_manifest
from penstock.source.protocol import Access, Allocate, Format
from penstock.source.selection import Selection


@dataclass(frozen=True, eq=False)
class MediaFolder:
    """Files as bytes, with their paths and what is said of them.

    features: new name -> "path", a key of `said`, or the bytes. said: columns in memory (arrays, or what has Arrow's `take`): the label of class
    folders (int64, its place in `classes`), or what annotations say.
    """

    manifest: Manifest
    spec: Spec
    features: dict[str, str]
    classes: tuple[str, ...]
    said: Mapping[str, Any]
    classes_given: bool = False
    access: Access = Access.RECORDS

    @property
    def labels(self) -> Ids | None:
        """The class of every file, or of every object in them; None where they have none."""
        said = self.said.get("label")
        return said if said is None or isinstance(said, np.ndarray) else said.values.to_numpy()

    def parse(self, samples: Ids, records: Spans, allocate: Allocate, *, threads: int = 1) -> Columns:
        """The columns of bytes (spans), path (large_string) and what is said, under the names that were asked for."""
        columns: Columns = {}
        for name, feature in self.features.items():
            if feature == "path":
                columns[name] = self.manifest.shards.paths.take(as_indices(samples))
            elif isinstance(said := self.said.get(feature), np.ndarray):
                columns[name] = np.take(said, samples, out=allocate(name, self.spec[name], len(samples)))
            elif said is not None:
                columns[name] = said.take(as_indices(samples))
            else:
                _refuse_empty(records)
                columns[name] = records
        return columns

    def only(self, names: Sequence[str]) -> MediaFolder:
        """The same files with these columns alone; nothing is read for paths and what is said."""
        features = {name: self.features[name] for name in names}
        access = Access.MEMORY if {*features.values()} <= {"path", *self.said} else self.access
        return replace(self, spec={name: self.spec[name] for name in features}, features=features, access=access)

    def joined(self, others: Sequence[Any]) -> MediaFolder | None:
        """See `Joinable`: files of the same columns."""
        several = [self, *(other for other in others if isinstance(other, MediaFolder) and self._is_like(other))]
        if len(several) <= len(others):
            return None
        said = {name: np.concatenate([one.said[name] for one in several]) for name in self.said}
        return replace(self, manifest=joined_manifest([one.manifest for one in several]), said=said)

    def _is_like(self, other: MediaFolder) -> bool:
        kinds = (self.spec, self.features, self.access, {*self.said})
        are_arrays = all(isinstance(column, np.ndarray) for column in self.said.values())
        return are_arrays and kinds == (other.spec, other.features, other.access, {*other.said})


def _refuse_empty(records: Spans) -> None:
    if (empty := np.flatnonzero(records.length == 0)).size:
        raise RowError(int(empty[0]), "the file is empty", "remove it, or write it again")


def folder_format(
    format: str,
    column: str,
    suffixes: tuple[str, ...],
    matches: Callable[[bytes], bool],
    detects: str,
    unread: tuple[str, ...],
    options: Mapping[str, str] | None = None,
) -> Format:
    """The registry's row of folders of one kind, whose bytes are the column of this name."""
    return Format(
        name=format,
        suffixes=suffixes,
        unread=unread,
        matches=matches,
        access="one file",
        detects=detects,
        options={
            "classes": "all class folders in the order of their numbers, also those of which no file is here",
            **(options or {}),
        },
        open=lambda shards, _, options: open_media_folder(shards, options, format, column),
    )


def open_media_folder(shards: Shards, options: Options, format: str, column: str) -> MediaFolder:
    """Opens files of a kind; `options.columns` selects and renames among the bytes, path, and the label or what annotations say."""
    found = _annotated(shards, options)
    offered = {column: Field("bytes"), **found.fields, "path": Field("string")}
    features = Selection(options.columns).choose_stored(offered, shards.root or shards.path(0))
    if column in features.values():
        _refuse_large(shards, options, column)
    spec = {name: offered[feature] for name, feature in features.items()}
    manifest = Manifest(format, shards, np.arange(len(shards) + 1, dtype=np.int64), settings=found.settings)
    names = found.classes if "label" in features.values() else ()  # without labels, folders may have any names
    return MediaFolder(manifest, spec, features, names, found.said, found.classes_given)


def _annotated(shards: Shards, options: Options) -> Said:
    """What annotations say of the files, or the class folders if there are none."""
    if "annotations" in options.own or "masks" in options.own:
        from penstock.format.media.annotations.opening import open_annotations

        return open_annotations(shards, options)
    classes = _classes(shards, options)
    said = {} if classes.labels is None else {"label": classes.labels}
    return Said(
        said=said, fields=dict.fromkeys(said, Field("int64")), classes=classes.names, classes_given=classes.given
    )


def _refuse_large(shards: Shards, options: Options, column: str) -> None:
    """DataError for the first file that is larger than a record may be, before memory is taken for it."""
    most = options.limits.record_bytes
    if (large := np.flatnonzero(shards.sizes > most)).size:
        first = int(large[0])
        raise DataError(
            f"{shards.path(first)}: {column} of {shards.sizes[first]:,} bytes, the limit is {most:,}; remove it, raise Limits(record_bytes=…) if it can be "
            "trusted, or choose columns without it"
        )


def _classes(shards: Shards, options: Options) -> FileClasses:
    """The classes; none if the folders do not name them and nobody asks for the label."""
    is_wanted = "label" in Selection(options.columns).features(["label"])
    try:
        return classes_of(shards, options.own.get("classes"), warn=is_wanted)
    except SourceError:
        if is_wanted:
            raise
        return FileClasses()


def _is_audio(head: bytes) -> bool:
    riff = head[:4] in (b"RIFF", b"RF64") and head[8:12] == b"WAVE"
    mpeg = len(head) > 2 and head[0] == 0xFF and head[1] & 0xE6 == 0xE2 and head[2] >> 4 not in (0, 15)  # layer III
    return riff or mpeg or head.startswith((b"fLaC", b"OggS", b"ID3")) or head[4:12] == b"ftypM4A "


def _is_video(head: bytes) -> bool:
    boxes = head[4:8] == b"ftyp" and head[8:12] != b"M4A " and not is_image(head)
    return boxes or head.startswith(b"\x1a\x45\xdf\xa3") or (head[:4] == b"RIFF" and head[8:12] == b"AVI ")


IMAGES = folder_format(
    "image_folder",
    "image",
    (
        ".jpg",
        ".jpeg",
        ".png",
        ".webp",
        ".bmp",
        ".gif",
        ".tif",
        ".tiff",
        ".ppm",
        ".pgm",
        ".avif",
        ".heic",
        ".heif",
        ".jp2",
        ".j2k",
        ".jxl",
        ".dcm",
    ),
    is_image,
    "what its decoder sees; PNG any flipped bit, JPEG often nothing",
    # as of torchvision's ImageFolder and Pillow
    unread=(
        ".pbm",
        ".pnm",
        ".tga",
        ".jfif",
        ".exr",
        ".svg",
    ),
    options={
        "annotations": "a file of COCO, or a folder of Pascal VOC's, that says where objects are: adds boxes, label and more",
        "masks": "True adds the column masks, the outlines of COCO's objects as pixels",
    },
)
AUDIO = folder_format(
    "audio_folder",
    "audio",
    (".wav", ".flac", ".mp3", ".ogg", ".opus", ".m4a"),
    _is_audio,
    "what its decoder sees",
    unread=(".aif", ".aiff", ".aac", ".wma", ".au", ".amr", ".caf", ".sph", ".w64", ".wv"),
)
VIDEO = folder_format(
    "video_folder",
    "video",
    (".mp4", ".mkv", ".webm", ".avi", ".mov"),
    _is_video,
    "what its decoder sees",
    unread=(".mpg", ".mpeg", ".wmv", ".flv", ".m4v", ".ts", ".3gp", ".ogv"),
)
