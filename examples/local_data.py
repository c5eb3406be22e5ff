"""What the examples train on: files made of what scikit-learn and Python bring, so that nothing is downloaded."""

import json
import pkgutil
from pathlib import Path

from PIL import Image
from sklearn.datasets import load_sample_images
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

import penstock as ps


def photographs(folder: Path) -> None:
    """A folder a class, each with pieces of one photograph."""
    for number, photograph in enumerate(load_sample_images().images):
        (folder / f"class{number}").mkdir()
        for piece in range(64):
            top, left = 5 * piece, 8 * piece
            image = Image.fromarray(photograph[top : top + 96, left : left + 96])
            image.save(folder / f"class{number}" / f"{piece}.jpg")


def documents(path: Path) -> None:
    """Beginnings of Python's own modules as JSON lines."""
    modules = [one for one in pkgutil.iter_modules() if one.name.isidentifier()]
    files = [Path(one.module_finder.path) / f"{one.name}.py" for one in modules]
    texts = [file.read_text(errors="ignore")[:2000] for file in files if file.is_file()][:200]
    path.write_text("\n".join(json.dumps({"text": text}) for text in texts))


def tokenizer(path: Path, size: int) -> Tokenizer:
    """Byte-level BPE, trained on the documents of a file."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=["<end>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator((json.loads(line)["text"] for line in path.open()), trainer)
    return made


def packed(folder: str, length: int, steps: int, vocabulary: int) -> ps.Dataset:
    """From a file of documents to eight sequences of so many tokens a step."""
    path = Path(folder) / "text.jsonl"
    documents(path)
    tokenize = ps.text.Tokenize(tokenizer(path, vocabulary), end="<end>", special_in_text="as_text")
    rows = ps.read(path).shuffle(seed=0).transform(text=tokenize)
    return rows.pack("tokens", length=length).batch(8, steps=steps)
