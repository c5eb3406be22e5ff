"""Writes the fuzzers' first inputs to fuzz/seeds/<target>/: python fuzz/make_seeds.py, from the repository's root.

What comes from the golden files is cut or chosen small: a fuzzer tries many short inputs rather than a few long ones. Needs Pillow, NumPy and pyarrow. The
hand-written seeds of example_walk and tfrecord_frames, and what the fuzzer found (gif-frame-beyond-screen, jpeg-cmyk-without-rows, png-palette-cut), are left as they are.
"""

from __future__ import annotations

import base64
import io
import json
import struct
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

GOLDEN = Path("tests/golden")
SEEDS = Path("fuzz/seeds")

#: Behind a picture: scale and upsampling, region, MCUs between entry points; see jpeg_scan.rs.
SCAN_CHOICE = bytes([0, 90, 90, 200, 200, 3])
#: Behind a picture: the format and its switches, and four ops of three bytes each; see image_chain.rs.
CHAIN_CHOICES = {
    "crop": bytes([12, 10, 0, 1]) + bytes([8, 20, 20, 4, 200, 0, 3, 30, 5, 7, 0, 0]),
    "floats": bytes([9, 16, 14, 2]) + bytes([18, 15, 0, 6, 200, 0, 5, 200, 0, 1, 8, 8]),
    # The mode is the upper half of the third byte.
    **{
        f"mode-{mode}": bytes([9, 8, mode << 4, 4]) + bytes([32, 15, 12, 3, 30, 5, 4, 200, 0, 1, 8, 8])
        for mode in range(1, 6)
    },
}
#: Version 1, every 4 MCUs, 1×1 MCUs, 3 components; the entry at bit 4,984, predictions 0.
INDEX = bytes([1, 4, 1, 1, 3, 0xF8, 0x26, 0, 0, 0])

#: Behind the choice of widths and of a list's header; see field_records.rs.
FIELD_RECORDS = {
    "one": bytes([0]) + bytes([5, 0, 0, 0]) + b"hello",
    "three": bytes([0x82]) + bytes([3, 0, 0, 0, 2, 0, 0, 0]) + b"abc" + bytes(2) + b"de",
    "list": bytes([0]) + bytes([2, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0]) + b"abb",
    "list-behind-zeros": bytes([4]) + bytes([0, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0]) + b"abc",
}


#: Answers, and a path with a version for a request.
HTTP_HEADS = {
    "partial": b'HTTP/1.1 206 Partial Content\r\ncontent-length: 3\r\ncontent-range: bytes 3-5/9\r\netag: W/"a"\r\n\r\nabc',
    "chunked": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "refused": b"HTTP/1.0 403\r\ncontent-length: 0\r\n\r\n",
    "request": b'/bucket/a%20b?X=1\n"a"',
}


def tokenizers() -> dict[str, bytes]:
    """A small tokenizer of each kind, behind the byte that says which; see text_models.rs."""
    letters = {letter: number for number, letter in enumerate("abcdeé <s>12")}
    parts = {"version": "1.0", "added_tokens": [], "normalizer": None, "post_processor": None, "decoder": None}
    special = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    merging = {"type": "BPE", "vocab": {**letters, "ab": len(letters)}, "merges": ["a b"], "unk_token": "a"}
    words = {"type": "WordPiece", "vocab": {"[UNK]": 0, "a": 1, "##b": 2}, "unk_token": "[UNK]"}
    words |= {"continuing_subword_prefix": "##", "max_input_chars_per_word": 100}
    scored = {"type": "Unigram", "vocab": [["<unk>", 0.0], ["\u2581a", -1.5], ["b", -2.0]], "unk_id": 0}
    files = {
        "bpe": {"model": merging, "added_tokens": [{"id": len(letters) + 1, "content": "<s>", **special}]},
        "wordpiece": {
            "model": words,
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "normalizer": {"type": "Lowercase"},
        },
        "unigram": {"model": scored, "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581"}},
        "pattern": {
            "model": merging,
            "pre_tokenizer": {
                "type": "Split",
                "pattern": {"Regex": r"\w+|\W"},
                "behavior": "Isolated",
                "invert": False,
            },
        },
    }
    made = {f"json-{name}": b"\x00" + json.dumps(parts | file).encode() for name, file in files.items()}
    tokens = [*(bytes([byte]) for byte in range(256)), b"ab"]
    ranks = (base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate(tokens))
    made["tiktoken"] = b"\x01" + b"".join(ranks)

    def field(number: int, value: bytes) -> bytes:
        return bytes([number << 3 | 2, len(value)]) + value

    def piece(text: str, score: float, kind: int) -> bytes:
        return field(1, field(1, text.encode()) + b"\x15" + struct.pack("<f", score) + bytes([0x18, kind]))

    pieces = (
        piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("\u2581", -1, 1) + piece("a", -2, 1) + piece("\u2581a", -3, 1)
    )
    for name, kind in (("unigram", 1), ("bpe", 2)):
        made[f"sentencepiece-{name}"] = (
            b"\x02" + pieces + field(2, bytes([0x18, kind])) + field(3, field(1, b"identity"))
        )
    return made


