"""Writes the golden TFRecord files with TensorFlow, so that the tests need none; run it where tensorflow-cpu is installed.

    python tests/golden/make_tfrecords.py

Beside each plain file lies NAME.json with the values that tf.io.parse_example gives for it (bytes in hex).
"""

from __future__ import annotations

import io
import json
import math
import struct
from pathlib import Path

import numpy as np
import tensorflow as tf
from PIL import Image

FOLDER = Path(__file__).parent / "tfrecord"
RNG = np.random.default_rng(20)


def floats(values):
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


def integers(values):
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def texts(values):
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))


def example(**features):
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def varint(value):
    value &= (1 << 64) - 1
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def block(field, content):
    return varint(field << 3 | 2) + varint(len(content)) + content


def unpacked_example(x, y):
    """The same message with one tag for every number, as writers without packing make it."""
    x = b"".join(b"\x0d" + struct.pack("<f", value) for value in x)
    y = b"".join(b"\x08" + varint(value) for value in y)
    entries = block(1, block(1, b"x") + block(2, block(2, x))) + block(1, block(1, b"y") + block(2, block(3, y)))
    return block(1, entries)


def parsed(records, schema):
    columns = tf.io.parse_example(tf.constant(records), schema)
    out = {}
    for name, column in columns.items():
        values = column.to_list() if isinstance(column, tf.RaggedTensor) else column.numpy().tolist()
        out[name] = plain(values)
    return out


def plain(value):
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return value


def write(name, records, schema, compression=""):
    path = FOLDER / name
    with tf.io.TFRecordWriter(str(path), tf.io.TFRecordOptions(compression_type=compression)) as writer:
        for record in records:
            writer.write(record)
    if compression:
        return  # the same records lie beside it unpacked
    expected = parsed(records, schema)
    (FOLDER / f"{name}.json").write_text(json.dumps(expected, separators=(",", ":")) + "\n")


def fixed(dtype, shape=(), default=None):
    return tf.io.FixedLenFeature(shape, dtype, default)


def ragged(dtype):
    return tf.io.RaggedFeature(dtype)


def jpeg(seed):
    small = np.random.default_rng(seed).integers(0, 256, (4, 5, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(small).resize((40, 30), Image.Resampling.BICUBIC).save(out, "JPEG", quality=80)
    return out.getvalue()


def main():
    FOLDER.mkdir(exist_ok=True)
    wide = [0, 1, -1, 127, 128, 16_383, 16_384, 2**31, -(2**31), 2**56 - 1, 2**56, 2**63 - 1, -(2**63), 5, 300, 70_000]
    dense = [
        example(
            x=floats(RNG.standard_normal(32).astype(np.float32)),
            y=integers([int(value) for value in RNG.permutation(wide)]),
            label=integers([row % 10]),
        )
        for row in range(64)
    ]
    schema = {"x": fixed(tf.float32, (32,)), "y": fixed(tf.int64, (16,)), "label": fixed(tf.int64)}
    write("dense.tfrecord", dense, schema)
    write("dense_gzip.tfrecord.gz", dense, schema, "GZIP")
    write("dense_zlib.tfrecord", dense, schema, "ZLIB")

    odd = [math.inf, -math.inf, math.nan, -0.0, 1e-45, 3.4028234663852886e38]
    ragged_rows = [
        example(
            tokens=integers([int(value) for value in RNG.integers(-5, 70_000, row % 7)]),
            weights=floats(odd[: row % 4]),
            words=texts([f"wörd {word}".encode() for word in range(row % 3)]),
            name=texts([b"" if row == 5 else f"row {row}".encode()]),
        )
        for row in range(30)
    ]
    schema = {
        "tokens": ragged(tf.int64),
        "weights": ragged(tf.float32),
        "words": ragged(tf.string),
        "name": fixed(tf.string),
    }
    write("ragged.tfrecord", ragged_rows, schema)

    missing = [
        example(
            **{
                "a": integers([row]),
                **({"b": floats([row / 2])} if row % 3 else {}),
                **({"c": texts([b"c"])} if row % 4 else {}),
            }
        )
        for row in range(24)
    ]
    missing.append(example(a=integers([99]), b=tf.train.Feature(), c=texts([b"last"])))
    schema = {"a": fixed(tf.int64), "b": fixed(tf.float32, (), -1.0), "c": fixed(tf.string, (), b"none")}
    write("missing.tfrecord", missing, schema)

    unpacked = [unpacked_example(RNG.standard_normal(5).astype(np.float32), wide[row : row + 3]) for row in range(12)]
    packed = [
        example(x=floats(RNG.standard_normal(5).astype(np.float32)), y=integers(wide[row : row + 3]))
        for row in range(12)
    ]
    schema = {"x": fixed(tf.float32, (5,)), "y": fixed(tf.int64, (3,))}
    mixed = [record for pair in zip(unpacked, packed, strict=True) for record in pair]
    write("unpacked.tfrecord", mixed, schema)

    images = [
        example(
            **{
                "image/encoded": texts([jpeg(row)]),
                "image/height": integers([30]),
                "image/width": integers([40]),
                "image/class/label": integers([row + 1]),
                "image/class/text": texts([f"class {row}".encode()]),
                "image/colorspace": texts([b"RGB"]),
                "image/object/bbox/xmin": floats([0.125 * box for box in range(row % 3)]),
            }
        )
        for row in range(8)
    ]
    schema = {
        "image/encoded": fixed(tf.string),
        "image/height": fixed(tf.int64),
        "image/width": fixed(tf.int64),
        "image/class/label": fixed(tf.int64),
        "image/class/text": fixed(tf.string),
        "image/colorspace": fixed(tf.string),
        "image/object/bbox/xmin": ragged(tf.float32),
    }
    write("images.tfrecord", images, schema)

    docs = [example(x=floats([row, row / 2, -row]), y=integers([row % 5])) for row in range(200)]
    write("docs.tfrecord", docs, {"x": fixed(tf.float32, (3,)), "y": fixed(tf.int64)})


if __name__ == "__main__":
    main()
