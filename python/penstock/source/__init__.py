"""What a format gives to the engine: the protocol of a source, its manifest, and what several formats share.

Public, for formats of your own (docs/own_format.md): `Access`, `Format`, `Manifest`, `Field`, `Spans`, `RowError`.

`protocol` (what a source is), `manifest` (shards and records), `selection` (columns by name), `dotted_names`, `jpeg_index`; `records/` (records
in files), `fields/` (records made of fields), `arrays/` (arrays on disk), `tables/` (Arrow tables), `checks/` (checksums).
"""

from penstock.core.columns.spec import Field, Spans
from penstock.core.errors import RowError
from penstock.source.manifest import Manifest
from penstock.source.protocol import Access, Format

__all__ = ["Access", "Field", "Format", "Manifest", "RowError", "Spans"]
