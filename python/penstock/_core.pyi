"""Signatures of the compiled module, checked against it by stubtest."""

from collections.abc import Sequence
from typing import Any, TypeAlias, final

import numpy as np
import numpy.typing as npt

__all__ = [
    "BoxColumn",
    "EpochOrder",
    "Epochs",
    "ExampleParser",
    "HttpLanding",
    "HttpRunner",
    "ImageProgram",
    "JsonParser",
    "MappedFiles",
    "MixedOrder",
    "Mixture",
    "MixtureWord",
    "ParquetFooter",
    "TableProgram",
    "TarParser",
    "TextRules",
    "TextTokenizer",
    "WatchedMemory",
    "WorkProgress",
    "__version__",
    "copy_fields",
    "copy_windows",
    "crc32c_sums",
    "decode_image",
    "divide_rows",
    "draw_floats",
    "draw_integers",
    "draw_uniform_f32",
    "fill_sequences",
    "find_whole",
    "first_folders",
    "gather_rows",
    "image_info",
    "image_mode",
    "index_lines",
    "index_lmdb",
    "index_recordio",
    "index_tar_samples",
    "index_tfrecords",
    "infer_examples",
    "is_recordio",
    "is_tar",
    "is_tfrecord",
    "join_equal",
    "join_spans",
    "jpeg_entry_points",
    "line_texts",
    "list_elements",
    "lost_memory",
    "mix",
    "moved_boxes",
    "moved_points",
    "name_by_first",
    "names_end_with",
    "npy_header",
    "pack_best_fit",
    "pack_columns",
    "pack_concat",
    "parquet_page_bounds",
    "parquet_page_headers",
    "parquet_pages",
    "pending_signals",
    "read_pieces",
    "read_ranges",
    "recognise_packing",
    "recognise_tar_packing",
    "recognise_tfrecord_packing",
    "recordio_payloads",
    "row_keys",
    "run_image_views",
    "run_masks",
    "sources_of",
    "split_fields",
    "stat_files",
    "stream_records",
    "table_moments",
    "table_radix_collect",
    "table_radix_count",
    "take_short_turns",
    "tar_sample_members",
    "text_bands",
    "text_digests",
    "text_language_codes",
    "text_languages",
    "text_mask",
    "text_middles",
    "text_normalised",
    "text_redacted",
    "text_simplified",
    "text_spans",
    "text_words",
    "unpack_files_once",
    "unpack_rows",
    "walk_files",
]

__version__: str

_Ids: TypeAlias = npt.NDArray[np.int64]
_Bytes: TypeAlias = npt.NDArray[np.uint8]

# order

@final
class EpochOrder:
    """The order of one epoch, computed by arithmetic alone.

    A step has lanes × rows_per_lane rows; a rank's share of it is the positions [first, last).
    """

    @staticmethod
    def natural(samples: int, lanes: int, rows_per_lane: int, block_rows: int) -> EpochOrder: ...
    @staticmethod
    def shuffled(
        samples: int, lanes: int, rows_per_lane: int, block_rows: int, window_blocks: int, key: int
    ) -> EpochOrder: ...
    @staticmethod
    def streamed(samples: int, lanes: int, rows_per_lane: int, window_rows: int, key: int) -> EpochOrder: ...
    @property
    def block_rows(self) -> int: ...
    @property
    def window_blocks(self) -> int: ...
    @property
    def tail_start(self) -> int: ...
    def lane_rows(self, lane: int) -> int: ...
    def lane_ids(self, lane: int, first: int, count: int) -> _Ids: ...
    def step_ids(self, share: tuple[int, int], step: int, out: _Ids, threads: int) -> None: ...
    def windows(self, samples: _Ids) -> tuple[_Ids, _Ids, _Ids]: ...
    def gather_steps(
        self,
        share: tuple[int, int],
        step: int,
        rows: int,
        sources: Sequence[_Bytes],
        widths: Sequence[int],
        outs: Sequence[_Bytes],
    ) -> None: ...

@final
class Epochs:
    """The orders of all epochs of a dataset; seed: with the purpose of its keys; runs: of ids, see `order.rows.segments`."""

    def __new__(
        cls,
        lanes: int,
        rows_per_lane: int,
        block_rows: int,
        window_blocks: int,
        seed: tuple[int, int] | None,
        runs: Sequence[tuple[int, int, int]],
    ) -> Epochs: ...

