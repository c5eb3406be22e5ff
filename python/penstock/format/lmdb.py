"""LMDB databases (a folder with data.mdb, or the file): a record a sample, in the order of the keys. Several files are shards.

The file is walked natively and read as plain bytes: no lock is taken and no library is needed. One that lies elsewhere is copied to the
cache once. Values are bytes as they lie in the file;
what Caffe, pickle or msgpack put into them is for .map(…) to decode, and nothing is ever unpickled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from penstock.core import kernels
from penstock.core.columns.ragged import edges_of, texts_of
from penstock.core.columns.spec import Columns, Field, Ids, Spans, Spec
from penstock.core.errors import PlanError, SourceError
from penstock.core.files.byte_ranges import ByteRanges
from penstock.core.files.progress import BRIEF_BYTES, watched
from penstock.core.files.setup_times import timed
from penstock.core.files.shards import Shards
from penstock.core.verbs.options import Options
from penstock.derived.downloads import copies_of, naming
from penstock.format.claims import LMDB_LOCK
from penstock.source.manifest import Manifest
from penstock.source.protocol import Access, Allocate
from penstock.source.selection import Selection

_FIELDS = {"key": Field("bytes"), "value": Field("bytes")}


@dataclass(frozen=True, eq=False)
class LmdbSource:
    """Keys, which the index holds (large_binary), and values, which are read (spans)."""

    manifest: Manifest
    features: dict[str, str]
    keys: pa.LargeBinaryArray = field(repr=False)
    access: Access = Access.RECORDS

    @property
    def spec(self) -> Spec:
        """The columns."""
        return {name: _FIELDS[feature] for name, feature in self.features.items()}

    def only(self, names: Sequence[str]) -> LmdbSource:
        """The same records with these columns alone; nothing is read for keys."""
        features = {name: self.features[name] for name in names}
        access = self.access if "value" in features.values() else Access.MEMORY
        return replace(self, features=features, access=access)

    def parse(self, samples: Ids, records: Spans, allocate: Allocate, *, threads: int = 1) -> Columns:
        """The columns key and value, under the names that were asked for."""
        return {
            name: records if feature == "value" else self.keys.take(pa.array(samples))
            for name, feature in self.features.items()
        }


def open_lmdb(shards: Shards, read: ByteRanges, options: Options) -> LmdbSource:
    """Indexes databases: memory for every record's key, and 24 bytes. DataError for damaged files."""
    chosen = shards.take(np.flatnonzero([path.rpartition("/")[2] != LMDB_LOCK for path in shards.paths.to_pylist()]))
    features = Selection(options.columns).choose_stored(_FIELDS, shards.path(0))
    copies = copies_of(chosen, read, options)
    with naming(chosen, copies.paths.to_pylist()):
        found = [_index(copies, shard, read, options) for shard in range(len(chosen))]
    counts = [len(offset) for _, offset, _ in found]
    if not sum(counts):
        raise SourceError(
            f"{chosen.path(0)}: the database is empty; write some records, or name another with database=…"
        )
    manifest = Manifest(
        "lmdb",
        chosen,
        edges_of(counts),
        np.concatenate([offset for _, offset, _ in found]),
        np.concatenate([length for _, _, length in found]),
        unpacked=None if copies is chosen else copies,
        scattered=True,
    )
    return LmdbSource(manifest, features, pa.concat_arrays([keys for keys, _, _ in found]))


@timed("index")
def _index(shards: Shards, shard: int, read: ByteRanges, options: Options) -> tuple[pa.LargeBinaryArray, Ids, Ids]:
    """Keys, and offset and length of values, of one file."""
    path = shards.path(shard)
    name = options.own.get("database")
    if name is not None and not isinstance(name, (str, bytes)):
        raise PlanError(f"lmdb: database={name!r}; pass the name of a database")
    shards.check_now(shard)
    size = int(shards.sizes[shard])
    keys, ends, offset, length, read_at, read_length = watched(
        kernels.WorkProgress(),
        lambda work: kernels.index_lmdb(
            path,
            name.encode() if isinstance(name, str) else name,
            record_bytes=options.limits.record_bytes,
            progress=work,
        ),
        options.progress,
        size,
        brief=size < BRIEF_BYTES,
    )
    read.check(shards, np.full_like(read_at, shard), read_at, read_length)
    return texts_of(keys, np.append(0, ends).astype(np.int64)), offset, length
