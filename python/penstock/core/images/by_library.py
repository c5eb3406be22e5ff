r"""Files that libraries decode: AVIF and JPEG 2000 by Pillow, HEIF by pillow-heif, DICOM by pydicom. Native code gets each as a PNG that is not compressed.

kind_of(b"\xff\x4f\xff\x51").name == "JPEG 2000"
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from penstock.core.images.heads import is_dicom
from penstock.core.images.wanted import UnreadFileError, WantedPixels
from penstock.core.installing import pip_install
from penstock.core.limits import Limits

#: How many first bytes tell the kind of a file.
HEAD_BYTES = 132


@dataclass(frozen=True)
class Kind:
    """A kind of file. open: makes of it the image that is wanted, whose pixels are decoded later; ImportError where the library is missing. install: what to give pip then."""

    name: str
    open: Callable[[io.BytesIO, WantedPixels], Any]
    install: tuple[str, ...]


# The libraries' classes, not Image.open: that knows what a program has registered, and has limits of its own.


def _avif(file: io.BytesIO, _: WantedPixels) -> Any:
    from PIL.AvifImagePlugin import SUPPORTED, AvifImageFile

    if not SUPPORTED:
        raise ImportError("this Pillow was built without AVIF")
    return AvifImageFile(file)


def _jpeg_2000(file: io.BytesIO, _: WantedPixels) -> Any:
    from PIL.Jpeg2KImagePlugin import Jpeg2KImageFile

    return Jpeg2KImageFile(file)


def _heif(file: io.BytesIO, _: WantedPixels) -> Any:
    from pillow_heif import HeifImageFile

    opened: Any = HeifImageFile  # its signature is not typed
    return opened(file)


def _dicom(file: io.BytesIO, wanted: WantedPixels) -> Any:
    from penstock.core.images.dicom import DicomImage

    return DicomImage(file, wanted)


_AVIF = Kind("AVIF", _avif, ("--upgrade", "pillow"))
_JPEG_2000 = Kind("JPEG 2000", _jpeg_2000, ("--upgrade", "pillow"))
_HEIF = Kind("HEIF", _heif, ("pillow-heif",))
_DICOM = Kind("DICOM", _dicom, ("pydicom",))

#: The brands in the first box of files that are made of boxes; AVIF's before HEIF's, which are in both.
_BRANDS = {
    _AVIF: {b"avif", b"avis"},
    _HEIF: {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs", b"mif1", b"msf1"},
}


def kind_of(head: bytes) -> Kind | None:
    """The kind of a file that begins so; None for what no library is asked for."""
    if head[4:8] == b"ftyp":
        end = min(int.from_bytes(head[:4], "big"), HEAD_BYTES)
        brands = {head[at : at + 4] for at in (8, *range(16, end, 4))}
        return next((kind for kind, known in _BRANDS.items() if known & brands), None)
    if is_dicom(head):
        return _DICOM
    return _JPEG_2000 if head.startswith((b"\0\0\0\x0cjP  ", b"\xff\x4f\xff\x51")) else None


def readable_head(data: bytes) -> bytes:
    """A file as it is, or for one that a library decodes the head of a PNG that says what is in it. Raises UnreadFileError."""
    kind = kind_of(data[:HEAD_BYTES])
    return data if kind is None else _png(*_described(_opened(data, kind, WantedPixels(is_wide=True)), kind))


def as_png(data: bytes, kind: Kind, limits: Limits, wanted: WantedPixels) -> bytes:
    """A file that a library decodes, as a PNG of its pixels. Raises UnreadFileError, for a file above the limits before its pixels are decoded."""
    image = _opened(data, kind, wanted)
    size, mode, orientation = _described(image, kind)
    _check_size(size, mode, len(data), kind, limits)
    try:
        image.load()
        pixels = np.asarray(image if image.mode == mode else image.convert(mode))
    except MemoryError:
        raise UnreadFileError(
            f"a {kind.name} image of {size[0]} × {size[1]} pixels, for which this process has not enough memory",
            "give the process more memory, or refuse such images with Limits(image_bytes=…)",
        ) from None
    except UnreadFileError:
        raise
    except Exception as error:
        raise _damaged(kind, error) from error
    if pixels.shape[:2] != size[::-1]:
        raise _damaged(kind, f"{pixels.shape[1]} × {pixels.shape[0]} pixels, and a header that states others")
    return _png(size, mode, orientation, pixels)


def _damaged(kind: Kind, why: Any) -> UnreadFileError:
    return UnreadFileError(f"a damaged {kind.name} file ({' '.join(str(why).split())})", "replace the file")


def _opened(data: bytes, kind: Kind, wanted: WantedPixels) -> Any:
    try:
        return kind.open(io.BytesIO(data), wanted)
    except UnreadFileError:
        raise
    except ImportError as error:
        raise UnreadFileError(
            f"an image in a {kind.name} file, whose library cannot be imported ({error})",
            f"install it with {pip_install(*kind.install)}, or convert such files",
        ) from error
    except Exception as error:
        raise _damaged(kind, error) from error


#: PNG's numbers for what a pixel is made of, by Pillow's mode.
_COLOURS = {"L": 0, "LA": 4, "RGB": 2, "RGBA": 6, "I;16": 0}


def _described(image: Any, kind: Kind) -> tuple[tuple[int, int], str, int]:
    """An image's (width, height), the mode in which a PNG has it, and its orientation."""
    if 0 in image.size:
        raise _damaged(kind, f"its header states {image.size[0]} × {image.size[1]} pixels")
    mode = image.mode if image.mode in _COLOURS else "RGBA" if image.has_transparency_data else "RGB"
    orientation = 1
    with suppress(Exception):  # damaged EXIF says nothing
        orientation = int(image.getexif().get(0x0112, 1))
    return image.size, mode, orientation if 1 <= orientation <= 8 else 1


