"""Annotations of a folder of images: COCO's as pycocotools reads them, Pascal VOC's as torchvision does, and what is refused."""

from __future__ import annotations

import contextlib
import functools
import json
import operator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pycocotools import mask as coco_mask
from pycocotools.coco import COCO
from torchvision.datasets import VOCDetection

import penstock as ps
from conftest import jpeg
from servers.http import http_server
from support.cases import MemoryStorage
from support.files import rows_of, through

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # pycocotools'
HEIGHT, WIDTH = 40, 60
CATEGORIES = [{"id": 90, "name": "kite"}, {"id": 3, "name": "car"}, {"id": 17, "name": "cat"}]


def coco(rng: np.random.Generator, images: int = 7) -> dict[str, Any]:
    """Images in another order than their names have; the third has no objects; polygons of one and two parts, runs as a list and as text."""
    named = [
        {"id": 1000 - 7 * one, "file_name": f"{one:03d}.jpg", "height": HEIGHT, "width": WIDTH} for one in range(images)
    ]
    objects = []
    for number in range(4 * images):
        image = int(rng.integers(images))
        if image == 2:
            continue
        box = [*np.round(rng.uniform(0, 20, 2), 2).tolist(), *np.round(rng.uniform(1, 30, 2), 2).tolist()]
        common = {"id": number, "image_id": named[image]["id"], "bbox": box, "area": box[2] * box[3] / 2}
        category = CATEGORIES[number % 3]["id"]
        objects.append(
            {
                **common,
                "category_id": category,
                "iscrowd": int(number % 4 > 1),
                "segmentation": outline(rng, number % 4),
            }
        )
    return {"images": named[::-1], "annotations": objects, "categories": [{**one} for one in CATEGORIES]}


