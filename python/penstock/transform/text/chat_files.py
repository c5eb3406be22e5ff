"""What a tokenizer brings for chats: its template, and the special tokens that this reads."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from penstock.core.errors import PlanError

_SPECIAL = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


class Template(str):
    """A template's text, which plans show by its digest."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"jinja:{hashlib.blake2b(self.encode(), digest_size=8).hexdigest()}"


class Chat(NamedTuple):
    """A tokenizer as `Tokenize` takes it, its template if it has one, and what this reads."""

    tokenizer: Any
    template: str | None
    variables: Mapping[str, str]


def chat_of(given: Any) -> Chat:
    """Of a tokenizer of transformers, or the folder of one; of others there is the tokenizer alone. PlanError for a folder without."""
    if isinstance(given, (str, Path)) and Path(given).is_dir():
        return _of_folder(Path(given))
    variables = getattr(given, "special_tokens_map", None)
    variables = variables if isinstance(variables, Mapping) else {}
    return Chat(given, _chosen(getattr(given, "chat_template", None)), _named(variables))


def _of_folder(folder: Path) -> Chat:
    config, jinja = folder / "tokenizer_config.json", folder / "chat_template.jinja"
    try:
        said = json.loads(config.read_text()) if config.exists() else {}
    except ValueError as error:
        raise PlanError(f"ChatTemplate: {config}: no JSON ({error})") from None
    if not (folder / "tokenizer.json").exists():
        raise PlanError(
            f"ChatTemplate: {folder} has no tokenizer.json; give the folder that save_pretrained of a fast tokenizer wrote"
        )
    return Chat(
        folder / "tokenizer.json",
        jinja.read_text() if jinja.exists() else _chosen(said.get("chat_template")),
        _named(said),
    )


def _named(said: Mapping[str, Any]) -> dict[str, str]:
    """The special tokens by name, each as text."""
    found = {name: said[name] for name in _SPECIAL if said.get(name) is not None}
    return {name: token["content"] if isinstance(token, Mapping) else str(token) for name, token in found.items()}


def _chosen(template: Any) -> str | None:
    """The template of chats among several."""
    if isinstance(template, list):
        template = {one["name"]: one["template"] for one in template}
    if isinstance(template, Mapping):
        if "default" not in template:
            raise PlanError(
                f"ChatTemplate: the tokenizer has the templates {', '.join(template)}; give one of them: template=tokenizer.chat_template[…]"
            )
        template = template["default"]
    return None if template is None else str(template)
