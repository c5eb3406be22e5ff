from __future__ import annotations

import importlib.util
import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rich.console import Console

from penstock.cli.demo import run_demo
from penstock.cli.demo_course import FULL, QUICK
from penstock.cli.demo_images import Drawings, Photographs, _cells, build, default_folder, photographs
from penstock.cli.demo_proof import DeliveryRecord, prove_labels, prove_learning, prove_resume
from penstock.cli.demo_screen import Figures, Screen, Stopwatch, sparkline
from penstock.cli.sheet import png
from penstock.core.errors import SourceError
from support.cli_runner import invoke

missing = [name for name in FULL.needed if importlib.util.find_spec(name) is None]
needs_demo = pytest.mark.skipif(bool(missing), reason=f"the demo needs {', '.join(missing)}")

SMALL = Photographs(train_per_class=24, validation_per_class=8)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo") / "pictures"
    assert build(folder, SMALL, lambda _done, _total: None)
    return folder


@pytest.fixture(scope="module")
def figures(pictures: Path) -> dict:
    return run_demo(pictures, FULL, epochs=2, seconds=60.0, console=Console(quiet=True))


@needs_demo
class TestData:
    @pytest.mark.slow
    def test_every_class_has_its_crops(self, pictures: Path) -> None:
        names = [name for name, _ in photographs()]
        assert len(names) == 16
        for split, count in (("train", 24), ("validation", 8)):
            assert sorted(path.name for path in (pictures / split).iterdir()) == names
            assert {len(list(path.iterdir())) for path in (pictures / split).iterdir()} == {count}

    def test_crops_are_jpegs_of_many_sizes(self, pictures: Path) -> None:
        sizes = set()
        for path in (pictures / "train" / "cat").iterdir():
            with Image.open(path) as picture:
                sizes.add(picture.size)
        assert len(sizes) > 10
        assert all(64 <= side <= 96 for size in sizes for side in size)

    def test_a_second_build_finds_the_first(self, pictures: Path) -> None:
        assert not build(pictures, SMALL, lambda _done, _total: None)

    def test_the_same_recipe_gives_the_same_bytes(self, pictures: Path, tmp_path: Path) -> None:
        build(tmp_path / "again", SMALL, lambda _done, _total: None)
        name = "validation/retina/0003.jpg"
        assert (tmp_path / "again" / name).read_bytes() == (pictures / name).read_bytes()

    def test_a_folder_with_other_things_is_left_alone(self, tmp_path: Path) -> None:
        (tmp_path / "thesis.txt").write_text("mine")
        with pytest.raises(SourceError, match="holds something other"):
            build(tmp_path, SMALL, lambda _done, _total: None)
        assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]

    def test_a_build_that_fails_leaves_nothing(self, tmp_path: Path) -> None:
        def fail(_done: int, _total: int) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            build(tmp_path / "pictures", SMALL, fail)
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("height", "width"), [(300, 451), (512, 512), (1411, 1411)])
def test_no_pixel_is_in_both_splits(height: int, width: int) -> None:
    shown = np.zeros((height, width, 2), dtype=int)
    for number, split in enumerate(("train", "validation")):
        for top, left, cell_height, cell_width in _cells(height, width, 100, split):
            shown[top : top + cell_height, left : left + cell_width, number] += 1
    assert shown.max() == 1
    assert shown.sum(axis=2).max() == 1
    assert 0.1 < shown[..., 1].mean() < 0.4


def test_recipes_have_folders_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert default_folder(SMALL).parent == Path("/somewhere/penstock")
    assert default_folder(SMALL) != default_folder(Photographs())


@needs_demo
@pytest.mark.slow
class TestRun:
    def test_all_proofs_of_delivery_hold(self, figures: dict) -> None:
        proofs = {proof["name"]: proof["holds"] for proof in figures["proofs"]}
        proofs.pop("labels_belong_to_pictures")  # six steps teach little
        assert proofs == dict.fromkeys(
            (
                "every_step_once",
                "sample_ids_continue",
                "same_as_uninterrupted",
                "same_on_any_number_of_ranks",
                "labels_match_folders",
            ),
            True,
        )

    def test_figures(self, figures: dict) -> None:
        assert figures["stopped_at"] == {"epoch": 1, "step": 2}
        assert figures["state_bytes"] < 1024
        assert figures["epochs"] == 2
        assert 0 <= figures["waited"] <= 1
        assert figures["samples_per_s"] > 0
        assert [stage["name"] for stage in figures["stages"]] == ["read", "parse", "transform", "deliver"]
        json.dumps(figures)


