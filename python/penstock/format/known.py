"""The formats that are built in, a row each: how files are recognised, and which function opens them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from penstock.core import kernels
from penstock.core.files.byte_ranges import ByteRanges
from penstock.core.files.shards import Shards
from penstock.core.verbs.options import Options
from penstock.format import claims
from penstock.format.media.folder import AUDIO, IMAGES, VIDEO
from penstock.source.protocol import AnySource, Format

#: Suffixes that tools add to the name of a file that they compress as a whole (`derived.decompress`).
_PACKED = ("", ".gz", ".zst", ".bz2", ".xz", ".lz4")


def _with_packed(*suffixes: str) -> tuple[str, ...]:
    """_with_packed(".txt") == (".txt", ".txt.gz", ".txt.zst", ".txt.bz2", ".txt.xz", ".txt.lz4")."""
    return tuple(suffix + packed for suffix in suffixes for packed in _PACKED)


def _opened_by(place: str) -> Callable[[Shards, ByteRanges, Options], AnySource]:
    """Opens files by a function of this package, "csv.source.open_csv". Its module is imported with the first such files: all of them take longer than a folder."""
    module, _, function = place.rpartition(".")

    def opened(shards: Shards, read: ByteRanges, options: Options) -> AnySource:
        source: AnySource = getattr(import_module(f"{__package__}.{module}"), function)(shards, read, options)
        return source

    return opened


FORMATS: tuple[Format, ...] = (
    IMAGES,
    AUDIO,
    VIDEO,
    Format(
        name="tfrecord",
        suffixes=(".tfrecord", ".tfrecords", ".tfrec", ".tfrecord.gz", ".tfrecords.gz", ".tfrec.gz"),
        matches=kernels.is_tfrecord,
        access="by its own bytes",
        detects="any flipped bit (two CRC-32C a record), truncation",
        open=_opened_by("tfrecord.open_tfrecord"),
    ),
    Format(
        name="recordio",
        suffixes=(".rec",),
        matches=kernels.is_recordio,
        options={"header": "whether records begin with an IRHeader (True); False takes them as plain bytes"},
        access="by its own bytes",
        detects="truncation, damaged framing; flipped bits of the data are not",
        open=_opened_by("recordio.open_recordio"),
    ),
    Format(
        name="mds",
        suffixes=(".mds",),
        claims=claims.is_mds,
        access="by its own bytes",
        detects="truncation, sizes that do not add up; packed shards with hashes: any flipped bit",
        open=_opened_by("mds.source.open_mds"),
    ),
    Format(
        name="litdata",
        claims=claims.is_litdata,
        options={"window": "for chunks of tokens: how many make a sample; without it each item is one"},
        access="by its own bytes; rows in Arrow: by record batches of 256",
        detects="truncation, sizes that do not add up",
        open=_opened_by("litdata.source.open_litdata"),
    ),
    Format(
        name="webdataset",
        suffixes=(*_with_packed(".tar"), ".tgz"),
        matches=kernels.is_tar,
        access="by its own bytes",
        detects="flipped bits in headers (a sum each), truncation; not in the files' contents",
        open=_opened_by("tar.source.open_webdataset"),
    ),
    Format(
        name="lmdb",
        suffixes=(".mdb", ".lmdb"),
        claims=claims.is_lmdb,
        matches=lambda head: head[16:24] == bytes.fromhex("dec0efbe01000000"),
        access="by its own bytes",
        detects="damage to the tree, truncation of what it holds; not to values",
        options={"database": "the name of a named database; without it the unnamed one, or the only one"},
        open=_opened_by("lmdb.open_lmdb"),
    ),
    Format(
        name="npy",
        suffixes=(".npy",),
        matches=lambda head: head.startswith(b"\x93NUMPY"),
        access="in memory (mapped), elsewhere by its own bytes",
        detects="another size than the header says",
        open=_opened_by("numpy.npy.open_npy"),
    ),
    Format(
        name="npz",
        suffixes=(".npz",),
        access="in memory (mapped; packed ones are unpacked once)",
        detects="any flipped bit of packed arrays (CRC-32); of plain ones a cut archive",
        open=_opened_by("numpy.npz.open_npz"),
    ),
    Format(
        name="hdf5",
        suffixes=(".h5", ".hdf5", ".he5", ".hdf"),
        matches=lambda head: head.startswith(b"\x89HDF\r\n\x1a\n"),
        access="with its chunk; in memory (mapped) where the file holds plain numbers",
        detects="what h5py sees: a cut file, checksums where the file has them (fletcher32), packed chunks",
        extra="hdf5",
        options={"keys": "groups or datasets to read, as paths: keys='train' or keys=['x', 'y']; all unless given"},
        open=_opened_by("hdf5.open_hdf5"),
    ),
    Format(
        name="zarr",
        claims=claims.is_zarr,
        access="with its chunk",
        detects="what the codecs see; not a missing chunk, which is the fill value",
        extra="zarr",
        options={"keys": "groups or arrays to read, as paths: keys='train' or keys=['x', 'y']; all unless given"},
        open=_opened_by("zarr.source.open_zarr"),
    ),
    Format(
        name="tokens",
        matches=claims.is_llmc,
        claims=claims.is_megatron,
        access="in memory (mapped), elsewhere by its own bytes",
        detects="sizes that do not fit the dtype, the header or Megatron's index",
        options={
            "window": "tokens of a sample (needed), for example 2049",
            "stride": "tokens from one window's first to the next one's; the window's length unless given",
            "dtype": "what plain files hold: 'uint16', 'uint32', …",
            "to_dtype": "what is delivered: as stored unless given, or 'int64', 'int32'",
            "documents": "with Megatron's index: windows across documents ('join') or within each ('split')",
            "mapped": "False reads local files by ranges instead of mapping them (for global shuffles of more than fits into memory)",
        },
        open=_opened_by("tokens.source.open_tokens"),
    ),
    Format(
        name="huggingface",
        claims=claims.is_huggingface,
        options={
            "split": "which split to read, where there are several",
            "filters": "of Parquet exports: which rows to read, as for parquet",
        },
        access="as in arrow and parquet",
        detects="as in arrow and parquet",
        open=_opened_by("huggingface.open_huggingface"),
    ),
    Format(
        name="parquet",
        suffixes=(".parquet", ".pq", ".parq"),
        matches=lambda head: head.startswith((b"PAR1", b"PARE")),
        options={"filters": "which rows to read: [('year', '>=', 2020)] or a pyarrow.compute expression"},
        access="by its row group, or its pages where they are listed, decoded once and cached",
        detects="any flipped bit in pages with checksums, otherwise what cannot be decoded; not bounds in a footer or a page index, which filters trust",
        open=_opened_by("parquet.source.open_parquet"),
    ),
    Format(
        name="arrow",
        suffixes=(".arrow", ".arrows", ".feather", ".ipc"),
        matches=claims.is_arrow,
        access="where it lies in its record batch; compressed batches decoded once and cached",
        detects="truncation inside a batch, offsets out of bounds, text that is no UTF-8",
        open=_opened_by("arrow.source.open_arrow"),
    ),
    Format(
        name="jsonl",
        is_beside=True,
        suffixes=_with_packed(".jsonl", ".ndjson", ".json"),
        matches=lambda head: head.lstrip().startswith(b'{"'),
        access="by its own bytes",
        detects="what is no JSON, missing keys, other types",
        open=_opened_by("json.lines.open_jsonl"),
    ),
    Format(
        name="csv",
        is_beside=True,
        suffixes=_with_packed(".csv", ".tsv"),
        options={
            "delimiter": "the byte between fields; default: a tab for .tsv files, else a comma",
            "header": "whether the first record of every file names the columns; default True",
            "names": "names of the columns, in place of the header's",
            "quotes": "whether quotes hold delimiters and newlines; default True",
            "na_values": "texts that stand for a missing value, in columns of text too, besides the usual ones of numbers: ['-', 'unknown']",
            "decimal": "the point of numbers; default '.'; ',' needs another delimiter",
        },
        access="by its own bytes",
        detects="another number of fields, values of other types",
        open=_opened_by("csv.source.open_csv"),
    ),
    Format(
        name="text",
        is_beside=True,
        suffixes=_with_packed(".txt", ".text"),
        access="by its own bytes",
        detects="bytes that are not UTF-8",
        open=_opened_by("text.open_text"),
    ),
    Format(
        name="manifest",
        is_beside=True,
        suffixes=(".manifest",),
        access="one file",
        detects="files that are not there; see the files' own format",
        options={"classes": "names of all class folders in the order of their numbers: adds the column label"},
        open=_opened_by("lists.open_manifest"),
    ),
)