@final
class MixedOrder:
    """Several orders mixed. rounds: by how many of its epochs each is further when the next epoch begins; None: all go on where they were."""

    def __new__(
        cls, mixture: Mixture, inputs: Sequence[Epochs | MixedOrder], lane_rows: int, rounds: Sequence[int] | None
    ) -> MixedOrder: ...
    def lane(self, draws: bool, epoch: int, lane: int, first: int, count: int) -> _Ids:
        """The ids, or the draws, of rows [first, first + count) of a lane."""

    def segments(self, draws: bool, epoch: int, lane: _Ids, first: _Ids, count: _Ids) -> _Ids:
        """The same of rows [first[i], first[i] + count[i]) of lane[i], one after the other."""

    def steps(self, draws: bool, epoch: int, share: tuple[int, int], step: int, out: _Ids, threads: int) -> None:
        """Writes the same of whole steps from one on."""

    @property
    def has_blocks(self) -> bool:
        """Whether the next three can be called: each input is one dataset as it lies."""

    def block_numbers(self, ids: _Ids) -> _Ids:
        """The blocks in which rows lie, numbered through in the order of their ids."""

    def block_edges(self, numbers: _Ids) -> tuple[_Ids, _Ids]:
        """The ids at which blocks begin and end."""

    def until(self, epoch: int, lanes: _Ids, rows: _Ids, last: _Ids) -> tuple[_Ids, _Ids]:
        """When the blocks are done in which rows of lanes lie, by their last ids: the lane, -1 for all, and its first row that needs them no more."""

@final
class MixtureWord:
    """The sequence of sources in which source c gives quotas[c] of as many rows as these are together, evenly spread."""

    def __new__(cls, quotas: Sequence[int]) -> MixtureWord: ...

@final
class Mixture:
    """Which source gives each row of a lane. pieces: the row of every lane from which on each word holds."""

    def __new__(cls, pieces: Sequence[tuple[int, MixtureWord]], lanes: int, rows_per_lane: int) -> Mixture: ...
    def rows(self, lane: int, first: int, count: int) -> tuple[_Ids, _Ids]:
        """Of rows [first, first + count) of a lane: the source, and how many of its rows come before in the lane."""

    def places(self, source: int, lanes: _Ids, ordinals: _Ids) -> _Ids:
        """The rows of lanes that a source gives as its ordinals-th, counted from 0."""

    def counts(self, source: int, lanes: _Ids, rows: _Ids) -> _Ids:
        """How many rows a source has among the first `rows` of lanes."""

def mix(words: Sequence[int]) -> int: ...

# text_masking

def text_mask(
    tokens: _Ids,
    labels: _Ids,
    edges: _Ids,
    keys: npt.NDArray[np.uint64],
    number: int,
    shares: tuple[float, float, float],
    mask: int,
    vocabulary: int,
    special: Sequence[int],
) -> None:
    """Masks rows of tokens where they lie; `labels` gets what is to be guessed. shares: of tokens to guess; of these, masked and random ones."""

def text_spans(
    tokens: _Ids,
    edges: _Ids,
    keys: npt.NDArray[np.uint64],
    number: int,
    share: float,
    mean: float,
    sentinels: Sequence[int],
    end: int | None,
) -> tuple[tuple[_Ids, _Ids], tuple[_Ids, _Ids]]:
    """Rows of tokens without spans, and the spans: values and edges of each. Raises RowError for a row that needs more sentinels."""

def text_middles(
    edges: _Ids,
    data: _Bytes,
    keys: npt.NDArray[np.uint64],
    number: int,
    share: float,
    suffix_first: float,
    marks: Sequence[str],
) -> tuple[_Bytes, _Ids]:
    """Texts with their middles at their ends: bytes and edges. Raises RowError for a text that holds a mark."""

# crc32c

def crc32c_sums(data: _Bytes, begin: _Ids, length: _Ids, threads: int) -> npt.NDArray[np.uint32]: ...

# divide

def divide_rows(ids: _Ids, first_ids: _Ids) -> tuple[_Ids, _Ids, _Ids]:
    """Rows by the sources that have their ids: their places, their samples, and where those of each source begin."""

def sources_of(places: Sequence[_Ids]) -> tuple[_Ids, _Ids]:
    """The part of each row, and its number there, where row i of part p is that at places[p][i]."""

# draws

_Words: TypeAlias = npt.NDArray[np.uint64]
_Floats: TypeAlias = npt.NDArray[np.float64]

def row_keys(ids: _Ids, key: int, out: _Words) -> None:
    """The key of every row: what `key` and its id come to."""

def draw_floats(kind: str, keys: _Words, call: int, first: _Floats, second: _Floats, out: _Floats) -> int | None:
    """Fills the rows of `out` with numbers of a distribution; None, or the place of the first whose parameters (one, or one a number) give none."""

def draw_uniform_f32(keys: _Words, call: int, out: npt.NDArray[np.float32]) -> None:
    """Fills the rows of `out` with numbers in [0, 1)."""

def draw_integers(keys: _Words, call: int, low: _Words, count: _Words, out: _Words) -> None:
    """Fills the rows of `out` with integers from `low` on, `count` many (0: all), modulo 2⁶⁴."""

# http

