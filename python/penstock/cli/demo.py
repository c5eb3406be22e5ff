"""penstock demo: a small training run, interrupted and resumed, and proofs that nothing was lost."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from penstock.cli.console import err, escape, out, print_json, progress
from penstock.cli.demo_course import FULL, QUICK, Course, Trainer, training_set, validation_set
from penstock.cli.demo_images import Recipe, build, default_folder
from penstock.cli.demo_proof import DeliveryRecord, Proof, prove_labels, prove_learning, prove_ranks, prove_resume
from penstock.cli.demo_screen import Figures, Screen, Stopwatch, mean
from penstock.cli.opening import Json
from penstock.core.errors import PenstockError, PlanError, SourceError
from penstock.dataset import Dataset
from penstock.loader import Loader
from penstock.open import read

#: The report of the training's second half, beside the images.
_PAGE = "report.html"


def demo(
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Folder for the images; default: in the user's cache.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A few seconds: drawings and NumPy instead of photographs and PyTorch.")
    ] = False,
    epochs: Annotated[
        int | None, typer.Option(min=1, help=f"Epochs to train; default: {FULL.epochs}, with --quick {QUICK.epochs}.")
    ] = None,
    seconds: Annotated[float, typer.Option(min=0, help="Start no further epoch after this training time.")] = 45.0,
    as_json: Json = False,
) -> None:
    """Train a small network on real photographs, interrupt it, resume it, and prove that nothing was lost.

    Cuts a few thousand JPEG crops out of the photographs that ship with scikit-image and scikit-learn (the class is the
    photograph) and trains on them on the CPU. Stops in mid-epoch, saves the loader's state, and resumes with a fresh loader.
    Then compares what was delivered with an uninterrupted loader, and with 2 and 4 ranks. The exit status is 1 if any
    proof fails. Nothing is downloaded.

    The photographs and the network need pip install torch scikit-image scikit-learn pillow (or '.[demo]' in a checkout of
    Penstock). --quick needs only Penstock and takes a few seconds: it draws the images (the class is the hue) and trains a softmax regression in NumPy; the proofs are the same.

    Examples:
        penstock demo
        penstock demo --quick
        penstock demo --epochs 3 --dir /tmp/penstock-demo
        penstock demo --json
    """
    course = QUICK if quick else FULL
    course.check_installed()
    console = err if as_json else out
    folder = directory or default_folder(course.recipe)
    made = _build(folder, course.recipe, console)
    figures = run_demo(folder, course, epochs=epochs or course.epochs, seconds=seconds, console=console)
    if as_json:
        print_json(figures | {"folder": str(folder), "built": made})
    if not figures["passed"]:
        raise typer.Exit(1)


def _build(folder: Path, recipe: Recipe, console: Console) -> bool:
    try:
        with progress("Making the images") as report:
            made = build(folder, recipe, report)
    except OSError as error:
        if isinstance(error, PenstockError):
            raise
        raise SourceError(f"{folder}: cannot write the images there ({error}); choose another --dir") from None
    console.print(f"{'Built' if made else 'Found'} the images in {escape(str(folder))}", soft_wrap=True)
    return made


@dataclass
class Training:
    """A training run that can be stopped and resumed: what both halves of it share."""

    trainer: Trainer
    held_out: Loader
    ledger: DeliveryRecord
    figures: Figures
    screen: Screen
    began_at: float = field(default_factory=time.monotonic)

    def train(self, loader: Loader, *, seconds: float, stop_at: int | None = None) -> None:
        """Trains to the last epoch, or, in the ledger's epoch, until `stop_at` steps are done."""
        shown = self.figures
        while loader.epoch < shown.epochs and self._has_time(loader.epoch, seconds):
            watch = Stopwatch(shown)
            shown.epoch = loader.epoch
            for batch in loader:
                watch.received()
                loss, accuracy = self.trainer.step(batch)
                watch.trained(len(batch["label"]))
                shown.step = loader.step
                shown.losses.append(loss)
                shown.accuracies.append(accuracy)
                self.ledger.note(shown.epoch, loader.step - 1, batch)
                if shown.epoch == self.ledger.epoch and loader.step == stop_at:
                    return
            shown.held_out.append(self.trainer.accuracy(self.held_out))
            self.screen.epoch_done()

    def _has_time(self, epoch: int, seconds: float) -> bool:
        return epoch <= self.ledger.epoch or time.monotonic() - self.began_at < seconds


