"""Random ops on several columns: a plan says whether these draw together, wherever in it they stand."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import penstock as ps

I = ps.image  # noqa: E741  # as users write it
CROP, FLIP, GREY = I.RandomResizedCrop(6), I.RandomHorizontalFlip(), I.RandomGrayscale(0.5)


def table(names: str = "abc", rows: int = 8) -> ps.Dataset:
    pixels = np.random.default_rng(0).integers(0, 256, (rows, 9, 9, 3), np.uint8)
    return ps.from_arrays({"id": np.arange(rows), **dict.fromkeys(names, pixels)})


def noisy(row: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    return {**row, "id": row["id"] + rng.integers(9)}


SILENT: dict[str, Callable[[], ps.Dataset]] = {
    "one transform": lambda: table().transform(a=[CROP], b=[CROP]),
    "ops of two kinds": lambda: table().transform(a=[FLIP], b=[I.RandomVerticalFlip()]),
    "colours": lambda: table().transform(a=[GREY], b=[GREY]),
    "one after another": lambda: table().transform(a=[FLIP]).transform(b=[FLIP]),
    "a shuffle between": lambda: table().transform(a=[FLIP]).shuffle(seed=0).batch(4).transform(b=[FLIP]),
    "a frozen cache between": lambda: table().transform(a=[FLIP]).cache(freeze_random=True).transform(b=[FLIP]),
    "a function between": lambda: table().transform(a=[FLIP]).map(dict).transform(b=[FLIP]),
    "more for one of those together": lambda: table().transform(a=[FLIP], b=[FLIP], draws="together").transform(a=[FLIP]),
    "a third behind two together": lambda: table().transform(a=[FLIP], b=[FLIP], draws="together").transform(c=[FLIP]),
    "one of them alone before": lambda: table().transform(a=[FLIP]).transform(a=[CROP], b=[CROP], draws="together"),
    "another alone before": lambda: table().transform(c=[FLIP]).transform(a=[CROP], b=[CROP], draws="together"),
    "apart before": lambda: table().transform(a=[FLIP], b=[FLIP], draws="apart").transform(a=[CROP], b=[CROP], draws="together"),
    "fewer together": lambda: table().transform(a=[FLIP], b=[FLIP], c=[FLIP], draws="together").transform(a=[CROP], b=[CROP], draws="together"),
    "in a zip": lambda: ps.zip([table("a").transform(a=[FLIP]), table("b").drop("id").transform(b=[FLIP])]),
    "in a zip, two together": lambda: ps.zip([table("ab").transform(a=[FLIP], b=[FLIP], draws="together"), table("c").drop("id").transform(c=[FLIP])]),
    "in a zip, cached": lambda: ps.zip([table("a").transform(a=[FLIP]).cache(freeze_random=True), table("b").drop("id").transform(b=[FLIP])]),
    "above a zip": lambda: ps.zip([table("a").transform(a=[FLIP]), table("b").drop("id")]).transform(b=[FLIP]),
    "above a concat": lambda: ps.concat([table().transform(a=[FLIP]), table().transform(a=[FLIP])]).transform(b=[FLIP]),
    "two views of one column": lambda: ps.from_arrays({"image": np.zeros((4, 8, 8, 3), np.uint8)}).map(lambda batch: {"a": batch["image"], "b": batch["image"]}).transform(a=[CROP], b=[CROP]),
}  # fmt: skip

SAID: dict[str, Callable[[], ps.Dataset]] = {
    "together": lambda: table().transform(a=[CROP, FLIP], b=[CROP, FLIP], draws="together"),
    "apart": lambda: table().transform(a=[CROP], b=[FLIP], draws="apart"),
    "one random column": lambda: table().transform(a=[CROP], b=[I.CenterCrop(6)], draws="apart"),
    "one column with ops": lambda: table().transform(a=[CROP]),
    "nothing moved": lambda: table().transform(a=[GREY], b=[I.CenterCrop(6)]),
    "prepared, then moved together": lambda: table().transform(a=[I.CenterCrop(8)], b=[I.CenterCrop(8)]).transform(a=[CROP], b=[CROP], draws="together").transform(a=[GREY]),
    "one gone before the other is moved": lambda: table().transform(b=[I.CenterCrop(8)]).select("a").transform(a=[CROP]),
    "a function between what stays and what is moved": lambda: table().transform(b=[I.CenterCrop(8)]).map(dict).transform(a=[CROP]),
    "datasets of a mix, each with one": lambda: ps.mix([table().transform(a=[FLIP, I.ToLayout("NHWC")]), table().transform(b=[I.CenterCrop(9), I.ToLayout("NHWC")])], rows=8),
    "the same column again": lambda: table().transform(a=[CROP]).transform(a=[FLIP]),
    "apart behind one": lambda: table().transform(a=[FLIP]).transform(b=[FLIP], draws="apart"),
    "behind one apart": lambda: table().transform(a=[FLIP], draws="apart").transform(b=[FLIP]),
    "the same together again": lambda: table().transform(a=[FLIP], b=[FLIP], draws="together").transform(b=[CROP], a=[CROP], draws="together"),
    "two pairs": lambda: table("abcd").transform(a=[FLIP], b=[FLIP], draws="together").transform(c=[FLIP], d=[FLIP], draws="together"),
    "colours of the image alone": lambda: table().transform(a=[FLIP, GREY], b=[FLIP], draws="together").transform(a=[GREY]),
    "a column that is gone": lambda: table().transform(a=[FLIP]).select("b").transform(b=[FLIP]),
    "datasets of a concat": lambda: ps.concat([table().transform(a=[FLIP]), table().transform(a=[FLIP])]),
    "datasets of a mix": lambda: ps.mix([table().transform(a=[FLIP]), table().transform(a=[FLIP])]),
    "a zip of those apart": lambda: ps.zip([table("a").transform(a=[FLIP], draws="apart"), table("b").drop("id").transform(b=[FLIP])]),
    "nothing random together": lambda: table().transform(a=[I.CenterCrop(6)], b=[I.CenterCrop(6)], draws="together"),
    "no option": lambda: table().transform(a=[FLIP], draws=None),
    "a column of that name": lambda: ps.from_arrays({"draws": np.zeros((4, 8, 8, 3), np.uint8)}).transform(draws=[CROP]),
}  # fmt: skip


FORGOTTEN: dict[str, Callable[[], ps.Dataset]] = {
    "one transform": lambda: table().transform(a=[CROP], b=[I.CenterCrop(6)]),
    "what stays comes first": lambda: table().transform(b=[I.CenterCrop(8)]).transform(a=[CROP]),
    "what stays comes last": lambda: table().transform(a=[FLIP]).transform(b=[I.CenterCrop(8)]),
    "both before, one moved": lambda: table().transform(a=[I.CenterCrop(8)], b=[I.CenterCrop(8)]).transform(a=[CROP]),
    "a shuffle and a batch between": lambda: table().transform(b=[I.CenterCrop(8)]).shuffle(seed=0).batch(4).transform(a=[CROP]),
    "a cache between": lambda: table().transform(a=[I.CenterCrop(8)], b=[I.CenterCrop(8)]).cache().transform(a=[CROP]),
    "a third behind two together": lambda: table("bac").transform(a=[CROP], c=[CROP], draws="together").transform(b=[I.CenterCrop(8)]),
    "in a zip": lambda: ps.zip([table("a").transform(a=[FLIP]), table("b").drop("id").transform(b=[I.CenterCrop(8)])]),
    "above a zip": lambda: ps.zip([table("a"), table("b").drop("id").transform(b=[I.CenterCrop(8)])]).transform(a=[FLIP]),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGOTTEN)
def test_an_image_that_is_moved_beside_one_that_stays_is_a_warning(name: str) -> None:
    """Once, where the user's line is, with both columns and both ways to say what is meant."""
    with pytest.warns(UserWarning, match=r"moves the pixels of 'a' at random, and nothing moves those of 'b'") as told:
        FORGOTTEN[name]().transform(a=[I.Normalize(I.IMAGENET)])
    assert [one.filename for one in told] == [__file__]
    assert "transform(a=[…], b=[…], draws='together')" in str(told[0].message)
    assert "draws='apart'" in str(told[0].message)