@final
class HttpLanding:
    """Receives the responses to the requests of a call; see `storage.fetch.plan.Requests`."""

    def __new__(cls, out: _Bytes, first: _Ids, source: _Ids, at: _Ids, size: _Ids) -> HttpLanding: ...
    def close(self, request: int) -> bool: ...
    def since(self, request: int) -> float | None: ...
    def close_all(self) -> None: ...

#: (ticket, url, etag, bytes of the object, start, parts); a part is (landing, request, offset in the response, bytes).
_HttpJob: TypeAlias = tuple[int, str, str, int, int, Sequence[tuple[HttpLanding, int, int, int]]]
#: (ticket, outcome, status, what was found, seconds, whether the limit of requests in flight was reached).
_HttpDone: TypeAlias = tuple[int, str, int, str, float, bool]

@final
class HttpRunner:
    """Makes many requests at once in a few threads; follows no redirects and uses no proxy."""

    def __new__(cls, timeout_s: float, *, is_plain: bool = False) -> HttpRunner: ...
    def submit(self, jobs: Sequence[_HttpJob], limit: int) -> None: ...
    def wait(self, timeout_s: float) -> list[_HttpDone]: ...
    def wake(self) -> None: ...
    def close(self) -> None: ...

# gather

def gather_rows(source: _Bytes, row_bytes: int, rows: _Ids, out: _Bytes, threads: int) -> None: ...
def join_spans(buffers: Sequence[_Bytes], which: _Ids, offset: _Ids, length: _Ids, out: _Bytes) -> None: ...

# fields

def split_fields(
    buffers: Sequence[_Bytes], which: _Ids, offset: _Ids, length: _Ids, widths: Sequence[int]
) -> tuple[_Ids, _Ids]: ...
def list_elements(
    buffers: Sequence[_Bytes], which: _Ids, offset: _Ids, length: _Ids, skip: int
) -> tuple[_Ids, _Ids, _Ids, _Ids]: ...
def copy_fields(
    buffers: Sequence[_Bytes],
    which: _Ids,
    offset: _Ids,
    length: _Ids,
    prefix: bytes,
    row_bytes: int,
    out: _Bytes,
    threads: int,
) -> None: ...

# recordio

def is_recordio(head: bytes) -> bool: ...
def index_recordio(
    paths: Sequence[str], sizes: _Ids, *, record_bytes: int, threads: int, progress: WorkProgress
) -> tuple[_Ids, _Ids]: ...
def stream_records(kind: str, data: _Bytes, *, first: int, record_bytes: int, name: str) -> _Ids: ...
def recordio_payloads(
    buffers: Sequence[_Bytes], which: _Ids, offset: _Ids, length: _Ids
) -> tuple[_Ids, _Ids, _Ids, _Bytes]: ...

# pick

def pack_columns(columns: Sequence[_Bytes], widths: Sequence[int], count: int, out: _Bytes, threads: int) -> None: ...
def unpack_rows(
    parts: Sequence[_Bytes], widths: Sequence[int], which: _Ids, numbers: _Ids, outs: Sequence[_Bytes], threads: int
) -> None: ...

# pack

_Planned: TypeAlias = tuple[_Ids, _Ids, _Ids, _Ids, _Ids]

def pack_best_fit(lengths: _Ids, group_rows: Sequence[int], length: int, truncate: bool) -> _Planned: ...
def pack_concat(
    lengths: _Ids, groups: Sequence[tuple[int, int, bool]], length: int, truncate: bool
) -> tuple[_Planned, list[tuple[int, int]]]: ...
def fill_sequences(
    rows: _Ids,
    starts: _Ids,
    lengths: _Ids,
    edges: _Ids,
    length: int,
    columns: Sequence[tuple[_Bytes, _Ids, int, _Bytes, _Bytes]],
    threads: int,
    segment_ids: npt.NDArray[np.int32] | None = None,
    position_ids: npt.NDArray[np.int32] | None = None,
    mask: _Bytes | None = None,
) -> None: ...

# entry points

def jpeg_entry_points(
    buffers: Sequence[_Bytes], which: _Ids, offset: _Ids, length: _Ids, every_pixels: int, threads: int
) -> tuple[_Bytes, _Ids, npt.NDArray[np.uint32]]: ...

# files

def walk_files(root: str, threads: int) -> tuple[_Ids, _Bytes, _Ids, _Ids]: ...
def stat_files(paths: Sequence[str]) -> tuple[_Ids, _Bytes, _Ids, _Ids]: ...
def names_end_with(offsets: _Ids, bytes: _Bytes, endings: Sequence[str], any_case: bool) -> npt.NDArray[np.bool_]: ...
def first_folders(offsets: _Ids, bytes: _Bytes, root_bytes: int) -> tuple[_Ids, _Ids]: ...
def read_ranges(
    path_offsets: _Ids,
    path_bytes: _Bytes,
    sizes: _Ids,
    shard: _Ids,
    offset: _Ids,
    length: _Ids,
    out: _Bytes,
    at: _Ids,
    threads: int,
    stamps: _Ids | None = None,
) -> None: ...