def run_demo(folder: Path, course: Course, *, epochs: int, seconds: float, console: Console) -> dict[str, Any]:
    """Figures of the whole demo, run on images that exist, as plain values."""
    began_at = time.perf_counter()
    first = _open(training_set(folder), course)
    classes, steps = len(first.dataset.classes), len(first)
    stop_epoch, stop_at = min(1, epochs - 1), steps * 2 // 3
    images = course.images.format(classes=classes)
    console.print(f"{len(first.dataset):,} {images}, {steps} steps an epoch\n")
    figures = Figures(epochs=epochs, steps=steps)
    with _open(validation_set(folder), course) as held_out, Screen(console, figures) as screen:
        training = Training(
            course.trainer(classes, epochs * steps), held_out, DeliveryRecord(stop_epoch), figures, screen
        )
        training.train(first, seconds=seconds, stop_at=stop_at)
        saved = _stop(first, console)
        second = _resume(lambda: _open(training_set(folder), course), saved, console)
        training.train(second, seconds=seconds)
    with second:
        stats, report, page = second.stats(), second.report(), _write_page(second, folder)
    proofs = _prove(folder, second.dataset, course, training, stop_at)
    _print(figures, proofs, report, console)
    console.print(f"\n{page}", markup=False, soft_wrap=True)
    return {
        "samples": len(second.dataset),
        "classes": classes,
        "epochs": len(figures.held_out),
        "loss": mean(figures.losses),
        "validation_accuracy": figures.held_out[-1],
        "chance": 1 / classes,
        "samples_per_s": figures.samples_per_s,
        "waited": figures.waited,
        "state": json.loads(saved),
        "state_bytes": len(saved.encode()),
        "stopped_at": {"epoch": stop_epoch, "step": stop_at},
        "proofs": [asdict(proof) for proof in proofs],
        "passed": all(proof.holds for proof in proofs),
        "verdict": stats["verdict"],
        "page": str(folder / _PAGE),
        "stages": [one.as_dict() for one in stats.stages],
        "seconds": time.perf_counter() - began_at,
    }


def _open(dataset: Dataset, course: Course) -> Loader:
    return Loader(dataset, to=course.framework, rank=0, world_size=1)


def _stop(loader: Loader, console: Console) -> str:
    """Saves the loader's position and closes it."""
    saved = json.dumps(loader.state_dict())
    loader.close()
    console.print(f"\n[bold]Stopped[/] in epoch {loader.epoch + 1} after {loader.step} of {len(loader)} steps.")
    console.print(f"loader.state_dict(), all that is needed to resume, {len(saved.encode())} bytes:")
    console.print(saved, style="cyan", markup=False, soft_wrap=True)
    return saved


def _resume(open_anew: Callable[[], Loader], saved: str, console: Console) -> Loader:
    """A new loader, on a newly opened dataset, that resumes from the state."""
    loader = open_anew()
    began_at = time.perf_counter()
    loader.load_state_dict(json.loads(saved))
    took_ms = 1000 * (time.perf_counter() - began_at)
    console.print(f"[bold]Resumed[/] with a fresh loader; load_state_dict took {took_ms:.1f} ms.\n")
    return loader


def _write_page(loader: Loader, folder: Path) -> str:
    """The report as a page, beside the images: where it is, or why it is not there."""
    try:
        loader.report(html=folder / _PAGE)
    except PlanError as error:  # images that somebody else made
        return f"No page of the report was written: {error}"
    return f"The same as a page: {folder / _PAGE}"


def _prove(folder: Path, dataset: Dataset, course: Course, training: Training, stop_at: int) -> list[Proof]:
    plain = read(f"{folder}/train").shuffle(seed=0).batch(256)
    return [
        *prove_resume(dataset, training.ledger, stop_at, course.framework),
        prove_ranks(dataset, training.ledger.epoch, course.framework),
        prove_labels(plain),
        prove_learning(training.figures.held_out[-1], len(dataset.classes)),
    ]


def _print(figures: Figures, proofs: list[Proof], report: str, console: Console) -> None:
    if len(figures.held_out) < figures.epochs:
        console.print("No further epoch: the training time is over (see --seconds).")
    console.print("\n[bold]Proofs[/]")
    for proof in proofs:
        mark = "[green]holds[/]" if proof.holds else "[bold red]FAILS[/]"
        console.print(f"  {mark}  {proof.name}: {proof.found}", soft_wrap=True)
    console.print("\n[bold]loader.report()[/]")
    console.print(report, markup=False, soft_wrap=True)
