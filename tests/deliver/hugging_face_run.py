"""A training with Hugging Face's Trainer, as a script of its own: python hugging_face_run.py FOLDER STEP …; prints what it saw as JSON."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments

import penstock as ps

ids = np.random.default_rng(0).integers(0, 50, (52, 8))
ids[:, 0] = np.arange(52)
dataset = ps.from_arrays({"input_ids": ids, "labels": ids}).shuffle(seed=0).batch(8, drop_last=True)


class LoaderTrainer(Trainer):
    def __init__(self, *args: Any, loader: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.loader = loader
        self.add_callback(LoaderState(loader))
        self.seen: list[Any] = []

    def get_train_dataloader(self) -> Any:
        return self.loader

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        return ps.Loader(ps.from_arrays({"input_ids": ids[:12], "labels": ids[:12]}).batch(4), to="torch")

    def training_step(self, model: Any, inputs: Any, *args: Any, **options: Any) -> Any:
        self.seen.append([int(self.state.epoch), inputs["input_ids"][:, 0].tolist()])
        return super().training_step(model, inputs, *args, **options)


class LoaderState(TrainerCallback):
    """Saves the loader's state into each checkpoint."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.is_world_process_zero:
            file = Path(args.output_dir) / f"checkpoint-{state.global_step}" / "loader.json"
            file.write_text(json.dumps(self.loader.state_dict()))


def trained(folder: str, resume: str | None = None, **options: Any) -> Any:
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=8, n_embd=8, n_layer=1, n_head=1))
    args = TrainingArguments(
        folder, num_train_epochs=2, save_strategy="steps", save_steps=1, logging_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True,
        ignore_data_skip=True, ddp_backend="gloo" if "RANK" in os.environ else None, **options,
    )  # fmt: skip
    with ps.Loader(dataset, to="torch") as loader:
        trainer = LoaderTrainer(model=model, args=args, loader=loader)
        if resume:
            loader.load_state_dict(json.loads((Path(resume) / "loader.json").read_text()))
        trainer.train(resume_from_checkpoint=resume)
        found = {"seen": trainer.seen, "steps": trainer.state.global_step}
        if not resume and trainer.args.world_size == 1:
            found["evaluated"] = trainer.evaluate()["eval_loss"] > 0
        return {**found, "weights": sum(p.double().abs().sum().item() for p in model.parameters())}


folder = sys.argv[1]
whole = trained(f"{folder}/whole")
after = {step: trained(f"{folder}/{step}", f"{folder}/whole/checkpoint-{step}") for step in map(int, sys.argv[2:])}
print(json.dumps({"whole": whole, "after": after}))
