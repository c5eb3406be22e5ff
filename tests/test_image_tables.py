"""The tables in docs/migration_images.md: what they name is there, on our side and on those of the libraries that are here, and what says "the same" is native."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import albumentations as A  # noqa: N812
import numpy as np
import pytest
import torch
from torchvision import tv_tensors
from torchvision.transforms import v2

import penstock as ps
from penstock.core.columns.spec import Field
from penstock.transform import image as I  # noqa: N812

PAGE = (Path(__file__).parent.parent / "docs" / "migration_images.md").read_text(encoding="utf-8")
LIBRARIES = {"torchvision": "v2", "Albumentations": "A", "tf.image and Keras": "", "DALI": ""}


def rows(library: str) -> list[tuple[list[str], list[str], str]]:
    """Code of theirs, code of ours, and what differs, of each row."""
    section = PAGE.partition(f"\n## {library}\n")[2].partition("\n## ")[0]
    lines = re.findall(r"^\| (`.*?) \| (.*?) \| ?(.*?) ?\|$", section, re.MULTILINE)
    return [(re.findall("`(.*?)`", theirs), re.findall("`(.*?)`", ours), said) for theirs, ours, said in lines]


def evaluated(code: str) -> Any:
    return eval(code, {"I": I, "A": A, "v2": v2, "torch": torch, "tv_tensors": tv_tensors})


@pytest.mark.filterwarnings("ignore:The transform .ToTensor")
@pytest.mark.parametrize("library", LIBRARIES)
def test_every_op_of_a_table_is_there(library: str) -> None:
    found = rows(library)
    assert len(found) >= 10
    for theirs, ours, _ in found:
        for code in ours:
            if code.startswith("I."):
                assert isinstance(evaluated(code), I.ImageOp)
            else:
                assert hasattr(ps.Dataset, code.partition("(")[0])
        if LIBRARIES[library]:
            assert all(callable(evaluated(code)) for code in theirs)


@pytest.mark.filterwarnings("error")
def test_what_is_the_same_is_native() -> None:
    """And no other op is."""
    for theirs, ours, said in rows("Albumentations"):
        for code, native in zip(theirs, ours, strict=len(theirs) == len(ours)):
            steps = [step.how for step in I.from_albumentations(evaluated(code), decode=None).steps]
            assert (steps == ["native"]) == ("the same" in said or not native.startswith("I.")), code


def test_ours_do_what_theirs_do_to_an_image() -> None:
    """Fixed ones: as many rows and columns, and nearly the same pixels."""
    pixels = np.random.default_rng(0).integers(0, 255, (40, 50, 3), np.uint8)
    for theirs, ours in [
        (A.Resize(22, 24), I.Resize((22, 24), antialias=False)),
        (A.CenterCrop(22, 24), I.CenterCrop((22, 24))),
        (A.SmallestMaxSize(20), I.Resize(20, antialias=False)),
        (A.Compose([A.LongestMaxSize(60), A.PadIfNeeded(60, 60)]), I.Letterbox((60, 60))),
        (A.Pad(4), I.Pad(4)),
        (A.Solarize(p=1), I.RandomSolarize(128, 1.0)),
        (A.Posterize(4, p=1), I.RandomPosterize(4, 1.0)),
        (A.ToGray(p=1), I.RandomGrayscale(1.0)),
    ]:
        kernel = I.fuse([ours, I.ToLayout("NHWC")], Field("uint8", (40, 50, 3)), lambda: (1, 1))
        out = np.empty((1, *kernel.field.shape), np.uint8)
        kernel(pixels[None], np.zeros(1, np.int64), key=0, out=out, threads=1)
        wanted = theirs(image=pixels)["image"]
        assert out[0].shape == wanted.shape, theirs
        assert np.abs(out[0].astype(int) - wanted).mean() < 1.5, theirs
