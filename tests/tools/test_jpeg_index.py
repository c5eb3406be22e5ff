"""The JPEG index: the same pixels, built ahead or on the way, never used for other bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from conftest import jpeg
from penstock.source import jpeg_index as index
from penstock.tools.jpeg_index import build_entry_points

PICTURES = 40


@pytest.fixture
def own_photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Pictures and a cache that only this test sees."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = tmp_path / "photos"
    root.mkdir()
    for number in range(PICTURES):
        (root / f"{number:03d}.jpg").write_bytes(jpeg(number, 300 + number, 260))
    return root


def loader_of(root: Path, entry_points: str = "auto") -> ps.Loader:
    ops = [ps.image.Decode(entry_points=entry_points), ps.image.RandomResizedCrop(64)]
    return ps.Loader(ps.read(str(root)).shuffle(seed=3).transform(image=ops).batch(8))


def epoch_of(loader: ps.Loader) -> np.ndarray:
    return np.concatenate([batch["image"] for batch in loader])


def build(root: Path, progress: object = None) -> object:
    dataset = ps.read(str(root))
    return build_entry_points(dataset.source, dataset.read_ranges, "image", threads=2, progress=progress)


def test_pixels_are_the_same_and_the_index_is_used(own_photos: Path) -> None:
    expected = epoch_of(loader_of(own_photos, "off"))
    built = build(own_photos)
    assert (built.samples, built.indexed) == (PICTURES, PICTURES)
    loader = loader_of(own_photos)
    np.testing.assert_array_equal(epoch_of(loader), expected)
    assert loader.stats()["decoders"]["jpeg_entry_points"] >= PICTURES
    assert "from entry points" in loader.report()


def test_built_while_the_first_epoch_decodes(own_photos: Path) -> None:
    expected = epoch_of(loader_of(own_photos, "off"))
    np.testing.assert_array_equal(epoch_of(loader_of(own_photos, "build")), expected)
    path = index.index_path(ps.read(str(own_photos)).source.manifest.digest, "image")
    found = index.load(path)
    assert found is not None
    ahead = build(own_photos)
    assert ahead.indexed == PICTURES
    again = index.load(path)
    assert again is not None
    for column in ("offset", "length", "checksum", "data"):
        np.testing.assert_array_equal(getattr(found, column), getattr(again, column))


def test_a_stale_entry_is_not_used(own_photos: Path) -> None:
    build(own_photos)
    victim = own_photos / "007.jpg"
    content = bytearray(victim.read_bytes())
    end_of_comment = content.index(b"\xff\xdb") + 4
    content[end_of_comment + 1] ^= 1  # another quantisation: a good picture of the same size with other bytes
    victim.write_bytes(content)
    loader = loader_of(own_photos)
    np.testing.assert_array_equal(epoch_of(loader), epoch_of(loader_of(own_photos, "off")))
    counts = loader.stats()["decoders"]
    assert counts["jpeg"] >= 1
    assert counts["jpeg_entry_points"] >= PICTURES - 1


def test_building_goes_on_after_an_interruption(own_photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.tools.jpeg_index.PART_SAMPLES", 10)

    def stop(done: int, _: int) -> None:
        if done == 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(own_photos, stop)
    folder = Path(str(index.index_path("x", "image"))).parent
    assert len(list(folder.glob("*.part*"))) == 2
    assert build(own_photos).indexed == PICTURES
    assert [path.suffix for path in folder.iterdir() if path.is_file()] == [".entries"]


def test_a_damaged_index_is_as_good_as_none(own_photos: Path) -> None:
    build(own_photos)
    path = Path(str(index.index_path(ps.read(str(own_photos)).source.manifest.digest, "image")))
    whole = path.read_bytes()
    for cut in (0, 10, 40, 100, len(whole) - 1):
        path.write_bytes(whole[:cut])
        assert index.load(str(path)) is None
    for place in range(0, len(whole), 97):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        # only the distance between entries stands outside of what is checked nowhere
        assert index.load(str(path)) is None


def test_progressive_and_other_pictures_have_no_entries(own_photos: Path) -> None:
    from PIL import Image

    Image.new("RGB", (50, 50), "red").save(own_photos / "a.png")
    Image.new("RGB", (90, 90), "blue").save(own_photos / "b.jpg", progressive=True)
    assert build(own_photos).indexed == PICTURES
    counts = loader_of(own_photos)
    epoch_of(counts)
    assert counts.stats()["decoders"]["jpeg_other"] >= 1
    assert counts.stats()["decoders"]["other"] >= 1


def test_the_index_does_not_change_the_plan(own_photos: Path) -> None:
    state = loader_of(own_photos, "off").state_dict()
    loader_of(own_photos, "build").load_state_dict(state)


def test_no_index_for_columns_that_are_no_bytes(own_photos: Path) -> None:
    dataset = ps.read(str(own_photos))
    with pytest.raises(ps.PlanError, match="'path' is none of"):
        build_entry_points(dataset.source, dataset.read_ranges, "path", threads=1)
