"""Where the bench keeps its data and environments, and what the workloads are. Imports the standard library only: every environment reads it."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent

#: Workload (a) alone, on photographs of 3,000×2,000: with their own data beside the others'.
LARGE = "PENSTOCK_BENCH_LARGE" in os.environ
#: Rows of the table of workloads (tables), unless a million; with their own data beside the others'.
ROWS = int(os.environ.get("PENSTOCK_BENCH_ROWS", "0"))
BATCH = {
    "a": 32 if LARGE else 256,
    "b": 1024,
    "c": 256,
    "tar": 256,
    "recordio": 256,
    "mds": 256,
    "parquet": 1024,
    "jsonl": 256,
    "tokens": 64,
    "objects": 256,
    "sql": 1024,
    "images-modern": 256,
    "images-mixed": 256,
    "images-simclr": 128,
    "images-detection": 32,
    "cluster-uint8": 256,
    "cluster-float32": 256,
    "tables-recipe": ROWS or 1_000_000,
    "tables-profile": ROWS or 1_000_000,
    "tables-columns": ROWS or 1_000_000,
    "tables-row": 1,
}
TITLES = {
    "a": "JPEG → RandomResizedCrop 224 → flip → normalise",
    "b": "tf.train.Example: 32 floats, 16 ints, a label",
    "c": "one int64 a sample",
    "tar": "WebDataset tar: JPEG bytes and a label, nothing decoded",
    "recordio": "RecordIO: bytes of 2 to 6 KB, a label",
    "mds": "MDS: bytes of 2 to 6 KB, a label, a caption",
    "parquet": "Parquet: 100 float32 columns, a million rows",
    "jsonl": "JSON lines: a text of about 500 bytes, an id, a score, a label out of seven keys",
    "tokens": "windows of 2,049 uint16 tokens, shuffled singly",
    "objects": "a map-style Python object: number → (float32[16], int)",
    "sql": "1,000,000 rows of a key, 4 doubles and an integer",
    "images-modern": "JPEG → RandomResizedCrop 224 → flip → TrivialAugmentWide → normalise → RandomErasing",
    "images-mixed": "the same, and MixUp or CutMix of each batch",
    "images-simclr": "JPEG → SimCLR's two views: crop, flip, ColorJitter, grey, GaussianBlur, normalise",
    "images-detection": "JPEG, COCO's boxes and masks → distort, zoom out, crop by boxes, flip, 640 × 640, sanitised (SSD)",
    "cluster-uint8": "JPEG → RandomResizedCrop 224 → flip, uint8, by other processes than the trainer's",
    "cluster-float32": "the same, normalised to float32",
    "tables-recipe": "Parquet, 20 columns of numbers and text → fitted, and filled, scaled and encoded",
    "tables-profile": "the same file → a profile",
    "tables-columns": "the same file → ten computed columns",
    "tables-row": "one row → filled, scaled and encoded, as it is served",
}
if LARGE:
    TITLES = {"a": "JPEG of 3,000×2,000 → RandomResizedCrop 224 → flip → normalise"}
UNITS = {
    "a": "images/s",
    "b": "records/s",
    "c": "samples/s",
    "tar": "samples/s",
    "recordio": "samples/s",
    "mds": "samples/s",
    "parquet": "rows/s",
    "jsonl": "lines/s",
    "tokens": "windows/s",
    "objects": "items/s",
    "sql": "rows/s",
    "images-modern": "images/s",
    "images-mixed": "images/s",
    "images-simclr": "images/s",
    "images-detection": "images/s",
    "cluster-uint8": "images/s",
    "cluster-float32": "images/s",
    "tables-recipe": "rows/s",
    "tables-profile": "rows/s",
    "tables-columns": "rows/s",
    "tables-row": "rows/s",
}

FLOATS = 32
INTS = 16
FORMAT_SAMPLES = 60_000
#: Samples of workload (c): more than a processor's caches hold, and as many as every peer can write to files in a minute.
TINY_SAMPLES, TINY_SAMPLES_IN_FILES = 10_000_000, 1_000_000
#: 400 MB of tokens, more than a processor's caches hold.
TOKENS = 200_000_000
WINDOW = 2_049
TABLE_ROWS, TABLE_COLUMNS = 1_000_000, 100
TABLE_FILES, TABLE_GROUP_ROWS = 4, 50_000
SQL_ROWS = 1_000_000
SQL_QUERY = "SELECT id, x0, x1, x2, x3, label FROM samples"


def workloads(names: str) -> list[str]:
    """Those of a list, and of a family all: workloads("a,images") are a, images-modern, images-mixed, images-simclr and images-detection."""
    every = [[one for one in TITLES if one.startswith(f"{name}-")] or [name] for name in names.split(",")]
    return [one for some in every for one in some]


def table_width() -> int | None:
    """Columns for a table: wide enough for any where nobody looks at a terminal, so that nothing is folded in a file."""
    return None if sys.stdout.isatty() else 200


def work_folder() -> Path:
    """$PENSTOCK_BENCH_DIR, or benches/.work."""
    return Path(os.environ.get("PENSTOCK_BENCH_DIR", HERE / ".work")).resolve()


def data_folder() -> Path:
    """Where the data are unless named."""
    return work_folder() / ("data-large" if LARGE else f"data-{ROWS}-rows" if ROWS else "data")


def environment(name: str) -> Path:
    """The folder of a peer's virtual environment, there or not."""
    return work_folder() / "env" / name


def interpreter(name: str) -> Path:
    """The Python of a peer's virtual environment, there or not."""
    return environment(name) / "bin" / "python"


@dataclass(frozen=True)
class Data:
    """The bench data under one root: the same photographs, records and numbers in every format."""

    root: Path

    @property
    def photographs(self) -> Path:
        """JPEG files in class folders: a/photographs/<class>/<number>.jpg."""
        return self.root / "a" / "photographs"

    @property
    def rows(self) -> Path:
        """Workload (b) as plain arrays: the source of every format's copy."""
        return self.root / "b" / "rows.npz"

    @property
    def instances(self) -> Path:
        """Boxes and outlines of the photographs, as COCO has them."""
        return self.place("images-detection", "instances.json")

    def files(self, workload: str, folder: str, suffix: str) -> list[Path]:
        """Sorted: files("b", "tfrecord", ".tfrecord") are b/tfrecord/*.tfrecord."""
        return sorted((self.root / workload / folder).glob(f"*{suffix}"))

    @property
    def archives(self) -> list[Path]:
        """The photographs as WebDataset's tar files."""
        return self.files("a", "webdataset", ".tar")

    def place(self, workload: str, name: str) -> Path:
        """A path for one format's copy; its parent exists."""
        path = self.root / workload / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def jpegs(self) -> list[tuple[Path, int]]:
        """Every photograph with its label: the place of its class folder in sorted order."""
        classes = sorted(folder for folder in self.photographs.iterdir() if folder.is_dir())
        return [(path, label) for label, folder in enumerate(classes) for path in sorted(folder.iterdir())]