@pytest.mark.parametrize("name", SILENT)
def test_two_columns_never_draw_for_themselves_without_a_word(name: str) -> None:
    with pytest.raises(ps.PlanError, match=r"draws='together'.*draws='apart'") as caught:
        SILENT[name]()
    assert "mask=[…]" in str(caught.value)


@pytest.mark.parametrize("name", SAID)
def test_what_is_said_is_done(name: str) -> None:
    plan = SAID[name]()
    with ps.Loader(plan.batch(4, lanes=1)) as loader:
        assert len([*loader]) >= 1


@pytest.mark.parametrize(
    ("chains", "match"),
    [
        ({"a": [FLIP], "b": [FLIP], "draws": "both"}, "draws='both'; choose 'together'"),
        ({"a": [FLIP], "draws": "together"}, "there is only 'a'"),
        ({"a": [CROP, FLIP], "b": [CROP], "draws": "together"}, r"'a' has RandomResizedCrop\(.*RandomHorizontalFlip\(p=0.5\), and 'b' RandomResizedCrop"),
        ({"a": [FLIP], "b": [I.RandomVerticalFlip()], "draws": "together"}, "'b' RandomVerticalFlip"),
        ({"a": [FLIP], "b": [I.RandomHorizontalFlip(0.2)], "draws": "together"}, r"'b' RandomHorizontalFlip\(p=0.2\)"),
        ({"a": [CROP], "b": [I.RandomResizedCrop(6, scale=(0.5, 1))], "draws": "together"}, r"scale=\(0.5, 1.0\)"),
        ({"a": [FLIP, CROP], "b": [CROP, FLIP], "draws": "together"}, "in one order"),
        ({"a": [FLIP], "b": [I.CenterCrop(4)], "draws": "together"}, "'b' none"),
        ({"a": [GREY], "b": [I.RandomGrayscale(0.1)], "draws": "together"}, "differ in what they draw"),
    ],
)  # fmt: skip
def test_ops_that_draw_together_draw_the_same(chains: dict[str, Any], match: str) -> None:
    with pytest.raises(ps.PlanError, match=match):
        table().transform(**chains)


