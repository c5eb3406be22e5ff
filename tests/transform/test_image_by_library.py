"""AVIF, JPEG 2000 and HEIF, which libraries decode: their pixels, in every place where encoded images go, and what is said of files that cannot be read."""

from __future__ import annotations

import io
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pillow_heif
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import penstock as ps
from penstock.core.columns.spec import Field
from penstock.core.errors import RowError
from penstock.core.images import by_library
from penstock.core.images.encoded import image_mode
from penstock.core.limits import Limits
from penstock.format.media.folder import IMAGES, VIDEO
from penstock.transform import image as I  # noqa: N812
from penstock.transform.image import ImageKernel, fuse
from penstock.transform.image.decode import Decode
from penstock.transform.image.kernel import run_views
from penstock.transform.image.recipes.one_image import decoded
from support.images import encoded, picture

pillow_heif.register_heif_opener()
KINDS = ("AVIF", "JPEG2000", "HEIF")
GREY16 = Image.fromarray(np.random.default_rng(0).integers(0, 65_536, (41, 67), np.uint16))


def opened(data: bytes) -> Image.Image:
    """By the library."""
    return Image.open(io.BytesIO(data))


def saved(kind: str, image: Image.Image, **options: Any) -> bytes:
    return encoded(image, kind, **options)


def as_png(data: bytes) -> bytes:
    """The same pixels in a file that native code reads."""
    return encoded(opened(data), "PNG")


def translucent() -> Image.Image:
    image = picture(67, 41, mode="RGBA")
    image.putalpha(Image.fromarray(np.random.default_rng(1).integers(0, 256, (41, 67), np.uint8)))
    return image


def ran(kernel: ImageKernel, records: list[bytes], **how: Any) -> npt.NDArray[Any]:
    out = np.zeros((len(records), *(axis or 0 for axis in kernel.field.shape)), kernel.field.numpy_dtype)
    kernel(pa.array(records, pa.large_binary()), np.arange(len(records)), key=7, out=out, threads=2, **how)
    return out


def crops(limits: Limits | None = None) -> ImageKernel:
    ops = [Decode(), I.RandomResizedCrop(16), I.RandomHorizontalFlip()]
    return fuse(ops, Field("bytes"), lambda: (1, 1), limits=limits or Limits())


OF_2000_PIXELS = {kind: saved(kind, picture(50, 40)) for kind in KINDS}


def stored(path: Path, **columns: list[bytes]) -> ps.Dataset:
    pq.write_table(pa.table({name: pa.array(some, pa.large_binary()) for name, some in columns.items()}), path)
    return ps.read(str(path))


