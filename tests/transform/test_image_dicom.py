"""DICOM by pydicom: its own files and its own rescaling, windows and palettes, and what is said of files that are no single image."""

from __future__ import annotations

import io
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pydicom
import pytest
from pydicom.data import get_testdata_file
from pydicom.dataset import Dataset
from pydicom.pixels import apply_color_lut, apply_modality_lut, apply_voi, apply_windowing, pixel_array
from pydicom.sequence import Sequence

import penstock as ps
from penstock.core.columns.spec import Field
from penstock.core.errors import DataError, PlanError, RowError
from penstock.core.images import dicom
from penstock.core.limits import Limits
from penstock.format.media.folder import IMAGES
from penstock.transform import image as I  # noqa: N812
from penstock.transform.image import fuse
from penstock.transform.image.recipes.one_image import decoded
from support.images import encoded, picture
from support.tries import tries

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:pydicom")

#: Grey of 16 bits with a window of its own: signed, rescaled, as JPEG 2000, RLE or bytes in both orders, of which some begin as a TIFF.
WINDOWED = (
    "MR_small.dcm",
    "MR_small_RLE.dcm",
    "MR_small_bigendian.dcm",
    "MR_small_implicit.dcm",
    "MR_small_jp2klossless.dcm",
    "693_J2KI.dcm",
    "J2K_pixelrep_mismatch.dcm",
    "examples_overlay.dcm",
)
COLOURS = (
    "SC_rgb_dcmtk_+eb+cr.dcm",
    "SC_rgb_dcmtk_+eb+cy+s4.dcm",
    "SC_rgb_jpeg_lossy_gdcm.dcm",
    "SC_rgb_rle.dcm",
    "SC_rgb_small_odd.dcm",
    "SC_rgb_small_odd_big_endian.dcm",
    "SC_rgb_gdcm_KY.dcm",
    "SC_ybr_full_422_uncompressed.dcm",
    "ExplVR_BigEnd.dcm",
    "examples_rgb_color.dcm",
    "examples_jpeg2k.dcm",
)


def file(name: str) -> bytes:
    """One that comes with pydicom."""
    path = get_testdata_file(name, download=False)
    assert isinstance(path, str)
    return Path(path).read_bytes()


def read(data: bytes) -> Any:
    return pydicom.dcmread(io.BytesIO(data))


def changed(name: str, **fields: Any) -> bytes:
    """The file with other values; None takes one away."""
    dataset = read(file(name))
    for field, value in fields.items():
        if value is None:
            delattr(dataset, field)
        else:
            setattr(dataset, field, value)
    out = io.BytesIO()
    dataset.save_as(out)
    return out.getvalue()


def rescaled(data: bytes) -> npt.NDArray[Any]:
    dataset = read(data)
    return np.asarray(apply_modality_lut(pixel_array(dataset), dataset))


