"""Images by other encoders (tests/golden/make_images.py): the pixels that Pillow decodes, or an error that says what the file is."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from penstock.core import kernels
from penstock.core.errors import RowError
from support.images import as_pillow

with zipfile.ZipFile(Path(__file__).parent.parent / "golden" / "images.zip") as archive:
    FILES = {name: archive.read(name) for name in archive.namelist()}
#: The largest difference to Pillow, where it is not 0: inks are multiplied with other rounding, lossy WebP is sampled up in another way.
TOLERANCE = {"cmyk.jpg": 1, "ycck.jpg": 2, "opencv.webp": 2}
#: Files of other formats; some that are named so in the archive are read by now.
REFUSED = {
    "refused-12-bits.jpg": "a JPEG of 12 bits a sample; store it with 8 bits",
    "refused-lossless.jpg": "a lossless JPEG .*; store it as a baseline or progressive JPEG",
    "refused-near-lossless.jls": r"a near-lossless \(JPEG-LS\) JPEG .*; store it as a baseline or progressive JPEG",
    "refused-2000.jp2": "a JPEG 2000 file.*convert",
    "refused-codestream.j2k": "a JPEG 2000 codestream.*convert",
    "refused-tifffile-big.tif": "a BigTIFF file.*convert",
    "refused-avif.avif": "an HEIC, AVIF or MP4 file.*convert",
    "refused-heif.heic": "an HEIC, AVIF or MP4 file.*convert",
}


@pytest.mark.filterwarnings("ignore:Palette images with Transparency")  # Pillow's
@pytest.mark.parametrize("name", [name for name in FILES if name not in REFUSED and not name.endswith(".jxl")])
def test_pixels_are_pillows(name: str) -> None:
    found, wanted = kernels.decode_image(FILES[name]), as_pillow(FILES[name])
    assert found.shape == wanted.shape
    assert np.abs(found.astype(int) - wanted.astype(int)).max() <= TOLERANCE.get(name, 0)


@pytest.mark.parametrize("name", [*REFUSED])
def test_other_formats_are_named(name: str) -> None:
    with pytest.raises((RowError, ValueError), match=REFUSED[name]):
        kernels.decode_image(FILES[name])