# kept

def find_whole(
    rows: _Bytes, parts: Sequence[tuple[_Ids, _Ids]], base: _Ids, shard: _Ids, offset: _Ids, length: _Ids
) -> tuple[_Ids, _Bytes, _Ids] | None: ...
def read_pieces(
    path_offsets: _Ids,
    path_bytes: _Bytes,
    sizes: _Ids,
    rows: _Bytes,
    begin: _Ids,
    length: _Ids,
    out: _Bytes,
    at: _Ids,
    threads: int,
) -> _Ids: ...

# signals

def pending_signals(descriptor: int, numbers: Sequence[int]) -> int:
    """A descriptor that can be read as long as one of these signals is pending for this process, and that nobody reads; `descriptor` is one that was made before and is about these from now on, or -1.

    OSError on systems other than Linux.
    """

def take_short_turns() -> None:
    """The calling thread takes short turns on a CPU, and gets one soon after it was woken: since Linux 6.12, of which older ones pay no heed.

    OSError on systems other than Linux, and where it is forbidden.
    """

# tfrecord

@final
class WorkProgress:
    """The progress of a call that runs in another thread, and a way to stop it."""

    def __new__(cls) -> WorkProgress: ...
    @property
    def done(self) -> int: ...
    def stop(self) -> None: ...

@final
class ExampleParser:
    """Columns of tf.train.Examples and SequenceExamples.

    A column is (feature number, form, dtype, values, expected, default). Forms of features: "fixed" (that many values),
    "ragged" (multiples of that many), "spans", "texts" (that many; -1: any number). Forms of feature lists, whose numbers
    follow those of the features: "steps" (that many in each step), "nested" (any number in each step).
    """

    def __new__(
        cls,
        features: Sequence[str],
        lists: Sequence[str],
        columns: Sequence[tuple[int, str, str, int, str, bytes | None]],
        *,
        verify: bool,
        values_limit: int,
    ) -> ExampleParser: ...
    def __getnewargs_ex__(self) -> tuple[tuple[list[str], list[str], list[Any]], dict[str, Any]]: ...
    def parse(
        self,
        buffers: Sequence[_Bytes],
        which: _Ids,
        offset: _Ids,
        length: _Ids,
        outs: Sequence[_Bytes | None],
        threads: int,
    ) -> list[tuple[npt.NDArray[Any], ...] | None]: ...

def is_tfrecord(head: bytes) -> bool: ...
def recognise_packing(paths: Sequence[str], threads: int) -> _Ids: ...
def recognise_tfrecord_packing(paths: Sequence[str], threads: int) -> _Ids: ...
def unpack_files_once(
    paths: Sequence[str],
    packing: _Ids,
    targets: Sequence[str],
    scratch: Sequence[str],
    *,
    unpacked_bytes: int,
    ratio: int,
    room_bytes: int,
    threads: int,
    progress: WorkProgress,
) -> _Ids: ...
def index_tfrecords(
    paths: Sequence[str], sizes: _Ids, *, record_bytes: int, threads: int, progress: WorkProgress
) -> tuple[_Ids, _Ids]: ...
def infer_examples(
    buffers: Sequence[_Bytes], which: _Ids, offset: _Ids, length: _Ids, verify: bool
) -> list[tuple[str, str, bool, int, int, int, bool]]: ...

# tar

@final
class TarParser:
    """Columns of samples in tar archives.

    A column is (extensions, form, dtype, shape with -1 for a varying axis, expected, default). Forms: "spans", "texts",
    "key", "number", "array".
    """

    def __new__(
        cls,
        columns: Sequence[tuple[Sequence[str], str, str, Sequence[int], str, bytes | None]],
        *,
        values_limit: int,
    ) -> TarParser: ...
    def __getnewargs_ex__(self) -> tuple[tuple[list[Any]], dict[str, Any]]: ...
    def parse(
        self,
        buffers: Sequence[_Bytes],
        which: _Ids,
        offset: _Ids,
        length: _Ids,
        outs: Sequence[_Bytes | None],
        threads: int,
    ) -> list[tuple[npt.NDArray[Any], ...] | None]: ...

def is_tar(head: bytes) -> bool: ...
def recognise_tar_packing(paths: Sequence[str], threads: int) -> _Ids: ...
def index_tar_samples(
    paths: Sequence[str], sizes: _Ids, *, record_bytes: int, threads: int, progress: WorkProgress
) -> tuple[_Ids, _Ids, _Ids]: ...
def tar_sample_members(record: bytes) -> list[tuple[str, int, int]]: ...
def npy_header(file: bytes) -> tuple[str, list[int]]: ...