def test_functions_below_a_zip_draw_for_their_own_dataset_and_a_warning_says_so() -> None:
    with pytest.warns(UserWarning, match=r"map_rows\(noisy\) of dataset 0 and map_rows\(noisy\) of dataset 1 draw"):
        ps.zip([table("a").map_rows(noisy), table("b").map_rows(noisy)])
    with pytest.warns(UserWarning, match="transform of dataset 0 and map_rows"):
        ps.zip([table("a").transform(a=[FLIP]), table("b").map_rows(noisy)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ps.zip([table("a").map_rows(noisy), table("b").drop("id")]).map_rows(noisy)
        ps.zip([table("a").transform(a=[FLIP], draws="apart"), table("b").map_rows(noisy)])


def test_explain_says_how_columns_draw() -> None:
    for drawn in ("together", "apart"):
        said = table().transform(a=[FLIP], b=[FLIP], draws=drawn).transform(a=[I.CenterCrop(4)]).explain()
        written, runs = said.split("Plan as it runs")
        assert f"draws={drawn}" in written
        assert f"draws={drawn}" in runs
    assert "draws" not in table().transform(a=[FLIP]).explain()


def test_a_state_of_columns_together_does_not_load_where_they_are_apart() -> None:
    def loader(drawn: str) -> ps.Loader:
        return ps.Loader(table().transform(a=[FLIP], b=[FLIP], draws=drawn).batch(4))

    for one, other in (("together", "apart"), ("apart", "together")):
        with loader(one) as first, loader(other) as second:
            state = first.state_dict()
            with pytest.raises(ps.StateError, match="together"):
                second.load_state_dict(state)
            first.load_state_dict(state)
