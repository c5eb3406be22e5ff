"""penstock index: counts and indexes a dataset ahead of its first use."""

from __future__ import annotations

import time

from penstock.cli.console import out, print_json, size_text
from penstock.cli.opening import Json, Paths, open_dataset


def index(paths: Paths, as_json: Json = False) -> None:
    """Build a dataset's index ahead, so that training starts at once.

    The index (shards, sizes, where each record lies) is kept in the user's cache and built anew when a file changes. The
    digest identifies the data: a training resumes only on data with the same digest. Prints samples, bytes, digest and
    the time it took.

    Examples:
        penstock index 'data/train-*.tfrecord'
        penstock index data/train --json
    """
    began_at = time.perf_counter()
    dataset = open_dataset(paths)
    manifest = dataset.source.manifest
    digest = manifest.digest
    figures = {
        "where": paths,
        "format": manifest.format,
        "shards": len(manifest.shards),
        "samples": manifest.samples,
        "bytes": manifest.size_bytes,
        "digest": digest,
        "seconds": time.perf_counter() - began_at,
    }
    if as_json:
        print_json(figures)
        return
    what = f"{manifest.samples:,} samples in {len(manifest.shards):,} files, {size_text(manifest.size_bytes)}"
    out.print(f"{what}, indexed in {figures['seconds']:.2f} s", soft_wrap=True)
    out.print(f"digest {digest}")