# lines

def index_lines(
    paths: Sequence[str],
    sizes: _Ids,
    *,
    blank: str,
    quoted: int | None,
    header: bool,
    record_bytes: int,
    threads: int,
    progress: WorkProgress,
) -> tuple[_Ids, _Ids, _Ids]: ...
def line_texts(buffers: Sequence[_Bytes], which: _Ids, offset: _Ids, length: _Ids) -> tuple[_Bytes, _Ids]: ...

# json

@final
class JsonParser:
    """Columns of JSON lines.

    A column is (path, form, dtype, shape, expected, default). Forms: "fixed" (numbers in lists of these lengths), "ragged" (a
    list of these, of any length), "text", "texts" (a list of that many strings; without a shape, of any number), "raw" (the
    value's JSON text).
    """

    def __new__(
        cls,
        columns: Sequence[tuple[Sequence[str], str, str, Sequence[int], str, bytes | None]],
        *,
        values_limit: int,
    ) -> JsonParser: ...
    def __getnewargs_ex__(self) -> tuple[tuple[list[Any]], dict[str, Any]]: ...
    def parse(
        self,
        buffers: Sequence[_Bytes],
        which: _Ids,
        offset: _Ids,
        length: _Ids,
        outs: Sequence[_Bytes | None],
        threads: int,
    ) -> list[tuple[npt.NDArray[Any], ...] | None]: ...

# table

#: An array of floats; whole numbers, and which are missing; or edges of texts, their bytes, and which are missing.
_TextParts: TypeAlias = tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8], npt.NDArray[np.bool_] | None]
_WrittenTexts: TypeAlias = tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]
_TableColumn: TypeAlias = (
    npt.NDArray[np.float64 | np.float32]
    | tuple[_Ids, npt.NDArray[np.bool_] | None]
    | tuple[_Ids, _Bytes, npt.NDArray[np.bool_] | None]
)

@final
class TableProgram:
    """Chains of steps on columns.

    kinds: of each column, "float64", "float32", "int64" or "string". chains: name, inputs (places of columns), pairs (which of these are multiplied), steps, array, offset and width (where
    their numbers lie in a row of an array). arrays: of each its dtype, and how many numbers a row has.
    """

    def __new__(
        cls, kinds: Sequence[str], chains: Sequence[dict[str, Any]], arrays: Sequence[tuple[str, int]]
    ) -> TableProgram: ...
    def run(self, columns: Sequence[_TableColumn], arrays: Sequence[npt.NDArray[Any]], threads: int) -> None:
        """Fills flat arrays; RowError for the first bad row."""

    def one(self, values: Sequence[Any]) -> list[npt.NDArray[Any]]:
        """The arrays of one row, of a value a column; None is missing. ValueError, which begins with the column's place, for a value of another type."""

@final
class TextTokenizer:
    """A tokenizer: columns of texts become columns of ids. Making one raises ValueError, in words."""

    @staticmethod
    def of_json(text: str, spans: bool) -> TextTokenizer:
        """Of a tokenizer.json. spans: whether to know which bytes tokens are."""

    @staticmethod
    def of_ranks(data: bytes, pattern: str, specials: Sequence[tuple[str, int]], spans: bool) -> TextTokenizer:
        """Of an encoding of tiktoken: a token a line, in base64, and its rank."""

    @staticmethod
    def of_sentencepiece(data: bytes, spans: bool) -> TextTokenizer:
        """Of a model of SentencePiece."""

    def has_special_ids(self) -> bool:
        """Whether special tokens in texts can become their ids."""

    def id_of(self, token: str) -> int | None:
        """The id of a token."""

    def added(self) -> tuple[int, int]:
        """How many tokens are added around one text, and around two."""

    def run(
        self,
        given: tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8], npt.NDArray[np.bool_] | None],
        second: tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8], npt.NDArray[np.bool_] | None] | None,
        *,
        add_special: bool,
        special: str,
        most: int,
        keeps_last: bool,
        begin: int | None,
        end: int | None,
        spans: bool,
        types: bool,
        threads: int,
    ) -> tuple[
        npt.NDArray[np.int32],
        npt.NDArray[np.int64],
        npt.NDArray[np.uint8],
        npt.NDArray[np.int32],
        list[tuple[int, str, str]],
    ]:
        """Ids, where each row of them ends, types of tokens, and first and last bytes; and bad rows, which have none: row, what was found, what to do.

        Columns are edges, bytes, and which rows have none. special: "error", "as_text" or "as_token". most: tokens of a row.
        """

def table_moments(
    values: npt.NDArray[np.float64],
) -> tuple[int, int, int, float, float, list[tuple[int, int, int, int]]]:
    """Counts of finite, missing and infinite numbers, the least and the greatest, and sums.

    Of each exponent, the sum in units of 2**(exponent - 1075), and that of squares in units of its square, as two numbers of which the second is worth 2**64.
    """