def jpegs() -> dict[str, bytes]:
    """Every second one of the 40 smallest golden files, and small ones of other encoders."""
    files = sorted((GOLDEN / "jpeg").glob("*.jpg"), key=lambda path: (path.stat().st_size, path.name))
    others = [
        path
        for path in files[40:]
        if path.name.startswith(("cjpeg", "separate-cjpeg", "other")) and path.stat().st_size < 2_000
    ]
    return {path.stem: path.read_bytes() for path in [*files[:40:2], *others]}


def pictures() -> dict[str, bytes]:
    """A small file of every format that is read, and of every kind of pixel that takes a way of its own."""
    rgb = Image.linear_gradient("L").resize((13, 11)).convert("RGB")
    rgb.paste((200, 30, 90), (3, 2, 9, 8))
    kinds = {
        "jpeg-baseline": (rgb, "JPEG", {}),
        "jpeg-progressive": (rgb, "JPEG", {"progressive": True}),
        "jpeg-cmyk": (rgb.convert("CMYK"), "JPEG", {}),
        "png-rgb": (rgb, "PNG", {}),
        "png-rgba": (rgb.convert("RGBA"), "PNG", {}),
        "png-palette": (rgb.quantize(7), "PNG", {"transparency": 1}),
        "png-bilevel": (rgb.convert("1"), "PNG", {}),
        "png-16": (Image.new("I;16", (5, 4), 40_000), "PNG", {}),
        "webp-lossy": (rgb, "WEBP", {}),
        "webp-lossless": (rgb.convert("RGBA"), "WEBP", {"lossless": True}),
        "bmp-rgb": (rgb, "BMP", {}),
        "bmp-palette": (rgb.quantize(7), "BMP", {}),
        "gif": (rgb.quantize(7), "GIF", {}),
        "png-grey": (rgb.convert("L"), "PNG", {"transparency": 7}),
        "png-palette-packed": (rgb.quantize(3), "PNG", {"bits": 2}),
        "bmp-bilevel": (rgb.convert("1"), "BMP", {}),
        "jpeg-grey": (rgb.convert("L"), "JPEG", {}),
        "tiff-rgb": (rgb, "TIFF", {}),
        "tiff-lzw": (rgb, "TIFF", {"compression": "tiff_lzw"}),
        "tiff-16": (Image.new("I;16", (5, 4), 40_000), "TIFF", {}),
        "ppm": (rgb, "PPM", {}),
        "pgm": (rgb.convert("L"), "PPM", {}),
    }
    found = {}
    for name, (image, kind, options) in kinds.items():
        out = io.BytesIO()
        image.save(out, kind, **options)
        found[name] = out.getvalue()
    with zipfile.ZipFile(GOLDEN / "jxl.zip") as archive:
        for name in ("lossy-rgb", "lossy-grey-16", "lossless-grey", "lossy-patches", "lossy-turned-6"):
            found[f"jxl-{name}"] = archive.read(f"{name}.jxl")
    return found


def frames(path: Path, limit: int) -> list[bytes]:
    """The first records of a TFRecord file, as long as they fit into `limit` bytes: whole frames."""
    data, at, found = path.read_bytes(), 0, []
    while at < len(data):
        end = at + 16 + int.from_bytes(data[at : at + 8], "little")
        if end > limit:
            break
        found.append(data[at:end])
        at = end
    return found


