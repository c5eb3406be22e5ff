"""`Dataset.show`: a table, or what each op did, printed, in a notebook, or as a page; with what lies over the pictures."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.core.columns.overlay import Overlay
from support.images import encoded, picture

I = ps.image  # noqa: E741  # as users write it
BOXES = Overlay(kind="boxes", of="image", labels=("label",))
MARKS = "<script>x</script>"


def pixels(rows: int = 4) -> Any:
    """Photographs with boxes, their classes, and a mask."""
    return ps.from_arrays(
        {
            "image": np.stack([np.asarray(picture(60, 40, seed=seed)) for seed in range(rows)]).reshape(
                rows, 40, 60, 3
            ),
            "boxes": np.tile(np.float32([[1, 2, 30, 20], [5, 5, 50, 39]]), (rows, 1, 1)),
            "label": np.tile(np.int64([0, 3]), (rows, 1)),
        }
    )


def segmented(tmp_path: Path) -> Any:
    """Files of photographs and of masks with a palette."""
    rows = []
    for seed in range(3):
        mask = np.zeros((40, 60), np.uint8)
        mask[10:30, 20:40] = 1 + seed
        rows.append({"image": encoded(picture(60, 40, seed=seed), "PNG"), "mask": encoded(indices(mask), "PNG")})
    return ps.from_dataset(rows)


def indices(mask: Any) -> Any:
    image = pytest.importorskip("PIL.Image")
    made = image.fromarray(mask, mode="P")
    made.putpalette([*(0, 0, 0), *(255, 0, 0), *(0, 255, 0), *(0, 0, 255)])
    return made


def page(table: Any, place: Path, **options: Any) -> str:
    table.show(html=place / "page.html", **options)
    return (place / "page.html").read_text(encoding="utf-8")


def test_what_is_said_of_a_column_is_drawn(tmp_path: Path) -> None:
    assert "<svg" not in page(pixels(), tmp_path)
    drawn = page(pixels(), tmp_path, n=3, boxes=BOXES)
    assert drawn.count("<svg") == 3
    assert drawn.count("<rect") == 6
    assert drawn.count("boxes: 2 boxes") == 3
    assert re.findall(r"<text[^>]*>([^<]*)<", drawn)[:2] == ["0", "3"]


def test_what_the_plan_says_is_drawn(tmp_path: Path) -> None:
    image, mask = ([I.Decode(mode), I.RandomCrop(32), I.RandomHorizontalFlip()] for mode in ("RGB", "P"))
    plan = segmented(tmp_path).transform(image=image, mask=mask, draws="together")
    drawn = page(plan, tmp_path)
    assert drawn.count('style="position:absolute') == 3
    assert drawn.count("mask: 0, 1") == 1
    assert 'style="position:absolute' not in page(plan.select("image"), tmp_path)


def test_steps_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    plan = pixels().transform(image=[I.RandomCrop(24), I.RandomHorizontalFlip(p=1), I.Normalize(I.IMAGENET)])
    plan.show(2, steps=True)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines if line.startswith("row")] == ["row 0", "row 1"]
    assert lines[1] == "  image"
    assert re.fullmatch(r"    0 RandomCrop            24 × 24 uint8  top \d+, left \d+", lines[2])
    assert lines[3] == "    1 RandomHorizontalFlip  24 × 24 uint8  applied 1"
    assert lines[4] == "    2 Normalize             24 × 24 float32"


def test_steps_are_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    displayed: list[Any] = []
    ipython = SimpleNamespace(get_ipython=object, display=SimpleNamespace(display=displayed.append))
    monkeypatch.setitem(sys.modules, "IPython", ipython)  # type: ignore[arg-type]
    plan = pixels().transform(image=[I.RandomCrop(24), I.RandomHorizontalFlip(), I.Normalize(I.IMAGENET)]).batch(3)
    plan.show(2, steps=True)
    shown = displayed[0]._repr_html_()
    assert shown.count("<img") == 6
    assert shown.count("shown as 0 … 255") == 2
    assert 'title="RandomCrop(' in shown
    assert page(plan, tmp_path, n=2, steps=True).count("<img") == 6
    assert len(displayed) == 1


def test_what_lies_over_a_row_is_drawn_behind_its_last_step(tmp_path: Path) -> None:
    plan = pixels().transform(image=[I.RandomInvert(p=1), I.RandomSolarize(100, p=1)])
    drawn = page(plan, tmp_path, n=2, steps=True, boxes=BOXES)
    assert (drawn.count("<img"), drawn.count("<svg")) == (4, 2)


def test_masks_have_steps_in_colour(tmp_path: Path) -> None:
    chains = {"image": [I.Decode("RGB"), I.Resize((20, 30))], "mask": [I.Decode("P"), I.Resize((20, 30), "nearest")]}
    drawn = page(segmented(tmp_path).transform(**chains), tmp_path, n=1, steps=True)
    assert drawn.count("<b>0 Decode</b>") == 2
    assert drawn.count("0, 1") >= 3  # at both steps of the mask, and over the image
    assert drawn.count('style="position:absolute') == 1


def test_names_from_data_are_text(tmp_path: Path) -> None:
    data = ps.from_arrays({MARKS: np.zeros((2, 20, 20, 3), np.uint8), "t": [MARKS] * 2})
    plan = data.transform(**{MARKS: [I.CenterCrop(9)]})
    for options in ({}, {"steps": True}, {"t": Overlay(kind="boxes", of=MARKS)}):
        assert "<script" not in page(plan, tmp_path, **options)


def test_nothing_to_see_is_told() -> None:
    with pytest.raises(
        ps.PlanError, match=r"no op of images is seen at work in this plan; write it behind transform\(image="
    ):
        pixels().show(steps=True)
    filtered = pixels().filter(lambda row: True, columns=["label"])
    with pytest.raises(ps.PlanError, match="rows of this plan come one after the other"):
        filtered.transform(image=I.CenterCrop(8)).show(steps=True)
    with pytest.raises(ps.PlanError, match="steps=3"):
        pixels().show(steps=3)  # type: ignore[arg-type]  # what it refuses


@pytest.mark.parametrize("n", [0, -1, "a", 1.5])
def test_no_rows_are_refused(n: Any) -> None:
    for steps in (True, False):
        with pytest.raises(ps.PlanError, match=f"show: n={n!r}; pass a whole number from 1"):
            pixels().show(n, steps=steps)


@pytest.mark.parametrize(
    ("over", "told"),
    [
        ({"boxes": 3}, r"show\(boxes=3\): says of no picture what lies over it"),
        ({"boxes": [I.Normalize(0, 1)]}, "says of no picture what lies over it"),
        ({"nothing": BOXES}, r"show\(nothing=…\): no column 'nothing'; there are image, boxes, label"),
        ({"boxes": Overlay(kind="boxes", of="photo")}, "no column 'photo'"),
        ({"boxes": Overlay(kind="boxes", of="image", labels=("class",))}, "no column 'class'"),
    ],
)
def test_what_says_nothing_is_refused(over: dict[str, Any], told: str) -> None:
    with pytest.raises(ps.PlanError, match=told):
        pixels().show(**over)


def test_a_page_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ps.PlanError, match="No such file or directory; name a file that can be written"):
        pixels().show(html=tmp_path / "nowhere" / "page.html")
    with pytest.raises(ps.PlanError, match="no path"):
        pixels().show(html=3)  # type: ignore[arg-type]  # what it refuses
