"""What the tests of tar archives share: archives made by Python's tarfile."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np

GOLDEN = Path(__file__).parent.parent / "golden" / "webdataset"

Files = Iterable[tuple[str, bytes]]


def archive(files: Files, format: int = tarfile.USTAR_FORMAT) -> bytes:
    """The files as an archive, with the shortest end that there can be."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format) as tar:
        for name, content in files:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        size = tar.offset
    return out.getvalue()[: size + 1024]


def write(path: Path, files: Files, format: int = tarfile.USTAR_FORMAT) -> Path:
    path.write_bytes(archive(files, format))
    return path


def member(name: str, kind: bytes = tarfile.REGTYPE, **fields) -> bytes:
    """One header, of any kind."""
    info = tarfile.TarInfo(name)
    info.type = kind
    for field, value in fields.items():
        setattr(info, field, value)
    return info.tobuf(tarfile.GNU_FORMAT)


def with_sum(header: bytes) -> bytes:
    """A header with its checksum made right."""
    total = sum(header[:148]) + sum(header[156:512]) + 8 * 32
    return header[:148] + b"%06o\0 " % total + header[156:]


def npy(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()
