"""DICOM files, by pydicom: one frame of grey, of colours or of a palette, as 8 or 16 bits.

Grey goes the way that the standard says (PS3.3 C.11): the file's numbers, through its rescale (the modality LUT), through a window, to what is shown; then it is
inverted where the file says that low is white.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from pydicom import dcmread
from pydicom.encaps import get_frame
from pydicom.filereader import read_dataset
from pydicom.pixels.decoders.base import get_decoder
from pydicom.pixels.processing import apply_color_lut, apply_modality_lut, apply_voi
from pydicom.pixels.utils import pixel_array
from pydicom.uid import (
    UID,
    DeflatedExplicitVRLittleEndian,
    JPEG2000TransferSyntaxes,
    JPEGBaseline8Bit,
    JPEGExtended12Bit,
)

from penstock.core import kernels
from penstock.core.images.by_library import readable_head
from penstock.core.images.wanted import UnreadFileError, WantedPixels

_GREY = ("MONOCHROME1", "MONOCHROME2")
_COLOURS = ("RGB", "YBR_FULL", "YBR_FULL_422", "YBR_RCT", "YBR_ICT")
_META_AT = 132
_META_GROUP = 2
#: Numbers of up to so many bits go through a table of all of them.
_TABLE_BITS = 16
_WIDE, _BYTE = 65_535, 255


class DicomImage:
    """A file, as Pillow has images: its size (width, height) and mode, and its pixels once they are loaded."""

    def __init__(self, file: io.BytesIO, wanted: WantedPixels) -> None:
        dataset = _read(file)
        self._dataset, self._wanted = dataset, wanted
        self._bits = int(dataset.BitsStored)
        self._is_signed = bool(dataset.get("PixelRepresentation", 0))
        self.size = int(dataset.Columns), int(dataset.Rows)
        self.mode = "L" if dataset.PhotometricInterpretation in _GREY else "RGB"
        if self.mode == "L" and wanted.is_wide and not self._is_byte():
            self.mode = "I;16"
        self._pixels: npt.NDArray[Any] | None = None

    def getexif(self) -> dict[int, int]:
        """Nothing: DICOM has none."""
        return {}

    def load(self) -> None:
        """Decodes the pixels."""
        _check_frame(self._dataset)
        stored = pixel_array(self._dataset)  # RGB where the file has YCbCr
        shown = self._grey(stored) if self._dataset.PhotometricInterpretation in _GREY else self._colours(stored)
        self._pixels = np.ascontiguousarray(shown)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        assert self._pixels is not None
        return self._pixels

    def _colours(self, stored: npt.NDArray[Any]) -> npt.NDArray[Any]:
        bits = self._bits
        if self._dataset.PhotometricInterpretation == "PALETTE COLOR":
            stored = apply_color_lut(stored, self._dataset)[..., :3]
            bits = stored.itemsize * 8
        return stored if bits <= 8 else (stored >> (bits - 8)).astype(np.uint8)

    def _grey(self, stored: npt.NDArray[Any]) -> npt.NDArray[Any]:
        shown = self._shown()
        bits = stored.itemsize * 8
        if bits > _TABLE_BITS:
            return shown(stored)
        places = stored.view(f"u{stored.itemsize}")
        table = shown(np.arange(1 << bits, dtype=places.dtype).view(stored.dtype))
        found: npt.NDArray[Any] = table[places]
        return found

    def _is_byte(self) -> bool:
        """Whether the file has bytes that stand for themselves, and no window is asked for."""
        return self._wanted.window is None and self._bits <= 8 and self._range() == (0, (1 << self._bits) - 1)

    def _range(self) -> tuple[float, float]:
        """The least and the greatest number that the file's bits can state, behind its rescale."""
        most = 1 << self._bits
        ends = (-most // 2, most // 2 - 1) if self._is_signed else (0, most - 1)
        if luts := self._dataset.get("ModalityLUTSequence"):
            return 0.0, float((1 << int(luts[0].LUTDescriptor[2])) - 1)
        low, high = sorted(map(float, apply_modality_lut(np.array(ends, np.int64), self._dataset)))
        if not np.isfinite([low, high]).all() or low == high:
            raise UnreadFileError(
                f"a DICOM file whose rescale makes {low} to {high} of {ends[0]} to {ends[1]}", "replace the file"
            )
        return low, high

    def _shown(self) -> Callable[[npt.NDArray[Any]], npt.NDArray[Any]]:
        """What numbers of the file become."""
        low, high = self._range()
        is_inverted = self._dataset.PhotometricInterpretation == "MONOCHROME1"
        window = self._window(low, high)
        dtype = np.uint16 if self.mode == "I;16" else np.uint8
        most = _WIDE if self.mode == "I;16" else _BYTE

        def shown(stored: npt.NDArray[Any]) -> npt.NDArray[Any]:
            rescaled = apply_modality_lut(stored, self._dataset)
            if window is None:
                whole = np.clip(rescaled, low, high)
                return np.asarray(low + high - whole if is_inverted else whole, dtype)
            fraction = np.clip(window(rescaled), 0, 1)
            return np.asarray(np.rint((1 - fraction if is_inverted else fraction) * most), dtype)

        return shown

    def _window(self, low: float, high: float) -> Callable[[npt.NDArray[Any]], npt.NDArray[Any]] | None:
        """How black (0) to white (1) the rescaled numbers are; None where they stand for themselves."""
        asked, dataset = self._wanted.window, self._dataset
        if isinstance(asked, tuple):
            return _window("LINEAR", *asked)
        if asked == "full":
            return lambda numbers: (numbers - low) / (high - low)
        if asked is None and self._wanted.is_wide:
            self._check_whole(low, high)
            return None
        if luts := dataset.get("VOILUTSequence"):
            most = (1 << int(luts[0].LUTDescriptor[2])) - 1
            return lambda numbers: apply_voi(np.rint(numbers).astype(np.int64), dataset) / most
        if dataset.get("WindowCenter") is not None and dataset.get("WindowWidth") is not None:
            center, width = _first(dataset.WindowCenter), _first(dataset.WindowWidth)
            return _window(str(dataset.get("VOILUTFunction", "LINEAR")).upper(), center, width)
        if asked is None and self._is_byte():
            return None
        raise UnreadFileError(
            f"a DICOM file of grey from {low:g} to {high:g} that says no window",
            "say Decode(window=(center, width)), in numbers behind the file's rescale, such as (40, 400) in Hounsfield units, or window='full'",
        )

    def _check_whole(self, low: float, high: float) -> None:
        """UnreadFileError for numbers that a uint16 does not hold."""
        slope = float(self._dataset.get("RescaleSlope") or 1)
        if low < 0 or high > _WIDE or not low.is_integer() or not slope.is_integer():
            raise UnreadFileError(
                f"a DICOM file of grey from {low:g} to {high:g} (slope {slope:g}), which uint16 does not hold",
                "say what becomes 0 to 65,535: Decode(mode='I16', window=(0, 65536)) keeps whole numbers and adds 32,768 to them",
            )


def _read(file: io.BytesIO) -> Any:
    """What a file says, its pixels still encoded; UnreadFileError for one that holds no image, several, or one of a kind that is not read."""
    file.seek(_META_AT)
    meta = read_dataset(file, False, True, stop_when=lambda tag, *_: tag >> 16 != _META_GROUP)
    if meta.get("TransferSyntaxUID") == DeflatedExplicitVRLittleEndian:
        raise UnreadFileError("a DICOM file that is deflated as a whole", "write it with another transfer syntax")
    file.seek(0)
    dataset = dcmread(file)
    if "PixelData" not in dataset or "Rows" not in dataset:
        what = "of floating-point pixels" if "FloatPixelData" in dataset else "without an image"
        raise UnreadFileError(f"a DICOM file {what}", "filter such files out, or read them with pydicom in map_rows()")
    frames = int(dataset.get("NumberOfFrames") or 1)
    if frames != 1:
        raise UnreadFileError(
            f"a DICOM file of {frames} frames", "write each as a file, or read them with pydicom in map_rows()"
        )
    _check_kind(dataset)
    return dataset


def _check_kind(dataset: Any) -> None:
    kind, samples = dataset.PhotometricInterpretation, int(dataset.SamplesPerPixel)
    allocated, stored = int(dataset.BitsAllocated), int(dataset.BitsStored)
    is_grey = kind in _GREY and samples == 1 and allocated in (1, 8, 16, 32)
    is_palette = kind == "PALETTE COLOR" and samples == 1 and allocated in (8, 16)
    is_colour = kind in _COLOURS and samples == 3 and allocated in (8, 16)
    if not (is_grey or is_palette or is_colour) or not 1 <= stored <= allocated:
        raise UnreadFileError(
            f"a DICOM file of pixels that are not read ({kind}, {samples} samples of {stored} in {allocated} bits)",
            "convert it to grey or RGB of 8 or 16 bits",
        )
    syntax = dataset.file_meta.TransferSyntaxUID
    if not _decodes(syntax, stored):
        raise UnreadFileError(
            f"a DICOM file of {UID(syntax).name}, which pydicom does not decode with what is installed",
            "install one of pydicom's plug-ins for it, or write the file with another transfer syntax",
        )


def _decodes(syntax: str, bits: int) -> bool:
    """Whether pydicom has what it needs for a transfer syntax; Pillow has no JPEGs of 12 bits."""
    try:
        decoder = get_decoder(syntax)
    except NotImplementedError:
        return False
    if syntax == JPEGExtended12Bit and bits > 8:
        return any(plugin != "pillow" for plugin in decoder.available_plugins)
    return decoder.is_available


def _check_frame(dataset: Any) -> None:
    """ValueError where the JPEG inside states another size than the file around it: nothing is decoded that is larger."""
    syntax = dataset.file_meta.TransferSyntaxUID
    if syntax != JPEGBaseline8Bit and syntax not in JPEG2000TransferSyntaxes:
        return
    frame = get_frame(dataset.PixelData, 0, number_of_frames=1)
    width, height, _ = kernels.image_info(readable_head(frame))
    if (width, height) != (dataset.Columns, dataset.Rows):
        raise ValueError(f"{dataset.Columns} × {dataset.Rows} pixels, and {width} × {height} in the JPEG that it holds")


def _window(function: str, center: float, width: float) -> Callable[[npt.NDArray[Any]], npt.NDArray[Any]]:
    """The standard's functions (PS3.3 C.11.2.1.2 and C.11.2.1.3), black at 0 and white at 1."""
    if not np.isfinite([center, width]).all() or width < (1 if function == "LINEAR" else 0) or width == 0:
        raise UnreadFileError(
            f"a DICOM file whose window has the centre {center:g} and the width {width:g}",
            "say Decode(window=(center, width))",
        )
    if function == "SIGMOID":
        return lambda numbers: (
            0.5 + 0.5 * np.tanh(2 * (numbers - center) / width)
        )  # 1 / (1 + exp(-4 …)), which cannot overflow
    if function not in ("LINEAR", "LINEAR_EXACT"):
        raise UnreadFileError(
            f"a DICOM file whose window is of an unknown kind ({function})", "say Decode(window=(center, width))"
        )
    if function == "LINEAR":
        center, width = center - 0.5, width - 1
    if width == 0:  # one step
        return lambda numbers: (numbers > center).astype(np.float64)
    return lambda numbers: (numbers - center) / width + 0.5


def _first(value: Any) -> float:
    """A number, or the first of several."""
    return float(value if isinstance(value, (str, float, int)) or not hasattr(value, "__getitem__") else value[0])
