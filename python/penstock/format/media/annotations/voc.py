"""Pascal VOC's XML: a file an image, of the image's name, with an `object` for each (host.robots.ox.ac.uk/pascal/VOC, development kit)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NoReturn
from xml.etree import ElementTree as ET
from xml.parsers import expat

import numpy as np

from penstock.core.errors import DataError
from penstock.format.media.annotations.objects import Annotations, shown

_CORNERS = ("xmin", "ymin", "xmax", "ymax")
#: The largest number that float32 holds.
_LARGEST = float(np.finfo(np.float32).max)
_MEND = "mend the file, or leave the object out"


def read_voc(files: Sequence[bytes], names: Sequence[str], places: Sequence[str]) -> Annotations:
    """What the files say of the images of these names, which have no extensions; DataError with file and line for the first that is wrong."""
    image, found, boxes, difficult = [], [], [], []
    for number, (content, place) in enumerate(zip(files, places, strict=True)):
        for count, one in enumerate(_parsed(content, place).findall("object"), start=1):
            where = f"{place}, object {count}"
            image.append(number)
            found.append(_text(one, "name", where))
            boxes.append(_box(one, where))
            difficult.append(_difficult(one, where))
    categories = sorted(set(found))
    number_of = {name: number for number, name in enumerate(categories)}
    return Annotations(
        names=names,
        image=np.array(image, dtype=np.int64),
        category=np.array([number_of[name] for name in found], dtype=np.int64),
        categories=categories,
        values={
            "boxes": np.array(boxes, dtype=np.float32).reshape(-1, 4),
            "difficult": np.array(difficult, dtype=np.int64),
        },
        places=places,
        are_stems=True,
    )


def _parsed(content: bytes, place: str) -> ET.Element:
    """The tree of a file; document types are refused, since entities could make it as large as they like."""
    builder, parser = ET.TreeBuilder(), expat.ParserCreate()
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data

    def refuse(*_: Any) -> NoReturn:
        raise DataError(f"{place}: a document type, which VOC's files do not have; remove it")

    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        raise DataError(f"{place}: no XML ({error}); mend the file, or remove it") from None
    except (ValueError, LookupError) as error:  # of an encoding that Python does not have
        raise DataError(f"{place}: no XML that can be read ({error}); write it as UTF-8") from None
    root = builder.close()
    if root.tag != "annotation":
        raise DataError(f"{place}: <{root.tag}>, where VOC's files have <annotation>; remove it, or convert it")
    return root


def _text(element: ET.Element, tag: str, where: str) -> str:
    text = (element.findtext(tag) or "").strip()
    if not text:
        raise DataError(f"{where}: no <{tag}>; {_MEND}")
    return text


def _box(element: ET.Element, where: str) -> list[float]:
    """The corners of an object's box."""
    box = element.find("bndbox")
    if box is None:
        raise DataError(f"{where}: no <bndbox>; {_MEND}")
    return [_number(_text(box, corner, where), corner, where) for corner in _CORNERS]


def _number(text: str, tag: str, where: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not abs(number) <= _LARGEST:
        raise DataError(f"{where}: <{tag}> is {shown(text)}, no number; {_MEND}")
    return number


def _difficult(element: ET.Element, where: str) -> int:
    text = (element.findtext("difficult") or "0").strip() or "0"
    if text not in ("0", "1"):
        raise DataError(f"{where}: <difficult> is {shown(text)}, neither 0 nor 1; {_MEND}")
    return int(text)