def by_pydicom(data: bytes, **window: Any) -> npt.NDArray[np.float64]:
    """Through the file's window, or another: 0 is black and 1 is white. What pydicom gives has the range of the file's bits."""
    dataset = read(data)
    for field, value in window.items():
        setattr(dataset, field, value)
    shown = apply_windowing(apply_modality_lut(pixel_array(dataset), dataset), dataset)
    most = 1 << dataset.BitsStored
    ends = np.array([-most // 2, most // 2 - 1] if dataset.PixelRepresentation else [0, most - 1])
    low, high = apply_modality_lut(ends, dataset)
    return np.asarray((shown - low) / (high - low))


def through(data: bytes, **how: Any) -> npt.NDArray[Any]:
    """Decoded, of grey the one channel."""
    found = decoded(data, I.Decode(**how))
    return found[..., 0] if found.shape[2] == 1 else found


class TestGrey:
    @pytest.mark.parametrize("name", WINDOWED)
    def test_the_files_window_is_pydicoms(self, name: str) -> None:
        wanted = by_pydicom(file(name))
        found = through(file(name), mode="L")
        assert np.abs(found - wanted * 255).max() <= 0.501  # rounded
        assert len(np.unique(found)) > 20
        wide = through(file(name), mode="I16", window="file")
        assert np.abs(wide - wanted * 65_535).max() <= 0.501
        assert np.array_equal(through(file(name)), np.dstack([found] * 3))

    @pytest.mark.filterwarnings("ignore:overflow encountered in exp")  # in pydicom
    @pytest.mark.parametrize("function", ["LINEAR", "LINEAR_EXACT", "SIGMOID"])
    @pytest.mark.parametrize(("center", "width"), [(40.0, 400.0), (-600.0, 1500.5), (1024.0, 2.0), (900.5, 1.0)])
    def test_windows_of_any_function(self, function: str, center: float, width: float) -> None:
        window = {"WindowCenter": center, "WindowWidth": width, "VOILUTFunction": function}
        wanted = by_pydicom(file("CT_small.dcm"), **window)
        data = changed("CT_small.dcm", **window)
        assert np.abs(through(data, mode="L") - wanted * 255).max() <= 0.501
        if function == "LINEAR":
            assert np.array_equal(through(data, mode="L", window=(center, width)), through(data, mode="L"))

    @pytest.mark.parametrize("name", ["CT_small.dcm", "693_J2KI.dcm", "examples_overlay.dcm"])
    def test_a_window_of_all_numbers_keeps_them(self, name: str) -> None:
        """Hounsfield units, plus 32,768: what `Decode` says of (0, 65536)."""
        found = through(file(name), mode="I16", window=(0, 65_536))
        assert found.dtype == np.uint16
        assert np.array_equal(found.astype(int) - 32_768, rescaled(file(name)))

    def test_grey_that_uint16_holds_is_as_the_file_has_it(self) -> None:
        """Its window is for looking."""
        for mode in ("I16", "unchanged"):
            assert np.array_equal(
                through(file("examples_overlay.dcm"), mode=mode), rescaled(file("examples_overlay.dcm"))
            )
        shifted = changed("examples_overlay.dcm", RescaleSlope="2", RescaleIntercept="7")
        assert np.array_equal(through(shifted, mode="I16"), rescaled(shifted))

    def test_masks_of_one_bit_and_bytes_keep_their_numbers(self) -> None:
        assert np.array_equal(through(file("liver_1frame.dcm"), mode="L"), pixel_array(read(file("liver_1frame.dcm"))))
        dataset = read(file("SC_rgb_rle.dcm"))
        pixels = np.random.default_rng(0).integers(0, 256, (100, 100), np.uint8)
        dataset.decompress()
        dataset.PhotometricInterpretation, dataset.SamplesPerPixel, dataset.PixelData = (
            "MONOCHROME2",
            1,
            pixels.tobytes(),
        )
        out = io.BytesIO()
        dataset.save_as(out)
        assert np.array_equal(through(out.getvalue(), mode="unchanged"), pixels)
        dataset.WindowCenter, dataset.WindowWidth = 50, 20
        out = io.BytesIO()
        dataset.save_as(out)
        assert np.array_equal(through(out.getvalue(), mode="I16"), pixels)
        assert np.abs(through(out.getvalue(), mode="L") - by_pydicom(out.getvalue()) * 255).max() <= 0.501

    @pytest.mark.parametrize(("how", "most"), [({"mode": "L"}, 255), ({"mode": "I16", "window": "full"}, 65_535)])
    def test_low_is_white_in_monochrome1(self, how: dict[str, Any], most: int) -> None:
        inverted = changed("MR_small.dcm", PhotometricInterpretation="MONOCHROME1")
        difference = through(inverted, **how) + through(file("MR_small.dcm"), **how).astype(int) - most
        assert np.abs(difference).max() <= 1  # halves are rounded to even numbers
        plain = changed("examples_overlay.dcm", PhotometricInterpretation="MONOCHROME1")
        assert np.array_equal(through(plain, mode="I16"), 4095 - rescaled(plain))

    def test_full_is_all_that_the_bits_can_state(self) -> None:
        found = through(file("examples_overlay.dcm"), mode="L", window="full")
        assert np.array_equal(found, np.rint(rescaled(file("examples_overlay.dcm")) / 4095 * 255))

    def test_tables_of_values_and_of_shades(self) -> None:
        """Modality and VOI LUTs, which go before slopes and windows."""
        modality, shades = Dataset(), Dataset()
        modality.LUTDescriptor, modality.LUTData, modality.ModalityLUTType = (
            [4096, 0, 16],
            list(range(60_000, 55_904, -1)),
            "US",
        )
        modality["LUTDescriptor"].VR = modality["LUTData"].VR = "US"
        shades.LUTDescriptor, shades.LUTData = [4096, 56_000, 12], [number // 2 for number in range(4096)]
        shades["LUTDescriptor"].VR = shades["LUTData"].VR = "US"
        dataset = read(file("examples_overlay.dcm"))
        dataset.ModalityLUTSequence, dataset.VOILUTSequence = Sequence([modality]), Sequence([shades])
        out = io.BytesIO()
        dataset.save_as(out)
        again = read(out.getvalue())
        numbers = apply_modality_lut(pixel_array(again), again)
        assert np.array_equal(through(out.getvalue(), mode="I16"), numbers)
        wanted = apply_voi(numbers, again) / 4095
        assert np.array_equal(through(out.getvalue(), mode="L"), np.rint(wanted * 255))
        assert wanted.max() > 0.3

    def test_mixed_with_other_files_it_is_the_same(self, tmp_path: Path) -> None:
        """A file that begins as a TIFF is DICOM before and after others of its kind were met, and in folders."""
        names = ["MR_small.dcm", "CT_small.dcm", "MR_small_RLE.dcm"]
        records = [*map(file, names), encoded(picture(70, 70), "TIFF"), encoded(picture(70, 70), "JPEG")]
        kernel = fuse([I.Decode(mode="L", window=(300, 900)), I.CenterCrop(64)], Field("bytes"), lambda: (1, 1))
        for _ in range(2):
            out = np.zeros((5, 1, 64, 64), np.uint8)
            kernel(ps_array(records), np.arange(5), key=0, out=out, threads=2)
            for row in (0, 2):
                assert np.array_equal(out[row, 0], through(records[row], mode="L", window=(300, 900)))
        for name in names:
            assert IMAGES.matches(file(name)[:512])
            (tmp_path / name).write_bytes(file(name))
        plan = ps.read(str(tmp_path / "*.dcm")).transform(
            image=[I.Decode(mode="I16", window=(0, 65_536)), I.Resize((32, 32))]
        )
        (batch,) = ps.Loader(plan.batch(3))
        assert batch["image"].shape == (3, 1, 32, 32)
        assert batch["image"].min() > 30_000


def ps_array(records: list[bytes]) -> Any:
    import pyarrow as pa

    return pa.array(records, pa.large_binary())


class TestColours:
    @pytest.mark.parametrize("name", COLOURS)
    def test_are_pydicoms(self, name: str) -> None:
        assert np.array_equal(through(file(name), mode="unchanged"), pixel_array(read(file(name))))

    def test_of_16_bits_the_upper_8_count(self) -> None:
        data = file("SC_rgb_rle_16bit.dcm")
        assert np.array_equal(through(data, mode="RGB"), pixel_array(read(data)) >> 8)

    def test_palettes_are_looked_up(self) -> None:
        dataset = read(file("examples_palette.dcm"))
        wanted = apply_color_lut(pixel_array(dataset), dataset)
        assert wanted.dtype == np.uint16
        assert np.array_equal(through(file("examples_palette.dcm"), mode="RGB"), wanted >> 8)


class TestRefused:
    @pytest.mark.parametrize(
        ("name", "how", "says"),
        [
            ("CT_small.dcm", {}, r"grey from -33792 to 31743 that says no window; say Decode\(window="),
            ("CT_small.dcm", {"mode": "I16"}, r"which uint16 does not hold; .*window=\(0, 65536\)"),
            ("CT_small.dcm", {"mode": "unchanged"}, "which uint16 does not hold"),
            ("CT_small.dcm", {"mode": "L", "window": "file"}, "that says no window"),
            ("rtdose_1frame.dcm", {"mode": "L"}, "that says no window"),
            ("rtdose.dcm", {}, r"15 frames; write each as a file, or read them with pydicom in map_rows\(\)"),
            ("SC_rgb_rle_2frame.dcm", {}, "2 frames"),
            ("rtplan.dcm", {}, "without an image"),
            ("SC_rgb_rle_32bit.dcm", {}, "3 samples of 32 in 32 bits"),
            ("image_dfl.dcm", {}, "deflated as a whole"),
            (
                "JPEGLSNearLossless_16.dcm",
                {},
                "a DICOM file of JPEG-LS Lossy .* does not decode with what is installed",
            ),
            ("JPEG-lossy.dcm", {}, "a DICOM file of JPEG Extended .* does not decode with what is installed"),
            ("MR_truncated.dcm", {}, "a damaged DICOM file"),
            ("badVR.dcm", {}, "a damaged DICOM file"),
            ("MR_small.dcm", {"mode": "P"}, "a grey DICOM image, which has no palette"),
        ],
    )
    def test_what_it_is_and_what_to_do(self, name: str, how: dict[str, Any], says: str) -> None:
        with pytest.raises(DataError, match=says):
            decoded(file(name), I.Decode(**how))

    @pytest.mark.parametrize(
        ("fields", "says"),
        [
            ({"WindowWidth": 0}, "the centre 600 and the width 0; say Decode"),
            ({"WindowWidth": "-3"}, "the width -3"),
            ({"VOILUTFunction": "CUBIC"}, r"of an unknown kind \(CUBIC\)"),
            ({"RescaleSlope": "0", "RescaleIntercept": "5"}, "whose rescale makes 5"),
            ({"PhotometricInterpretation": "XYZ"}, "pixels that are not read"),
            ({"BitsStored": 17}, "pixels that are not read"),
            ({"Rows": 0}, "states 64 × 0 pixels"),
            ({"Rows": 65}, "a damaged DICOM file"),
            ({"BitsStored": None}, "a damaged DICOM file"),
        ],
    )
    def test_headers_that_make_no_sense(self, fields: dict[str, Any], says: str) -> None:
        with pytest.raises(DataError, match=says):
            decoded(changed("MR_small.dcm", **fields), I.Decode())

    @pytest.mark.parametrize("name", ["SC_rgb_dcmtk_+eb+cr.dcm", "examples_jpeg2k.dcm"])
    def test_the_size_inside_is_the_size_outside(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        data = changed(name, Rows=7, Columns=9)
        monkeypatch.setattr(dicom, "pixel_array", None)
        with pytest.raises(DataError, match=r"9 × 7 pixels, and \d+ × \d+ in the JPEG that it holds"):
            decoded(data, I.Decode())

    @pytest.mark.parametrize(
        ("limits", "says"),
        [(Limits(pixels=4095), "states 64 × 64 = 4096 pixels"), (Limits(image_bytes=4095), "takes 4096 bytes decoded")],
    )
    def test_limits_are_checked_before_pixels_are_decoded(
        self, limits: Limits, says: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(dicom, "pixel_array", None)
        kernel = fuse([I.Decode(), I.CenterCrop(4)], Field("bytes"), lambda: (1, 1), limits=limits)
        with pytest.raises(RowError, match=says):
            kernel(
                ps_array([file("MR_small.dcm")]),
                np.zeros(1, int),
                key=0,
                out=np.zeros((1, 3, 4, 4), np.uint8),
                threads=1,
            )

    @pytest.mark.parametrize(
        "window", [(1, 2, 3), (0, 0.5), (float("nan"), 5), (0, float("inf")), "lungs", 40, ("a", "b")]
    )
    def test_windows_that_are_none(self, window: Any) -> None:
        with pytest.raises(PlanError, match=r"window|width|float"):
            I.Decode(window=window)

    def test_a_missing_library_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "penstock.core.images.dicom", None)
        with pytest.raises(DataError, match="pip install pydicom"):
            decoded(file("MR_small.dcm"), I.Decode())

    @pytest.mark.parametrize("name", ["MR_small_RLE.dcm", "SC_rgb_small_odd_jpeg.dcm", "examples_overlay.dcm"])
    def test_any_cut_and_any_flipped_byte_is_an_error_or_an_image(self, name: str) -> None:
        data, random = file(name), np.random.default_rng(3)
        for number in range(tries(400, at_least=30)):
            bad = bytearray(data[: int(random.integers(140, len(data)))] if number % 2 else data)
            for _ in range(1 + number % 3):
                bad[int(random.integers(132, min(len(bad), 2_000)))] ^= int(random.integers(1, 256))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    assert decoded(bytes(bad), I.Decode(window="full")).size
                except DataError as error:
                    assert len(str(error)) > 20  # noqa: PT017
