"""penstock demo: a small network, real photographs, an interrupted training run, and proofs that nothing was lost."""

from __future__ import annotations

import importlib.util
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from penstock.cli.console import err, out, print_json, progress
from penstock.cli.demo_data import Recipe, build, default_folder
from penstock.cli.demo_proof import Ledger, Proof, prove_labels, prove_learning, prove_ranks, prove_resume
from penstock.cli.demo_screen import Figures, Screen, Stopwatch, mean
from penstock.cli.opening import Json
from penstock.core.errors import PenstockError, PlanError, SourceError
from penstock.dataset import Dataset, read
from penstock.loader import Loader

if TYPE_CHECKING:
    from penstock.cli.demo_train import Trainer

_NEEDED = {"torch": "torch", "skimage": "scikit-image", "sklearn": "scikit-learn", "PIL": "pillow"}


def demo(
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Folder for the images; default: in the user's cache.")
    ] = None,
    epochs: Annotated[int, typer.Option(min=1, help="Epochs to train.")] = 8,
    seconds: Annotated[float, typer.Option(min=0, help="Start no further epoch after this training time.")] = 45.0,
    as_json: Json = False,
) -> None:
    """Train a small network on real photographs, interrupt it, resume it, and prove that nothing was lost.

    Cuts a few thousand JPEG crops out of the photographs that ship with scikit-image and scikit-learn (the class is the
    photograph) and trains on them on the CPU. Stops in mid-epoch, saves the loader's state, and resumes with a fresh loader.
    Then compares what was delivered with an uninterrupted loader, and with 2 and 4 ranks. The exit status is 1 if any
    proof fails. Nothing is downloaded.

    Examples:
        penstock demo
        penstock demo --epochs 3 --dir /tmp/penstock-demo
        penstock demo --json
    """
    _check_installed()
    console = err if as_json else out
    recipe = Recipe()
    folder = directory or default_folder(recipe)
    made = _build(folder, recipe, console)
    figures = run_demo(folder, epochs=epochs, seconds=seconds, console=console) | {"folder": str(folder), "built": made}
    if as_json:
        print_json(figures)
    if not figures["passed"]:
        raise typer.Exit(1)


def _check_installed() -> None:
    missing = [name for module, name in _NEEDED.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise PlanError(f"penstock demo: {', '.join(missing)} not installed; pip install 'penstock[demo]'")


def _build(folder: Path, recipe: Recipe, console: Console) -> bool:
    try:
        with progress("Cutting crops out of photographs") as report:
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
    ledger: Ledger
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


def run_demo(folder: Path, *, epochs: int, seconds: float, console: Console) -> dict[str, Any]:
    """Figures of the whole demo, run on images that exist, as plain values."""
    from penstock.cli.demo_train import Trainer, training_set, validation_set

    began_at = time.perf_counter()
    first = Loader(training_set(folder), to="torch", rank=0, world_size=1)
    classes, steps = len(first.dataset.classes), len(first)
    stop_epoch, stop_at = min(1, epochs - 1), steps * 2 // 3
    console.print(f"{len(first.dataset):,} crops of {classes} photographs, {steps} steps an epoch\n")
    figures = Figures(epochs=epochs, steps=steps)
    held_out = Loader(validation_set(folder), to="torch", rank=0, world_size=1)
    with held_out, Screen(console, figures) as screen:
        training = Training(Trainer(classes, epochs * steps), held_out, Ledger(stop_epoch), figures, screen)
        training.train(first, seconds=seconds, stop_at=stop_at)
        saved = _stop(first, console)
        second = _resume(lambda: training_set(folder), saved, console)
        training.train(second, seconds=seconds)
    with second:
        stats, report = second.stats(), second.report()
    proofs = _prove(folder, second.dataset, training, stop_at)
    _print(figures, proofs, report, console)
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
        "stages": stats["stages"],
        "seconds": time.perf_counter() - began_at,
    }


def _stop(loader: Loader, console: Console) -> str:
    """Saves the loader's position and closes it."""
    saved = json.dumps(loader.state_dict())
    loader.close()
    console.print(f"\n[bold]Stopped[/] in epoch {loader.epoch + 1} after {loader.step} of {len(loader)} steps.")
    console.print(f"loader.state_dict(), all that is needed to resume, {len(saved.encode())} bytes:")
    console.print(saved, style="cyan", markup=False, soft_wrap=True)
    return saved


def _resume(open_dataset: Callable[[], Dataset], saved: str, console: Console) -> Loader:
    """A new loader, on a newly opened dataset, that resumes from the state."""
    loader = Loader(open_dataset(), to="torch", rank=0, world_size=1)
    began_at = time.perf_counter()
    loader.load_state_dict(json.loads(saved))
    took_ms = 1000 * (time.perf_counter() - began_at)
    console.print(f"[bold]Resumed[/] with a fresh loader; load_state_dict took {took_ms:.1f} ms.\n")
    return loader


def _prove(folder: Path, dataset: Dataset, training: Training, stop_at: int) -> list[Proof]:
    plain = read(f"{folder}/train").shuffle(seed=0).batch(256)
    return [
        *prove_resume(dataset, training.ledger, stop_at),
        prove_ranks(dataset, training.ledger.epoch),
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