#: Images up to this size need no proof that they are not made to fill the memory.
_UNSUSPICIOUS_BYTES = 256 << 20


def _check_size(size: tuple[int, int], mode: str, stored: int, kind: Kind, limits: Limits) -> None:
    """UnreadFileError for an image that is above the limits; as native code says it of its own."""
    width, height = size
    pixels = width * height
    decoded = pixels * (2 if mode == "I;16" else len(mode))
    if pixels > limits.pixels:
        raise UnreadFileError(
            f"a {kind.name} header that states {width} × {height} = {pixels} pixels, above the limit of {limits.pixels}",
            "raise Limits(pixels=…) if such images are expected",
        )
    if decoded > limits.image_bytes:
        raise UnreadFileError(
            f"a {kind.name} image of {width} × {height} pixels that takes {decoded} bytes decoded, above the limit of {limits.image_bytes}",
            "raise Limits(image_bytes=…) if such images are expected",
        )
    if decoded > max(_UNSUSPICIOUS_BYTES, limits.ratio * stored):
        raise UnreadFileError(
            f"a {kind.name} image of {width} × {height} pixels in {stored} bytes, which would become {decoded}: more than {limits.ratio} times as many",
            "raise Limits(ratio=…) if such images are expected",
        )


#: A chunk of a PNG may have 2³¹ − 1 bytes.
_CHUNK_BYTES = 1 << 30


def _png(size: tuple[int, int], mode: str, orientation: int, pixels: npt.NDArray[Any] | None = None) -> bytes:
    """A PNG that is not compressed; without pixels, its head."""
    header = struct.pack(">IIBBBBB", *size, 16 if mode == "I;16" else 8, _COLOURS[mode], 0, 0, 0)
    exif = b"MM\0*" + struct.pack(">IHHHIHHI", 8, 1, 0x0112, 3, 1, orientation, 0, 0)
    chunks = [(b"IHDR", header), (b"eXIf", exif)]
    if pixels is not None:
        of_rows = (pixels.astype(">u2").view(np.uint8) if mode == "I;16" else pixels).reshape(size[1], -1)
        filtered = np.zeros((size[1], 1 + of_rows.shape[1]), np.uint8)  # by filter 0, which is none
        filtered[:, 1:] = of_rows
        data = zlib.compress(filtered.data, 0)
        chunks += [(b"IDAT", data[at : at + _CHUNK_BYTES]) for at in range(0, len(data), _CHUNK_BYTES)]
    chunks.append((b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        part
        for name, data in chunks
        for part in (struct.pack(">I", len(data)), name, data, struct.pack(">I", zlib.crc32(data, zlib.crc32(name))))
    )