class TestPixels:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize(
        "image", [picture(67, 41, mode="L"), picture(67, 41), translucent()], ids=("L", "RGB", "RGBA")
    )
    def test_are_the_librarys(self, kind: str, image: Image.Image) -> None:
        data = saved(kind, image)
        wanted = opened(data)
        found = decoded(data, Decode(mode="unchanged"))
        assert np.array_equal(found, np.asarray(wanted).reshape(found.shape))
        assert np.array_equal(decoded(data, Decode(mode="RGB")), np.asarray(wanted.convert("RGB")))
        assert image_mode(data) == image.mode == wanted.mode

    def test_grey_with_alpha(self) -> None:
        data = saved("JPEG2000", translucent().convert("LA"))
        assert np.array_equal(decoded(data, Decode(mode="LA")), np.asarray(opened(data)))

    @pytest.mark.parametrize("kind", ["JPEG2000", "HEIF"])
    def test_16_bits(self, kind: str) -> None:
        data = saved(kind, GREY16)
        found = decoded(data, Decode(mode="unchanged"))
        assert found.dtype == np.uint16
        assert np.array_equal(found[..., 0], np.asarray(opened(data)))
        if kind == "JPEG2000":  # which is lossless
            assert np.array_equal(found[..., 0], np.asarray(GREY16))

    @pytest.mark.parametrize("name", ["avif.avif", "heif.heic", "2000.jp2", "codestream.j2k"])
    def test_files_of_other_writers(self, name: str) -> None:
        """From tests/golden/make_images.py; named so since native code refuses them."""
        with zipfile.ZipFile(Path(__file__).parent.parent / "golden" / "images.zip") as archive:
            data = archive.read(f"refused-{name}")
        assert np.array_equal(decoded(data, Decode()), np.asarray(opened(data).convert("RGB")))

    def test_codestreams(self) -> None:
        data = saved("JPEG2000", picture(67, 41), no_jp2=True)
        assert data[:4] == b"\xff\x4f\xff\x51"
        assert np.array_equal(decoded(data, Decode()), np.asarray(picture(67, 41)))

    @pytest.mark.parametrize("orientation", range(1, 9))
    def test_orientation(self, orientation: int) -> None:
        """An AVIF is turned where that is asked for; HEIF always, as its library does it."""
        exif = Image.Exif()
        exif[0x0112] = orientation
        turned: dict[str, Any] = {"exif": exif.tobytes()}
        avif, plain = saved("AVIF", picture(67, 41), **turned), saved("AVIF", picture(67, 41))
        assert np.array_equal(decoded(avif, Decode()), decoded(plain, Decode()))
        png = encoded(opened(plain), "PNG", **turned)
        assert np.array_equal(decoded(avif, Decode(apply_exif=True)), decoded(png, Decode(apply_exif=True)))
        heif = saved("HEIF", picture(67, 41), **turned)
        for apply_exif in (False, True):
            found = decoded(heif, Decode(apply_exif=apply_exif))
            assert found.shape[:2] == ((41, 67) if orientation < 5 else (67, 41))
            assert np.array_equal(found, np.asarray(opened(heif)))