def table_radix_count(
    values: npt.NDArray[np.float64], known: int, prefixes: npt.NDArray[np.uint64], counts: _Ids
) -> None:
    """Adds to `counts`, 65,536 a prefix, the numbers whose patterns begin with a prefix of `known` bits, by the 16 bits behind."""

def table_radix_collect(
    values: npt.NDArray[np.float64], known: int, prefixes: npt.NDArray[np.uint64]
) -> npt.NDArray[np.float64]:
    """The numbers whose patterns begin with one of the prefixes of `known` bits."""

# text

@final
class TextRules:
    """Rules about the quality of text. name: "gopher", "c4" or "fineweb"; given: thresholds by datatrove's names."""

    def __new__(cls, name: str, given: dict[str, Any]) -> TextRules: ...
    def names(self) -> list[str]:
        """The rules' names; the first is "", of texts that break none."""

    def broken(self, column: _TextParts, threads: int) -> npt.NDArray[np.uint8]:
        """The number of the first rule that each row breaks, 0 for none and for a row without text."""

    def edited(self, column: _TextParts, threads: int) -> _WrittenTexts:
        """What C4 keeps of each row; nothing of one that it drops."""

def text_words(column: _TextParts) -> tuple[list[int], npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """How many English words each row has, and where each begins and ends in its row, in bytes."""

def text_simplified(column: _TextParts, threads: int) -> _WrittenTexts:
    """Each row as MinHash compares it: datatrove's simplify_text."""

def text_bands(
    column: _TextParts, shingle: int, bands: int, hashes_per_band: int, seed: int, threads: int
) -> npt.NDArray[np.uint64]:
    """MinHash: a number for each row and band, row after row; 0 for rows without text."""

def text_digests(column: _TextParts, threads: int) -> npt.NDArray[np.uint64]:
    """The 128 bits of XXH3 of each row's bytes, as two numbers; 0 for rows without any."""

def join_equal(
    roots: npt.NDArray[np.uint32], keys: npt.NDArray[np.uint64], present: npt.NDArray[np.bool_], width: int
) -> None:
    """Joins sets of rows whose keys, of 1 or 2 numbers, are equal. roots: for each row one in front of it in its set, or itself. present: which rows have a key."""

def name_by_first(roots: npt.NDArray[np.uint32]) -> None:
    """Puts the first row of each row's set in its place."""

def text_normalised(column: _TextParts, form: str, lowercase: bool, spaces: str, threads: int) -> _WrittenTexts:
    """Texts in a normal form ("" for none), lower case, and white space in one way: "keep", "single" or "lines"."""

def text_redacted(column: _TextParts, kinds: Sequence[tuple[str, str]], threads: int) -> _WrittenTexts:
    """Texts with other words for what is of some kinds. kinds: names, and what stands for each."""

def text_languages(column: _TextParts, threads: int) -> tuple[_WrittenTexts, npt.NDArray[np.float32]]:
    """The code of each row's language in ISO 639-3, and how sure that is; "" and 0 where nothing was found."""

def text_language_codes() -> list[str]:
    """The codes that `text_languages` gives, in order."""

# image

@final
class ImageProgram:
    """A compiled chain of image ops, which runs on every image of a column.

    ops: (number, {"op": name, **its fields}); the number keys the op's random choices.
    output: height, width, mode ("RGB", "L", "LA", "RGBA", "I16" or "P"), is_strict (whether files must hold such pixels unchanged), dtype, layout,
    and scale and bias of 4 floats each.
    """

    def __new__(
        cls,
        ops: list[tuple[int, dict[str, Any]]],
        output: dict[str, Any],
        apply_exif: bool,
        fast: bool,
        allow_truncated: bool,
        limits: tuple[int, int, int],
    ) -> ImageProgram: ...
    def size_of(self, data: bytes) -> tuple[int, int]:
        """The (height, width) of the result for an encoded image, independent of the output's size."""

    def size_from(self, height: int, width: int) -> tuple[int, int]:
        """The (height, width) of the result for pixels of this height and width, independent of the output's size."""

    def sizes_before(
        self,
        places: list[int],
        buffers: list[npt.NDArray[np.uint8]],
        which: npt.NDArray[np.int64],
        offset: npt.NDArray[np.int64],
        length: npt.NDArray[np.int64],
        samples: npt.NDArray[np.int64],
        key: int,
    ) -> npt.NDArray[np.uint32]:
        """Height and width, image after image, where each of the ops at `places` (ascending) meets it; 0 for bytes that are no image."""

    def sizes_at_start(
        self,
        buffers: list[npt.NDArray[np.uint8]],
        which: npt.NDArray[np.int64],
        offset: npt.NDArray[np.int64],
        length: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.uint32]:
        """Height and width, image after image, where the ops begin; 0 for bytes that are no image."""

    def drawn(
        self,
        buffers: list[npt.NDArray[np.uint8]],
        which: npt.NDArray[np.int64],
        offset: npt.NDArray[np.int64],
        length: npt.NDArray[np.int64],
        samples: npt.NDArray[np.int64],
        key: int,
        boxes: BoxColumn | None = None,
    ) -> list[tuple[int, str, int, float]]:
        """What the ops draw: an op's number, what the number stands for, the row, and the number; nothing for bytes that are no image."""

    def drawn_from(
        self, height: int, width: int, samples: npt.NDArray[np.int64], key: int, boxes: BoxColumn | None = None
    ) -> list[tuple[int, str, int, float]]:
        """The same for pixels of this height and width."""

    def sizes_before_from(self, places: list[int], height: int, width: int) -> list[tuple[int, int]]:
        """The same (height, width) for pixels of this height and width."""

    def run(
        self,
        buffers: list[npt.NDArray[np.uint8]],
        which: npt.NDArray[np.int64],
        offset: npt.NDArray[np.int64],
        length: npt.NDArray[np.int64],
        samples: npt.NDArray[np.int64],
        key: int,
        out: npt.NDArray[np.uint8],
        threads: int,
        entry_points: tuple[_Ids, _Ids, npt.NDArray[np.uint32], _Bytes] | None = None,
        every_row: bool = False,
        is_watching: bool = False,
        boxes: BoxColumn | None = None,
    ) -> tuple[tuple[int, int, int, int], tuple[int, str] | None]:
        """Decode and transform encoded images into `out`, one after the other; returns images by decoder, and with `is_watching` the first row that
        lost something as RGB, and what: "grey16", "colour16", "palette" or "alpha".

        Raises RowError about the first row that fails. With `every_row` its `every` lists those about all rows that fail, and `out` holds all others.
        """

    def run_dense(
        self,
        pixels: npt.NDArray[np.uint8],
        samples: npt.NDArray[np.int64],
        key: int,
        out: npt.NDArray[np.uint8],
        threads: int,
        boxes: BoxColumn | None = None,
    ) -> None:
        """Like `run`, for pixels of shape (rows, height, width, bytes of a pixel)."""

def run_image_views(
    programs: list[ImageProgram],
    keys: list[int],
    buffers: list[npt.NDArray[np.uint8]],
    which: npt.NDArray[np.int64],
    offset: npt.NDArray[np.int64],
    length: npt.NDArray[np.int64],
    samples: npt.NDArray[np.int64],
    outs: list[npt.NDArray[np.uint8]],
    threads: int,
    every_row: bool,
    is_watching: bool,
    boxes: list[BoxColumn | None],
) -> tuple[tuple[int, int, int, int], tuple[int, str] | None]:
    """Like `ImageProgram.run`, for several programs on the same images, each with its key, output and boxes: an image is decoded once, whole, as the first program says."""

@final
class BoxColumn:
    """The boxes of a batch's images: four numbers each, those of row i from edges[i] to edges[i + 1].

    format: "XYXY", "XYWH" or "CXCYWH". precision: "whole", "single" or "double".
    """

    def __new__(cls, numbers: npt.NDArray[np.float64], edges: _Ids, format: str, precision: str) -> BoxColumn: ...

#: What is done to images: their program, (height, width) of each where that begins (0: no image), their ids, the key, and the boxes that it asks for.
_Images: TypeAlias = tuple[ImageProgram, npt.NDArray[np.uint32], _Ids, int, BoxColumn | None]

def moved_boxes(
    images: _Images, boxes: BoxColumn, steps: list[tuple[str, float, float]], threads: int
) -> tuple[npt.NDArray[np.float64], _Ids, _Ids]:
    """What becomes of boxes: the numbers of those that are left, how many each row has, and which of all these are.

    steps: ("clamp", 0, 0), ("sanitize", min_size, min_area), or (a format, 0, 0), behind what is done to the images.
    """

def moved_points(
    images: _Images, numbers: npt.NDArray[np.float64], edges: _Ids, precision: str, threads: int
) -> npt.NDArray[np.float64]:
    """What becomes of points: column and row of each."""

def run_masks(
    images: _Images,
    program: ImageProgram,
    rows: _Ids,
    buffers: list[npt.NDArray[np.uint8]],
    which: _Ids,
    offset: _Ids,
    length: _Ids,
    pixels: npt.NDArray[np.uint32] | None,
    fill: float,
    out: npt.NDArray[np.uint8],
    threads: int,
    every_row: bool,
) -> None:
    """Does to masks, of the images' rows `rows`, what is done to these, then what `program` does. pixels: (height, width) of each; None: they are encoded.

    Raises RowError as `ImageProgram.run`; rows are those of the images.
    """

def image_info(data: bytes, apply_exif: bool = False) -> tuple[int, int, str]:
    """The (width, height, format) in an image's header. Raises ValueError."""

def image_mode(data: bytes) -> str:
    """The mode that holds an image unchanged, from its headers. Raises ValueError, also where none does."""

def decode_image(data: bytes, apply_exif: bool = False, limits: tuple[int, int, int] = ...) -> npt.NDArray[np.uint8]:
    """The image as an array of shape (height, width, 3). Raises ValueError."""

# windows

def copy_windows(
    parts: list[_Bytes],
    which: _Ids,
    start: _Ids,
    row_bytes: int,
    stored: str,
    wanted: str,
    out: _Bytes,
    threads: int,
) -> None:
    """Copy `row_bytes` bytes from byte start[i] of parts[which[i]] to row i of `out`.

    stored, wanted: NumPy types ("<u2", ">f4", "|u1"). Values are converted to the wanted byte order, and small integers
    to larger ones. Raises IndexError for ranges beyond a part's end, ValueError for types without a conversion.
    """

@final
class MappedFiles:
    """Local files that are mapped into memory when they are first needed; each must be what it was when it was listed, and so must what it was made of."""

    def __new__(
        cls,
        paths: list[str],
        sizes: _Ids,
        stamps: _Ids | None = None,
        made_of: tuple[list[str], _Ids, _Ids | None] | None = None,
    ) -> MappedFiles: ...
    def copy_windows(
        self, which: _Ids, start: _Ids, row_bytes: int, stored: str, wanted: str, out: _Bytes, threads: int
    ) -> None:
        """Like `copy_windows`, from files. Raises OSError (path, found) for a file that is missing or was changed."""

@final
class WatchedMemory:
    """Mapped memory that another library reads, kept mapped by `owner`: what its file has no more reads as zeros, not as SIGBUS."""

    def __new__(cls, address: int, size: int, owner: object) -> WatchedMemory: ...
    @property
    def is_lost(self) -> bool:
        """Whether a part of it was read as zeros."""

def lost_memory() -> int:
    """How often watched memory was lost in this process: 0 spares asking each."""

# lmdb

def index_lmdb(
    path: str, database: bytes | None, *, record_bytes: int, progress: WorkProgress
) -> tuple[_Bytes, _Ids, _Ids, _Ids, _Ids, _Ids]:
    """The records of an LMDB file in key order: all keys, where each ends, where each value begins, its length.

    Then the offset and length of every part of the file that was read.

    database: its name; None for the unnamed or only one. Raises DataError with the page for damaged files.
    """

# parquet

@final
class ParquetFooter:
    """A Parquet file's footer (without length and magic), with the columns and fields of these names and all below them.

    Raises ValueError for bytes that are not a footer, or are inconsistent.
    """

    def __new__(cls, data: bytes, names: Sequence[Sequence[str]]) -> ParquetFooter: ...
    @property
    def rows(self) -> _Ids:
        """Rows of each row group."""

    @property
    def leaves(self) -> list[tuple[list[str], int, bool, bool]]:
        """For each requested column: its names, Parquet's number of its type, whether a row may have several values, whether bounds use the type's order."""

    def chunks(self, group: int) -> _Ids:
        """One row for each leaf: where pages with values begin, where the dictionary begins (-1: none), where the pages end (-1: not listed, or not readable),
        decompressed bytes, values, nulls (-1: unknown), pages that need the dictionary (-1: unknown), offset and length of the offset index, of the column index.
        """

    def bounds(self, group: int, leaf: int) -> tuple[bytes | None, bytes | None, bool]:
        """The least and the greatest value, and whether they use the type's order."""

    def part(self, group: int, rows: int, parts: Sequence[Sequence[int]], arrow: bytes) -> bytes:
        """The footer of a file with some columns of one row group. A part is: leaf, values, where the dictionary (-1: none) and the pages begin, compressed bytes, decompressed bytes.

        arrow: the columns' Arrow schema, in base64.
        """

def parquet_pages(data: _Bytes, rows: int, begin: int, end: int) -> tuple[_Ids, _Ids, _Ids]:
    """Offset, length and first row of the pages in an offset index. Raises ValueError if they do not cover all rows and bytes."""

def parquet_page_bounds(
    data: _Bytes, pages: int
) -> tuple[npt.NDArray[np.bool_], list[bytes], list[bytes], _Ids | None]:
    """For each page in a column index: whether it holds only nulls, its least and greatest value, its nulls if stated. Raises ValueError."""

def parquet_page_headers(buffer: _Bytes, at: _Ids, length: _Ids) -> _Ids:
    """One row for each page: whether it is a dictionary, whether it needs one, values, rows (-1: unknown), decompressed bytes. Raises ValueError."""