@needs_demo
class TestProofs:
    def test_a_lost_batch_is_found(self, pictures: Path) -> None:
        import penstock as ps
        from penstock.cli.demo_course import training_set

        ledger = DeliveryRecord(0)
        for step, batch in enumerate(ps.Loader(training_set(pictures), to="torch")):
            if step != 1:
                ledger.note(0, step, batch)
        assert [proof.holds for proof in prove_resume(training_set(pictures), ledger, 1, "torch")] == [
            False,
            False,
            False,
        ]

    def test_labels_are_compared_with_folders(self, pictures: Path) -> None:
        import penstock as ps

        plain = ps.read(str(pictures / "train"))
        assert prove_labels(plain.batch(64)).holds
        turned = plain.map(lambda batch: {**batch, "label": batch["label"][::-1].copy()})
        assert not prove_labels(turned.batch(64)).holds


def test_learning_is_measured_against_chance() -> None:
    assert prove_learning(0.9, 16).holds
    assert not prove_learning(0.1, 16).holds


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    result = invoke("demo")
    assert result.exit_code == 1
    assert "pip install torch scikit-image scikit-learn pillow" in result.stderr
    assert "penstock demo --quick" in result.stderr


class TestQuick:
    @pytest.mark.slow
    def test_it_holds_without_torch_and_photographs(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        for module in FULL.needed:
            monkeypatch.setitem(sys.modules, module, None)  # importing it is an error
        result = invoke("demo", "--quick", "--json", "--dir", str(tmp_path / "drawings"))
        assert result.exit_code == 0, result.stderr
        figures = json.loads(result.stdout)
        assert figures["samples"] == 1024
        assert figures["epochs"] == QUICK.epochs
        assert [proof["holds"] for proof in figures["proofs"]] == [True] * 6
        assert figures["stopped_at"] == {"epoch": 1, "step": 5}

    def test_drawings_are_what_other_readers_see(self, tmp_path: Path) -> None:
        recipe = Drawings(hues=3, train_per_hue=2, validation_per_hue=1)
        assert build(tmp_path / "drawings", recipe, lambda _done, _total: None)
        assert sorted(path.name for path in (tmp_path / "drawings" / "train").iterdir()) == [
            "hue-000",
            "hue-120",
            "hue-240",
        ]
        with Image.open(tmp_path / "drawings" / "train" / "hue-120" / "0001.png") as drawing:
            mean_colour = np.asarray(drawing).mean(axis=(0, 1))
            assert all(64 <= side <= 96 for side in drawing.size)
        assert mean_colour.argmax() == 1

    def test_png_holds_every_pixel(self) -> None:
        pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
        with Image.open(io.BytesIO(png(pixels))) as picture:
            assert np.array_equal(np.asarray(picture), pixels)


@needs_demo
@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_demo_as_users_run_it(tmp_path: Path) -> None:
    result = invoke("demo", "--dir", str(tmp_path / "pictures"), "--epochs", "2", "--json")
    figures = json.loads(result.stdout)
    assert result.exit_code == 0, result.stderr
    assert figures["passed"]
    assert "Where the time goes" in Path(figures["page"]).read_text(encoding="utf-8")
    assert figures["validation_accuracy"] > 4 * figures["chance"]
    assert "loader.report()" in result.stderr


def test_screen_draws_what_is_measured() -> None:
    console = Console(force_terminal=True, width=100, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    figures = Figures(epochs=3, steps=5, epoch=1, step=2, losses=[2.0, 1.0], accuracies=[0.1, 0.5], held_out=[0.25])
    watch = Stopwatch(figures)
    watch.received()
    watch.trained(128)
    with console.file, Screen(console, figures) as screen:
        screen.epoch_done()
        console.print(screen._draw())
        text = console.export_text()
    assert "epoch  2/3   loss 1.500   accuracy  30.0%   held out  25.0%" in text
    assert "2 of 3, step 2 of 5" in text
    assert figures.samples == 128
    assert 0 <= figures.waited <= 1


def test_sparkline() -> None:
    assert sparkline([0.0, 0.5, 1.0]) == "▁▄█"
    assert sparkline([]) == ""
    assert len(sparkline(list(range(1000)))) <= 32