def archives() -> dict[str, bytes]:
    """A sample of a golden archive of every kind, with its end."""
    found = {}
    for name in ("plain", "gnu", "posix", "v7", "ustar"):
        data = (GOLDEN / "webdataset" / f"{name}.tar").read_bytes()
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            members = archive.getmembers()[:5]
        found[f"golden-{name}"] = data[: members[-1].offset] + bytes(1024)
    for kind, array in {
        "int16": np.arange(6, dtype="<i2").reshape(2, 3),
        "float32": np.zeros((3, 2), ">f4", "F"),
    }.items():
        out = io.BytesIO()
        np.save(out, array)
        found[f"npy-{kind}"] = out.getvalue()
    return found


def write(target: str, seeds: dict[str, bytes]) -> None:
    """One file an input."""
    (SEEDS / target).mkdir(parents=True, exist_ok=True)
    for name, data in seeds.items():
        (SEEDS / target / name).write_bytes(data)


def parquet_parts() -> dict[str, bytes]:
    """The footer of a small file, of its page index a column's bounds and a column's pages, and a page."""
    table = pa.table({"id": range(60), "text": [f"{n}" for n in range(60)], "list": [[n] * (n % 3) for n in range(60)]})
    paged, single = io.BytesIO(), io.BytesIO()
    pq.write_table(table, paged, write_page_index=True, max_rows_per_page=20)
    pq.write_table(table.select(["id"]), single, use_dictionary=False)
    content = paged.getvalue()
    footer = content[-8 - int.from_bytes(content[-8:-4], "little") : -8]
    index = content[: -8 - len(footer)]
    column = pq.ParquetFile(single).metadata.row_group(0).column(0)
    return {
        "footer": footer,
        "bounds": index[index.rindex(bytes([0x19, 0x31])) :],  # a list of three truth values
        "pages": index[index.rindex(bytes([0x19, 0x3C])) :],  # a list of three structs
        "page": single.getvalue()[column.data_page_offset :][: column.total_compressed_size],
    }


def main() -> None:
    """Writes all of them."""
    files = jpegs()
    write("jpeg_header", files)
    write("jpeg_scan", {name: data + SCAN_CHOICE for name, data in files.items()})
    write("jpeg_entry_points", {name: len(INDEX).to_bytes(2, "little") + INDEX + data for name, data in files.items()})
    found = pictures()
    write("image_decode", found)
    chosen = {
        f"{name}-{chain}": data + choice for name, data in found.items() for chain, choice in CHAIN_CHOICES.items()
    }
    write("image_chain", chosen)
    write("tar_samples", archives())
    databases = ("empty", "named", "several")
    write("lmdb_walk", {name: (GOLDEN / "lmdb" / name / "data.mdb").read_bytes() for name in databases})
    for name in ("dense", "docs", "missing", "ragged", "sequences", "unpacked"):
        found = frames(GOLDEN / "tfrecord" / f"{name}.tfrecord", 2_000)
        if found:
            write("tfrecord_frames", {f"golden-{name}": b"".join(found)})
            write("example_walk", {f"golden-{name}": found[0][12:-4]})
    write("text_models", tokenizers())
    write("http_head", HTTP_HEADS)
    write("http_chunks", {"chunks": b"3\r\nabc\r\nA;x\r\n0123456789\r\n0\r\ntrailer: x\r\n\r\n"})
    write("recordio_records", {path.stem: path.read_bytes() for path in sorted((GOLDEN / "recordio").glob("*.rec"))})
    write("field_records", FIELD_RECORDS)
    write("parquet_pages", parquet_parts())
    frame = b"".join(frames(GOLDEN / "tfrecord" / "docs.tfrecord", 2_000))
    record = (GOLDEN / "recordio" / "plain.rec").read_bytes()
    write(
        "stream_records", {"tfrecord": b"\xff" + frame, "recordio": b"\xfd" + record, "lines": b"\xfeone\n\ntwo\nthree"}
    )


if __name__ == "__main__":
    main()
