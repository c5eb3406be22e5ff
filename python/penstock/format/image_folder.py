"""Folders of pictures: every file is one record, and the folder below the root names its class."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import PlanError, SourceError
from penstock.format.manifest import Manifest
from penstock.format.protocol import Allocate, Column, Format, Options, ReadRanges
from penstock.shards import Shards
from penstock.spec import Columns, Field, Ids, Spans, Spec

_FIELDS = {"image": Field("bytes"), "label": Field("int64"), "path": Field("string")}
_MAGIC = (b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"BM", b"GIF87a", b"GIF89a")


@dataclass(frozen=True, eq=False)
class ImageFolder:
    """Pictures as bytes, with class number (int64, `classes` in sorted order) and path.

    Files that lie directly in the root, without class folders, and files of several roots have no label.
    """

    manifest: Manifest
    spec: Spec
    features: dict[str, str]
    classes: tuple[str, ...]
    labels: Ids | None
    random_access: bool = False

    def parse(self, samples: Ids, records: Spans, allocate: Allocate, *, threads: int = 1) -> Columns:
        """The columns image (spans), label (int64) and path (large_string), under the names that were asked for."""
        columns: Columns = {}
        for name, feature in self.features.items():
            if feature == "image":
                columns[name] = records
            elif feature == "label" and self.labels is not None:
                out = allocate(name, self.spec[name], len(samples))
                columns[name] = np.take(self.labels, samples, out=out)
            else:
                columns[name] = self.manifest.shards.paths.take(pa.array(samples))
        return columns


def open_image_folder(shards: Shards, _: ReadRanges, options: Options) -> ImageFolder:
    """Opens pictures; `options.columns` selects and renames among image, label and path."""
    if (empty := np.flatnonzero(shards.sizes == 0)).size:
        raise SourceError(f"{shards.path(int(empty[0]))}: the file is empty ({empty.size:,} such files); remove it")
    folders = _class_folders(shards)
    classes: tuple[str, ...] = ()
    labels = None
    if folders is not None:
        encoded = folders.dictionary_encode()
        names = np.array(encoded.dictionary.to_pylist())
        rank = np.argsort(np.argsort(names))
        labels = rank[encoded.indices.to_numpy()].astype(np.int64)
        classes = tuple(sorted(names.tolist()))
    offered = [name for name in _FIELDS if name != "label" or labels is not None]
    features = _select(options, offered)
    spec = {name: _FIELDS[feature] for name, feature in features.items()}
    first_sample = np.arange(len(shards) + 1, dtype=np.int64)
    return ImageFolder(Manifest("image_folder", shards, first_sample), spec, features, classes, labels)


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


def _select(options: Options, offered: list[str]) -> dict[str, str]:
    if options.columns is None:
        return {name: name for name in offered}
    wanted = options.columns if isinstance(options.columns, Mapping) else {name: name for name in options.columns}
    features: dict[str, str] = {}
    for name, asked in wanted.items():
        feature = asked.feature if isinstance(asked, Column) else asked
        if feature not in offered:
            close = difflib.get_close_matches(feature, offered, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise PlanError(f"columns: a folder of pictures has no {feature!r}; it has {', '.join(offered)}{hint}")
        features[name] = feature
    return features


def _matches(head: bytes) -> bool:
    return head.startswith(_MAGIC) or (head[:4] == b"RIFF" and head[8:12] == b"WEBP")


FORMAT = Format(
    name="image_folder",
    suffixes=(".jpg", ".jpeg", ".png", ".webp", ".bmp", ".gif"),
    matches=_matches,
    access="one file",
    detects="what its decoder sees; PNG any flipped bit, JPEG often nothing",
    open=open_image_folder,
)
