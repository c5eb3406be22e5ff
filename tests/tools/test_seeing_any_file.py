"""Whatever looks at images opens every kind of file that training does: tables, pages, and `penstock inspect` with its contact sheet and `--decode`."""

from __future__ import annotations

import base64
import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pillow_heif
import pytest
from PIL import Image
from pydicom.data import get_testdata_file

import penstock as ps
from penstock.cli.opening import open_dataset
from penstock.cli.sheet import contact_sheet
from penstock.tools.decode_check import find_bad
from support.cli_runner import invoke
from support.images import encoded, picture

pillow_heif.register_heif_opener()


def _jxl() -> bytes:
    with zipfile.ZipFile(Path(__file__).parent.parent / "golden" / "jxl.zip") as archive:
        return archive.read("lossless-rgb.jxl")


def _dicom() -> bytes:
    path = get_testdata_file("examples_rgb_color.dcm", download=False)
    return Path(str(path)).read_bytes()


#: By ending: a file, its width and its height.
FILES = {
    "avif": (encoded(picture(67, 41), "AVIF"), 67, 41),
    "heic": (encoded(picture(67, 41), "HEIF"), 67, 41),
    "jp2": (encoded(picture(67, 41), "JPEG2000"), 67, 41),
    "tif": (encoded(picture(67, 41), "TIFF"), 67, 41),
    "jxl": (_jxl(), 67, 41),
    "dcm": (_dicom(), 320, 240),
}


@pytest.fixture(params=FILES)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, int, int]:
    data, width, height = FILES[request.param]
    for number in range(2):
        (tmp_path / f"{number}.{request.param}").write_bytes(data)
    return tmp_path, width, height


def test_tables_and_pages(folder: tuple[Path, int, int], tmp_path: Path) -> None:
    """Browsers show few of them: a page has PNGs."""
    path, width, height = folder
    dataset = ps.read(path)
    dataset.show(1, html=tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert f"image {width} × {height}, " in page
    (found,) = re.findall(r"data:image/png;base64,([^\"]+)", page)
    shown = Image.open(io.BytesIO(base64.b64decode(found)))
    assert np.asarray(shown).std() > 20


def test_inspect(folder: tuple[Path, int, int]) -> None:
    path, width, height = folder
    facts: Any = json.loads(invoke("inspect", str(path), "--json").stdout)
    assert facts["columns"]["image"]["holds"] == "images"
    assert facts["first_samples"][0]["image"].startswith(f"image {width} × {height}, ")


def test_the_contact_sheet(folder: tuple[Path, int, int]) -> None:
    tile = np.asarray(Image.open(io.BytesIO(contact_sheet(open_dataset([str(folder[0])])))))[20:100, 20:100]
    assert tile.std() > 10  # a file that is not decoded is all grey


def test_what_cannot_be_decoded_is_found(folder: tuple[Path, int, int]) -> None:
    path = folder[0]
    first = next(path.iterdir())
    (path / f"bad{first.suffix}").write_bytes(first.read_bytes()[:-300])
    dataset = open_dataset([str(path)])
    bad = list(find_bad(dataset.source, dataset.read_ranges, ["image"], threads=1))
    assert [Path(one.where).stem for one in bad] == ["bad"]
