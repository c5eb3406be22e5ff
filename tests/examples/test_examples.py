"""The examples run as their first lines say, on what is on the machine; each in a process of its own."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
#: By file: its arguments, the library that it needs, and what it says at the end.
RUNS = {
    "resnet_photographs.py": (["2"], "torch", "rank 1 of 2, step 8: loss"),
    "gpt_text.py": (["4"], "torch", "step 3: loss"),
    "chat_finetune.py": (["3"], "tokenizers", "step 2: loss"),
    "gpt_text_jax.py": (["3"], "jax", "step 2: loss"),
    "detection.py": (["2"], "sklearn", "boxes: see detection.png"),
    "segmentation.py": (["8"], "torch", "step 8: loss"),
    "simclr.py": (["4"], "torch", "step 3: loss"),
    "tables.py": (["6"], "xgboost", "one row of 7 numbers: PyTorch says"),
    "tabular.py": (["4"], "sklearn", "of 55 rows"),
    "keras_fit.py": (["1"], "tensorflow", "of the last epoch"),
    "ray_train.py": ([], "ray", "loss of the last checkpoint: 0.0"),
    "lightning_resume.py": ([], "pytorch_lightning", "resumed for 23: the same batches"),
}

#: Those that `make test` runs; `make test-long` runs all.
SOME = ("resnet_photographs.py", "tables.py", "detection.py")

pytestmark = [pytest.mark.slow, pytest.mark.trainers]


def test_all_are_run() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == {*RUNS, "local_data.py"}
    assert all(len(path.read_text().splitlines()) < 60 for path in EXAMPLES.glob("*.py"))


@pytest.mark.parametrize(
    "example", [name if name in SOME else pytest.param(name, marks=pytest.mark.long) for name in RUNS]
)
def test_it_runs(example: str, tmp_path: Path) -> None:
    arguments, library, said = RUNS[example]
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    launcher = (
        ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"] if example.startswith("resnet") else []
    )
    command = [sys.executable, *launcher, EXAMPLES / example, *arguments]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    assert done.returncode == 0, done.stderr
    assert said in done.stdout
