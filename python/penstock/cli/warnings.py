"""What will be slow or unfair in a dataset, and what is not checked."""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np
import pyarrow.compute as pc

from penstock.cli.console import size_text
from penstock.core.files.byte_ranges import read_ranges
from penstock.dataset import Dataset
from penstock.format.media.folder import MediaFolder
from penstock.source.checks.ranges import CheckedRanges
from penstock.source.manifest import Manifest

_MANY_FILES, _TINY_BYTES, _TRIED_FILES = 10_000, 64_000, 200
_UNEVEN_SHARDS, _UNEVEN_CLASSES = 4, 10
#: Formats whose every record has a checksum, which is always compared.
_CHECKED_ALREADY = ("tfrecord",)


def find_warnings(dataset: Dataset, classes: Mapping[str, int]) -> list[str]:
    """The warnings about a dataset, in words."""
    manifest = dataset.source.manifest
    found = [*_tiny_files(dataset), *_duplicates(manifest), *_uneven_shards(manifest), *_uneven_classes(classes)]
    return [*found, *_empty_files(dataset), *_about_labels(dataset)]


def _empty_files(dataset: Dataset) -> list[str]:
    shards = dataset.source.manifest.shards
    empty = np.flatnonzero(shards.sizes == 0)
    if not isinstance(dataset.source, MediaFolder) or not empty.size:
        return []
    found = f"{empty.size:,} of {len(shards):,} files are empty or broken links, the first {shards.path(int(empty[0]))}"
    return [f"{found}; reading them raises an error, and penstock inspect --decode lists all bad files"]


def _about_labels(dataset: Dataset) -> list[str]:
    source = dataset.source
    if not isinstance(source, MediaFolder):
        return []
    if source.labels is None:
        found = "there are no labels, since no class folders were found; put the files into class folders, or name the class"
        return [f"{found} with penstock.read(…, classes=[…])"]
    if source.manifest.shards.several_roots and not source.classes_given:
        found = f"the labels number the {len(source.classes)} classes of this list; to give another list, such as validation, the same"
        return [f"{found} numbers, use penstock.read(…, classes=train.classes)"]
    return []


def _tiny_files(dataset: Dataset) -> list[str]:
    shards = dataset.source.manifest.shards
    if len(shards) < _MANY_FILES or np.median(shards.sizes) >= _TINY_BYTES:
        return []
    each_s = _seconds_a_file(dataset)
    found = (
        f"{len(shards):,} files with a median of {size_text(np.median(shards.sizes))}: here each takes {1e6 * each_s:,.0f} µs to open and "
        f"read ({_TRIED_FILES} were tried), {each_s * len(shards):,.1f} s an epoch, and far more on network storage; store many "
        f"records in each file"
    )
    return [found]


def files_without_checksums(dataset: Dataset) -> int:
    """How many files of a format without checksums of its own have none in the cache."""
    manifest, read = dataset.source.manifest, dataset.read_ranges
    if manifest.format in _CHECKED_ALREADY or not isinstance(read, CheckedRanges) or len(manifest.shards) == 0:
        return 0
    return int((read.files(manifest.listings[0]).start < 0).sum())


def _seconds_a_file(dataset: Dataset) -> float:
    """Seconds to open and read one file, measured on files from all over the dataset."""
    shards = dataset.source.manifest.shards
    tried = np.linspace(0, len(shards) - 1, _TRIED_FILES).astype(np.int64)
    began_at = time.perf_counter()
    read_ranges(dataset.read_ranges, shards, tried, np.zeros_like(tried), shards.sizes[tried])
    return (time.perf_counter() - began_at) / len(tried)


def _duplicates(manifest: Manifest) -> list[str]:
    counted = pc.value_counts(manifest.shards.paths)
    again = [(entry["values"].as_py(), entry["counts"].as_py()) for entry in counted if entry["counts"].as_py() > 1]
    if not again:
        return []
    path, times = again[0]
    more = f", and so are {len(again) - 1:,} others" if len(again) > 1 else ""
    return [f"{path} is listed {times} times{more}; every epoch has its samples that often"]


def _uneven_shards(manifest: Manifest) -> list[str]:
    shards = manifest.shards
    if len(shards) == 0 or manifest.one_record_each:
        return []
    found = []
    largest, median = int(shards.sizes.argmax()), float(np.median(shards.sizes))
    if shards.sizes[largest] > _UNEVEN_SHARDS * max(median, 1):
        found.append(
            f"{shards.path(largest)} has {size_text(int(shards.sizes[largest]))}, the median file {size_text(median)}; "
            f"tools that give whole files to workers will wait for it (Penstock gives blocks and does not)"
        )
    if (empty := np.flatnonzero(np.diff(manifest.first_sample) == 0)).size:
        found.append(f"{empty.size:,} files hold no records, the first {shards.path(int(empty[0]))}")
    return found


def _uneven_classes(classes: Mapping[str, int]) -> list[str]:
    if not classes or max(classes.values()) <= _UNEVEN_CLASSES * min(classes.values()):
        return []
    most, least = max(classes, key=lambda name: classes[name]), min(classes, key=lambda name: classes[name])
    found = (
        f"classes are uneven: {most!r} has {classes[most]:,} samples, {least!r} has {classes[least]:,}; accuracy "
        f"alone will hide errors on the small ones"
    )
    return [found]