def outline(rng: np.random.Generator, kind: int) -> Any:
    if kind < 2:
        return [np.round(rng.uniform(-3, 62, 2 * int(rng.integers(3, 9))), 2).tolist() for _ in range(kind + 1)]
    packed = coco_mask.encode(np.asfortranarray(rng.integers(0, 2, (HEIGHT, WIDTH)), dtype=np.uint8))
    if kind == 2:
        return {"size": [HEIGHT, WIDTH], "counts": packed["counts"].decode()}
    ends = np.flatnonzero(np.diff(coco_mask.decode(packed).reshape(-1, order="F"), prepend=0, append=2))
    return {"size": [HEIGHT, WIDTH], "counts": np.diff(ends, prepend=0).tolist()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """images/000.jpg … 006.jpg, and instances.json beside."""
    (tmp_path / "images").mkdir()
    for number in range(7):
        (tmp_path / f"images/{number:03d}.jpg").write_bytes(jpeg(number, HEIGHT, WIDTH))
    (tmp_path / "instances.json").write_text(json.dumps(coco(np.random.default_rng(0))))
    return tmp_path


def read(folder: Path, **own: Any) -> ps.Dataset:
    return ps.read(folder / "images", annotations=folder / "instances.json", **own)


def written(folder: Path, said: Any) -> ps.Dataset:
    (folder / "instances.json").write_text(said if isinstance(said, str) else json.dumps(said))
    return read(folder, masks=True)


def test_coco_is_what_pycocotools_reads(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Boxes, classes, crowds, areas and masks, in the file's order."""
    dataset = read(folder, masks=True)
    assert [*dataset.spec] == ["image", "boxes", "label", "category_id", "iscrowd", "area", "image_id", "masks", "path"]
    assert dataset.classes == ("car", "cat", "kite")
    known, rows = COCO(str(folder / "instances.json")), rows_of(dataset)
    capsys.readouterr()
    assert [path[-7:] for path in rows["path"]] == [f"{number:03d}.jpg" for number in range(7)]
    for row, image_id in enumerate(rows["image_id"]):
        assert known.imgs[image_id]["file_name"] == rows["path"][row][-7:]
        objects = known.loadAnns(known.getAnnIds(imgIds=image_id))
        assert np.array_equal(
            np.reshape(rows["boxes"][row], (-1, 4)), np.reshape([one["bbox"] for one in objects], (-1, 4)).astype("f4")
        )
        assert rows["category_id"][row] == [one["category_id"] for one in objects]
        assert [dataset.classes[label] for label in rows["label"][row]] == [
            known.cats[one["category_id"]]["name"] for one in objects
        ]
        assert rows["iscrowd"][row] == [one["iscrowd"] for one in objects]
        assert np.array_equal(rows["area"][row], np.array([one["area"] for one in objects], dtype="f4"))
        assert rows["masks"][row] == [known.annToMask(one).tolist() for one in objects]
    assert rows["boxes"][2] == rows["masks"][2] == []


@pytest.mark.parametrize("kind", [0, 1, 2, 3])
def test_masks_are_those_of_pycocotools(folder: Path, kind: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Of any polygons, at and beyond the edges, with points that come twice, and of runs."""
    rng = np.random.default_rng(kind)
    said = coco(rng)
    for number, one in enumerate(said["annotations"] * 1):
        corners = rng.integers(-5, 66, 12) if number % 2 else np.repeat(rng.uniform(-90, 150, 6), 2)
        one["segmentation"] = [corners.tolist()] if kind == 0 else outline(rng, kind)
    rows = rows_of(written(folder, said))
    known = COCO(str(folder / "instances.json"))
    capsys.readouterr()
    for image_id, masks in zip(rows["image_id"], rows["masks"], strict=True):
        assert masks == [known.annToMask(one).tolist() for one in known.loadAnns(known.getAnnIds(imgIds=image_id))]


def test_order_length_and_choice_are_those_of_every_source(folder: Path) -> None:
    dataset = read(folder, masks=True)
    assert len(dataset) == 7
    assert through(dataset, 3) == rows_of(dataset)
    assert through(dataset.select("label", "path")) == {name: rows_of(dataset)[name] for name in ("label", "path")}
    renamed = read(folder, columns={"x": "image", "where": "boxes"})
    assert [*renamed.spec] == ["x", "where"]
    assert renamed.classes == ()
    assert through(ps.concat([dataset, dataset]))["boxes"] == rows_of(dataset)["boxes"] * 2


def test_a_saved_state_knows_the_annotations(folder: Path) -> None:
    """Other boxes for the same images are other data."""
    first = read(folder).source.manifest.digest
    assert first == read(folder).source.manifest.digest
    said = coco(np.random.default_rng(0))
    said["annotations"][0]["bbox"][0] += 1
    assert written(folder, said).source.manifest.digest != first


def test_images_that_are_not_annotated_have_no_objects(folder: Path) -> None:
    (folder / "images/more.jpg").write_bytes(jpeg(0, 5, 6))
    last = {name: column[-1] for name, column in rows_of(read(folder, masks=True)).items()}
    assert (last["boxes"], last["label"], last["masks"], last["image_id"]) == ([], [], [], -1)


def test_a_list_of_images_takes_their_annotations(folder: Path) -> None:
    paths = [folder / f"images/{number:03d}.jpg" for number in (5, 1)]
    some = rows_of(ps.read(paths, annotations=folder / "instances.json"))
    every = rows_of(read(folder))
    assert some["boxes"] == [every["boxes"][5], every["boxes"][1]]


def test_classes_number_the_categories(folder: Path) -> None:
    numbered = read(folder, classes=["none", "kite", "cat", "car"])
    assert numbered.classes == ("none", "kite", "cat", "car")
    assert rows_of(numbered)["label"] == [[(3, 2, 1)[label] for label in row] for row in rows_of(read(folder))["label"]]
    with pytest.raises(ps.PlanError, match=r"objects of the class 'cat', which is not among the 2 named \(kite, car\)"):
        read(folder, classes=["kite", "car"])


def test_what_is_not_said_of_objects(folder: Path) -> None:
    """No object is a crowd, and an area is that of the box."""
    said = coco(np.random.default_rng(0))
    for one in said["annotations"]:
        del one["area"], one["iscrowd"]
    rows = rows_of(written(folder, said))
    assert {*functools.reduce(operator.iadd, rows["iscrowd"], [])} == {0}
    assert rows["area"][0] == pytest.approx([width * height for _, _, width, height in rows["boxes"][0]], rel=1e-6)


def test_from_other_storages(folder: Path) -> None:
    here = through(read(folder).drop("path"))
    names = [f"images/{number:03d}.jpg" for number in range(7)]
    held = {name: (folder / name).read_bytes() for name in ("instances.json", *names)}
    held_dataset = ps.read("images/", storage=MemoryStorage(held), annotations="instances.json")
    assert through(held_dataset.drop("path")) == here
    with http_server(folder) as url:
        urls = [f"{url}/{name}" for name in names]
        for annotations in (f"{url}/instances.json", folder / "instances.json"):
            assert through(ps.read(urls, annotations=annotations).drop("path")) == here


def change(key: str, value: Any, number: int = 0, of: str = "annotations") -> Any:
    def changed(said: dict[str, Any]) -> dict[str, Any]:
        said[of][number][key] = value
        return said

    return changed


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (lambda said: "{", r"instances\.json: no JSON \("),
        (lambda said: "[" * 100_000, r"no JSON \("),
        (lambda said: [1], r"no list 'images', but \[1\]"),
        (lambda said: {"images": []}, r"no list 'annotations', but an object with \['images'\]"),
        (lambda said: {**said, "images": [3]}, r"images\[0\]: 3, where an object is needed"),
        (change("bbox", [1, 2, 3]), r"annotations\[0\]: bbox is \[1, 2, 3\], where a list of four numbers"),
        (change("bbox", None, 1), r"annotations\[1\]: bbox is nothing"),
        (change("bbox", [1, 2, "3", 4]), r"annotations\[0\]: bbox\[2\] is '3', where a number is needed"),
        (change("bbox", [1, float("nan"), 3, 4]), r"bbox\[1\] is nan"),
        (change("bbox", [1e39, 1, 3, 4]), r"bbox\[0\] is 1e\+39"),
        (change("bbox", [10**400, 1, 3, 4]), r"bbox\[0\] is 1000000"),
        (change("area", "big"), r"annotations\[0\]: area is 'big'"),
        (change("category_id", 4), r"annotations\[0\]: category_id 4 is none of the file's 3 categories"),
        (change("image_id", 4, 3), r"annotations\[3\]: image_id 4 is none of the file's 7 images"),
        (change("image_id", "958"), r"image_id is '958', where a whole number of 64 bits is needed"),
        (change("image_id", 1 << 64), "where a whole number of 64 bits is needed"),
        (change("id", 1000, 0, "images"), r"images\[6\]: id 1000 is that of images\[0\], too"),
        (change("id", 17, 0, "categories"), r"categories\[2\]: id 17 is that of categories\[0\], too"),
        (change("name", None, 1, "categories"), r"categories\[1\]: name is nothing"),
        (change("file_name", "000.jpg", 0, "images"), r"images\[6\]: '000\.jpg' is named by .*images\[0\], too"),
        (
            change("file_name", "lost.jpg", 0, "images"),
            r"images\[0\]: the image 'lost\.jpg' is not in .* \(1 of 7 are not\)",
        ),
        (change("height", 0, 0, "images"), r"images\[0\]: its size is \[0, 60\]"),
        (change("segmentation", None), r"annotations\[0\]: segmentation None: an outline is a list of polygons"),
        (change("segmentation", []), "an outline is a list of polygons"),
        (change("segmentation", [[1, 2, 3, 4]]), "a polygon of 4 numbers"),
        (change("segmentation", [[1, 2, 3, 4, 5, float("inf")]]), "a corner that is no number within 1,048,576 pixels"),
        (change("segmentation", [[1, 2, 3, 4, 5, "6"]]), "a corner that is no number"),
        (change("segmentation", {"size": [4, 4], "counts": [16]}), "its size is not that of the image, 40 × 60"),
        (change("segmentation", {"size": [40, 60], "counts": [16]}), "its counts are 16 pixels of an image of 2,400"),
        (change("segmentation", {"size": [40, 60], "counts": [-5, 2405]}), "counts are a list of whole numbers"),
        (change("segmentation", {"size": [40, 60], "counts": "~~~"}), "its counts are no text of runs"),
        (change("segmentation", {"size": [40, 60], "counts": "ooooooooo"}), "its counts are no text of runs"),
    ],
)
def test_damaged_coco_is_said_with_its_place(folder: Path, harm: Any, message: str) -> None:
    with pytest.raises((ps.DataError, ps.SourceError), match=message):
        written(folder, harm(coco(np.random.default_rng(0))))


def test_options_that_do_not_fit(folder: Path) -> None:
    with pytest.raises(ps.PlanError, match="pass annotations= with it"):
        ps.read(folder / "images", masks=True)
    with pytest.raises(ps.PlanError, match="masks="):
        read(folder, masks="all")
    with pytest.raises(ps.PlanError, match="annotations: 3 is no path"):
        ps.read(folder / "images", annotations=3)
    with pytest.raises(
        ps.SourceError, match=r"images'\): 7 files, none of which is \.xml|images': 7 files, none of which is \.xml"
    ):
        ps.read(folder / "images", annotations=str(folder / "images"))
    with pytest.raises(ps.DataError, match=r"annotations of .* bytes, the limit is 5,000"):
        read(folder, limits=ps.Limits(record_bytes=5_000))
    with pytest.raises(ps.DataError, match=r"masks of 40 × 60 pixels, the limit is 5,000 bytes"):
        read(folder, masks=True, limits=ps.Limits(image_bytes=5_000))
    with pytest.raises(ps.SourceError, match="no such file"):
        ps.read(folder / "images", annotations=folder / "none.json")


@pytest.mark.slow
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_bytes_and_values_are_read_or_refused(folder: Path, data: st.DataObject) -> None:
    said = coco(np.random.default_rng(0))
    name = data.draw(st.sampled_from(["images", "annotations", "categories"]))
    one = data.draw(st.sampled_from(said[name]))
    value = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
        lambda inner: st.lists(inner, max_size=7),
    )
    one[data.draw(st.sampled_from([*one]))] = data.draw(
        value | st.fixed_dictionaries({"size": st.just([HEIGHT, WIDTH]), "counts": value})
    )
    text = json.dumps(said)
    if data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(text)))
        text = text[:at] + data.draw(st.text(max_size=3)) + text[at + data.draw(st.integers(0, 9)) :]
    with contextlib.suppress(ps.DataError, ps.SourceError):
        rows_of(written(folder, text))


# Pascal VOC

VOC = """<annotation><folder>VOC2012</folder><filename>{name}.jpg</filename><size><width>60</width><height>40</height><depth>3</depth></size>{objects}</annotation>"""
OBJECT = "<object><name>{name}</name><pose>Left</pose><difficult>{difficult}</difficult><bndbox><xmax>{box[2]}</xmax><xmin>{box[0]}</xmin><ymin>{box[1]}</ymin><ymax>{box[3]}</ymax></bndbox><part><name>head</name><bndbox><xmin>1</xmin><ymin>2</ymin><xmax>3</xmax><ymax>4</ymax></bndbox></part></object>"


@pytest.fixture
def voc(folder: Path) -> Path:
    """The same images, with Annotations/000.xml … 005.xml, of which 003 has no objects."""
    rng = np.random.default_rng(1)
    (folder / "Annotations").mkdir()
    for number in range(6):
        boxes = np.sort(rng.integers(1, 40, (number % 3, 2, 2)), axis=1).reshape(-1, 4).tolist()
        boxes = [[box[0] + 0.25, *box[1:]] for box in boxes]
        objects = "".join(
            OBJECT.format(name=("dog", "aeroplane")[at % 2], difficult=at % 2, box=box) for at, box in enumerate(boxes)
        )
        (folder / f"Annotations/{number:03d}.xml").write_text(VOC.format(name=f"{number:03d}", objects=objects))
    return folder


def read_voc(folder: Path, **own: Any) -> ps.Dataset:
    return ps.read(folder / "images", annotations=folder / "Annotations", **own)


def test_voc_is_what_torchvision_reads(voc: Path) -> None:
    dataset = read_voc(voc)
    assert dataset.classes == ("aeroplane", "dog")
    assert [*dataset.spec] == ["image", "boxes", "label", "difficult", "path"]
    rows = rows_of(dataset)
    for number in range(6):
        tree = ET.parse(voc / f"Annotations/{number:03d}.xml").getroot()
        objects = VOCDetection.parse_voc_xml(tree)["annotation"].get("object", [])
        corners = [[float(one["bndbox"][corner]) for corner in ("xmin", "ymin", "xmax", "ymax")] for one in objects]
        assert rows["boxes"][number] == corners
        assert [dataset.classes[label] for label in rows["label"][number]] == [one["name"] for one in objects]
        assert rows["difficult"][number] == [int(one["difficult"]) for one in objects]
    assert rows["boxes"][6] == []
    assert through(dataset, 2) == rows


def test_lists_of_images_number_voc_classes_alike(voc: Path) -> None:
    some = ps.read([voc / "images/001.jpg", voc / "images/000.jpg"], annotations=voc / "Annotations")
    assert some.classes == ("aeroplane", "dog")
    assert rows_of(some)["label"] == [[1], []]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<annotation>", r"001\.xml: no XML \(no element found: line 1"),
        ("", r"001\.xml: no XML"),
        ("<html></html>", "<html>, where VOC's files have <annotation>"),
        (
            '<!DOCTYPE a [<!ENTITY b "c">]><annotation>&b;</annotation>',
            "a document type, which VOC's files do not have",
        ),
        ("<annotation><object><name>a</name></object></annotation>", r"001\.xml, object 1: no <bndbox>"),
        ("<annotation><object><bndbox/></object></annotation>", "no <name>"),
        ("<annotation><object><name>a</name><bndbox><xmin>1</xmin></bndbox></object></annotation>", "no <ymin>"),
        (
            VOC.format(name="", objects=OBJECT.format(name="a", difficult=0, box=[1, "nan", 2, 3])),
            "<ymin> is 'nan', no number",
        ),
        (VOC.format(name="", objects=OBJECT.format(name="a", difficult="x", box=[1, 1, 2, 3])), "<difficult> is 'x'"),
        ('<?xml version="1.0" encoding="klingon"?><annotation/>', "no XML"),
    ],
)
def test_damaged_voc_is_said_with_its_place(voc: Path, text: str, message: str) -> None:
    (voc / "Annotations/001.xml").write_text(text)
    with pytest.raises(ps.DataError, match=message):
        read_voc(voc)


def test_voc_that_does_not_fit_the_images(voc: Path) -> None:
    with pytest.raises(ps.PlanError, match="Pascal VOC's annotations hold no outlines"):
        read_voc(voc, masks=True)
    (voc / "images/001.png").write_bytes((voc / "images/001.jpg").read_bytes())
    with pytest.raises(ps.SourceError, match=r"001\.png: 001\.jpg has the same name but for its extension"):
        read_voc(voc)
    (voc / "images/001.png").unlink()
    (voc / "images/001.jpg").unlink()
    with pytest.raises(ps.SourceError, match=r"001\.xml: the image '001' is not in"):
        read_voc(voc)


@pytest.mark.slow
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, 700), cut=st.integers(0, 9), more=st.binary(max_size=4))
def test_any_bytes_are_voc_or_refused(voc: Path, at: int, cut: int, more: bytes) -> None:
    content = VOC.format(name="x", objects=OBJECT.format(name="a", difficult=0, box=[1, 1, 2, 3])).encode()
    (voc / "Annotations/001.xml").write_bytes(content[:at] + more + content[at + cut :])
    with contextlib.suppress(ps.DataError, ps.SourceError):
        rows_of(read_voc(voc))