class TestKernels:
    def test_rows_among_others_are_as_their_pngs(self) -> None:
        """Also in the next batch, where such files are expected, and on one without any."""
        kinds = (*KINDS, "JPEG", "PNG")
        records = [saved(kind, picture(50 + row, 40, row)) for row, kind in enumerate(kinds * 3)]
        as_native = [as_png(data) if kind in KINDS else data for data, kind in zip(records, kinds * 3, strict=True)]
        kernel, wanted = crops(), ran(crops(), as_native)
        for _ in range(2):
            assert np.array_equal(ran(kernel, records), wanted)
            assert np.array_equal(ran(kernel, records, every_row=True), wanted)
        assert np.array_equal(ran(kernel, as_native), wanted)

    def test_sizes_are_known_before(self) -> None:
        """Turned where the chain turns; 0 for what is damaged."""
        exif = Image.Exif()
        exif[0x0112] = 6
        avif = saved("AVIF", picture(50, 40), exif=exif.tobytes())
        records = pa.array([*OF_2000_PIXELS.values(), avif, avif[:200], encoded(picture(9, 8), "PNG")])
        for apply_exif, last in ((False, [40, 50]), (True, [50, 40])):
            kernel = fuse([Decode(apply_exif=apply_exif), I.CenterCrop(4)], Field("bytes"), lambda: (1, 1))
            assert kernel.sizes_at_start(records).tolist() == [[40, 50]] * 3 + [last, [0, 0], [8, 9]]

    def test_a_column_without_them_is_not_looked_at(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("penstock.transform.image.encoded_rows.kind_of", None)
        ran(crops(), [encoded(picture(30, 20), "JPEG")] * 3)

    def test_each_is_decoded_once_for_all_views(self, monkeypatch: pytest.MonkeyPatch) -> None:
        counted = list[int]()
        original = by_library.as_png
        monkeypatch.setattr(
            "penstock.transform.image.encoded_rows.as_png",
            lambda data, *how: (counted.append(1), original(data, *how))[1],
        )
        records = pa.array([saved(kind, picture(50, 40)) for kind in KINDS], pa.large_binary())
        kernels = [fuse([Decode(), I.RandomResizedCrop(size)], Field("bytes"), lambda: (1, 1)) for size in (8, 16)]
        outs = [np.zeros((3, 3, size, size), np.uint8) for size in (8, 16)]
        views = [(kernel, 7, out, None) for kernel, out in zip(kernels, outs, strict=True)]
        run_views(views, records, np.arange(3), threads=2)
        assert all(out.any(axis=(1, 2, 3)).all() for out in outs)
        assert len(counted) == 3

    def test_damaged_files_are_named_all(self) -> None:
        good = [saved(kind, picture(50 + row, 40, row)) for row, kind in enumerate((*KINDS, *KINDS, *KINDS))]
        bad = [data[: len(data) // 2] if 3 <= row < 6 else data for row, data in enumerate(good)]
        bad[7] = b"nothing"
        kernel, wanted = crops(), ran(crops(), good)
        out = np.zeros_like(wanted)
        for _ in range(2):
            with pytest.raises(RowError) as caught:
                kernel(pa.array(bad), np.arange(9), key=7, out=out, threads=2, every_row=True)
            assert [error.row for error in caught.value.every] == [3, 4, 5, 7]
            for error, name in zip(caught.value.every, ("AVIF", "JPEG 2000", "HEIF"), strict=False):
                assert f"a damaged {name} file (" in str(error)
            assert np.array_equal(out[[0, 1, 2, 6, 8]], wanted[[0, 1, 2, 6, 8]])
            with pytest.raises(RowError, match="row 3: a damaged AVIF file"):
                ran(kernel, bad)

    @pytest.mark.parametrize("kind", KINDS)
    def test_any_cut_and_any_flipped_byte_is_an_error_or_an_image(self, kind: str) -> None:
        data = saved(kind, picture(40, 30))
        random = np.random.default_rng(3)
        for number in range(60):
            bad = bytearray(data[: int(random.integers(12, len(data)))] if number % 2 else data)
            bad[int(random.integers(8, len(bad)))] ^= int(random.integers(1, 256))
            try:
                ran(crops(Limits(pixels=1 << 20)), [bytes(bad)])
            except RowError as error:
                assert len(error.found) > 20  # noqa: PT017

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize(
        ("limits", "says"),
        [
            (Limits(pixels=1_999), "states 50 × 40 = 2000 pixels, above the limit of 1999; raise Limits.pixels="),
            (Limits(image_bytes=5_999), "takes 6000 bytes decoded, above the limit of 5999; raise Limits.image_bytes="),
        ],
    )
    def test_limits_are_checked_before_pixels_are_decoded(
        self, kind: str, limits: Limits, says: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for one in (type(opened(saved(kind, picture(5, 5)))), Image.Image):
            monkeypatch.setattr(one, "load", None)
        with pytest.raises(RowError, match=says):
            ran(crops(limits), [OF_2000_PIXELS[kind]])

    def test_what_no_mode_holds_names_the_file_as_it_is(self) -> None:
        kernel = fuse([Decode(mode="P"), I.CenterCrop(4)], Field("bytes"), lambda: (1, 1))
        with pytest.raises(RowError, match="AVIF") as caught:
            ran(kernel, [saved("AVIF", picture(9, 9))])
        assert "PNG" not in str(caught.value)

    @pytest.mark.parametrize(
        ("kind", "modules", "install"),
        [
            ("AVIF", ["PIL.AvifImagePlugin"], "pip install --upgrade pillow"),
            ("JPEG2000", ["PIL.Jpeg2KImagePlugin"], "pip install --upgrade pillow"),
            ("HEIF", ["pillow_heif"], "pip install pillow-heif"),
        ],
    )
    def test_a_missing_library_is_named(
        self, kind: str, modules: list[str], install: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        data = saved(kind, picture(50, 40))
        for module in modules:
            monkeypatch.setitem(sys.modules, module, None)
        for _ in range(2):
            with pytest.raises(RowError, match=install):
                ran(crops(), [data])
        with pytest.raises(ValueError, match=install):
            image_mode(data)

    def test_videos_are_none(self) -> None:
        assert by_library.kind_of(b"\0\0\0\x18ftypmp42\0\0\0\0mp41isom") is None
        assert by_library.kind_of(b"\0\0\0\x18ftypmif1\0\0\0\0mif1avif").name == "AVIF"
        assert by_library.kind_of(b"\0\0\0\x18ftypmif1\0\0\0\0mif1heic").name == "HEIF"


class TestFolders:
    @pytest.fixture
    def folders(self, tmp_path: Path) -> tuple[Path, Path]:
        """A folder of these files and others, and one of PNGs with the same pixels."""
        endings = {"AVIF": "avif", "JPEG2000": "jp2", "HEIF": "heic", "PNG": "png"}
        for row, (kind, ending) in enumerate([*endings.items()] * 5):
            data = saved(kind, picture(50 + row, 40 + row % 3, row))
            for folder, name, bytes_ in (
                ("files", f"{row:02}.{ending}", data),
                ("pngs", f"{row:02}.png", as_png(data)),
            ):
                path = tmp_path / folder / f"class{row % 2}" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(bytes_)
        return tmp_path / "files", tmp_path / "pngs"

    @pytest.mark.parametrize(
        "ops", [(Decode(), I.RandomResizedCrop(16)), (Decode(), I.RandomRotation(20), I.CenterCrop(24))]
    )
    def test_shuffled_ranks_get_what_pngs_give(self, folders: tuple[Path, Path], ops: tuple[Any, ...]) -> None:
        def passes(folder: Path, rank: int) -> list[Any]:
            plan = ps.read(str(folder)).shuffle(seed=4).batch(6).transform(image=ops)
            with ps.Loader(plan, rank=rank, world_size=2) as loader:
                return [*loader]

        for rank in range(2):
            for found, wanted in zip(*(passes(folder, rank) for folder in folders), strict=True):
                assert np.array_equal(found["label"], wanted["label"])
                assert np.array_equal(found["image"], wanted["image"])

    @pytest.mark.parametrize("kind", KINDS)
    def test_files_without_suffix_are_known_by_their_bytes(self, kind: str) -> None:
        assert IMAGES.matches(OF_2000_PIXELS[kind][:64])
        assert not VIDEO.matches(OF_2000_PIXELS[kind][:64])

    def test_draws_are_told(self, folders: tuple[Path, Path]) -> None:
        def drawn(folder: Path) -> Any:
            plan = ps.read(str(folder)).batch(10).transform(image=(Decode(), I.RandomResizedCrop(16)))
            with ps.Loader(plan) as loader:
                return loader.draws(0, 1)

        assert repr(drawn(folders[0])) == repr(drawn(folders[1]))

    def test_the_first_file_gives_size_and_mode(self, folders: tuple[Path, Path]) -> None:
        plan = (
            ps.read(str(folders[0]))
            .take(1)
            .batch(1)
            .transform(image=(Decode(mode="unchanged"), I.RandomHorizontalFlip()))
        )
        with ps.Loader(plan) as loader:
            (batch,) = loader
        assert batch["image"].shape == (1, 3, 40, 50)

    def test_masks(self, tmp_path: Path) -> None:
        """A lossless JPEG 2000 is a mask as good as its PNG."""
        mask = Image.fromarray(np.random.default_rng(2).integers(0, 9, (41, 67), np.uint8))

        def made(kind: str, of_image: str) -> Any:
            records = {"image": [saved(of_image, picture(67, 41))] * 2, "mask": [saved(kind, mask)] * 2}
            chains = {"image": (Decode(), I.RandomResizedCrop(16)), "mask": I.Mask(of="image", mode="L")}
            with ps.Loader(stored(tmp_path / f"{kind}.parquet", **records).batch(2).transform(**chains)) as loader:
                (batch,) = loader
            return batch

        found, wanted = made("JPEG2000", "JPEG2000"), made("PNG", "PNG")
        assert np.array_equal(found["mask"], wanted["mask"])
        assert np.array_equal(found["image"], wanted["image"])
