"""The API reference out of the docstrings: python scripts/api_reference.py docs/api.

Reads the sources without importing them, so that no framework needs to be installed. A public name without a page fails tests/test_api_reference.py;
a new one gets a row in PAGES, and a new page a line in zensical.toml.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import griffe

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True, kw_only=True)
class Page:
    """One page: the names on it, below `penstock`; "image.*" stands for all of a module's `__all__`."""

    title: str
    about: str
    names: str


PAGES = {
    "reading": Page(
        title="Reading",
        about="Where rows come from: files, memory, Python objects, SQL, pipes, other frameworks.",
        names="read read_stream read_sql from_arrays from_dataset from_iterable from_torch from_tf_data from_ray Column Limits",
    ),
    "dataset": Page(
        title="Dataset",
        about="The verbs: what is done with rows, and in which order. None of them runs anything; a Loader does.",
        names="Dataset tools.simulate.Simulation tools.simulate.NodeEpoch",
    ),
    "joining": Page(
        title="Joining datasets",
        about="Several datasets as one.",
        names="concat mix zip",
    ),
    "expressions": Page(
        title="Expressions",
        about="Conditions and values made of columns, for `with_columns`, and for `filter`, `sort`, `split` and other verbs that choose rows. An `Expression` has all functions on this page.",
        names="col lit when plan.when.When plan.when.Then plan.expression.Expression plan.expression_functions.Functions plan.expression_parts.TextPart plan.expression_parts.DatePart",
    ),
    "image": Page(
        title="Image ops",
        about="For `Dataset.transform`.",
        names="image.*",
    ),
    "text": Page(
        title="Text ops",
        about="For `Dataset.transform`; predicates for `filter`. [Cleaning text](../text_cleaning.md) shows them at work.",
        names="text.* text.filters.* plan.text_rules.TextRule",
    ),
    "table": Page(
        title="Tables",
        about="Recipes, and the ops that they are made of; [Tables](../tables.md) shows them at work.",
        names="table.*",
    ),
    "profile": Page(
        title="Profiles",
        about="What is in a dataset, and how far another one has drifted from it; [Tables](../tables.md) shows them at work.",
        names="profile Profile profiling.Drift",
    ),
    "functions": Page(
        title="Random numbers in functions",
        about="What a parameter named `rng` receives in `map`, `filter` and `flat_map`.",
        names="RowGenerator",
    ),
    "loader": Page(
        title="Loader",
        about="Runs a plan and hands out batches.",
        names="Loader merge_states",
    ),
    "errors": Page(
        title="Errors",
        about="One tree. Every message says where, what was found and what to do.",
        names="PenstockError PlanError SourceError StorageError DataError StateError ProcessError",
    ),
    "own_format": Page(
        title="Formats of your own",
        about="What a format is made of; [a format of your own](../own_format.md) builds one.",
        names="register_format source.* source.protocol.Source source.protocol.BlockSource",
    ),
    "torch": Page(
        title="penstock.torch",
        about="PyTorch: a DataLoader in place of its own.",
        names="torch.* torch.recognised.recognise torch.recognised.explain_refusal",
    ),
    "jax": Page(
        title="penstock.jax",
        about="JAX: an iterator, and checkpoints with Orbax.",
        names="jax.*",
    ),
    "tensorflow": Page(
        title="penstock.tensorflow",
        about="TensorFlow: tf.data.",
        names="tensorflow.*",
    ),
    "keras": Page(
        title="penstock.keras",
        about="Keras 3: PyDataset.",
        names="keras.*",
    ),
    "ray": Page(
        title="penstock.ray",
        about="Ray: batches made on other machines.",
        names="ray.*",
    ),
    "trees": Page(
        title="penstock.xgboost, penstock.lightgbm",
        about="Libraries of decision trees.",
        names="xgboost.* lightgbm.*",
    ),
}

#: In the `__all__` of a public module, but for the package itself or documented elsewhere.
NOT_FOR_USERS = {
    "penstock.image": {"ImageKernel", "ImageOp", "as_first_is", "fuse", "gives_indices", "image_size", "loss_in_words"},
    "penstock.tensorflow": {"from_tf_data"},
    "penstock.text": {"filters"},
}
#: Modules under another name than their own: `ps.image` is `penstock.transform.image`.
HOMES = {
    "penstock.image": "penstock.transform.image",
    "penstock.text": "penstock.transform.text",
    "penstock.text.filters": "penstock.transform.text.filters",
}
#: Whose `**options` are the fields of another class.
OPTIONS = {"penstock.Loader": "loader.options.LoaderOptions"}
#: Classes that users receive and never make: without a signature.
RECEIVED = {
    "Dataset",
    "Expression",
    "Functions",
    "TextPart",
    "TextRule",
    "DatePart",
    "When",
    "Then",
    "RowGenerator",
    "Simulation",
    "NodeEpoch",
}
#: Of the families of transforms, the classes that are no ops: the engine calls those' methods.
RECIPES = {"penstock.table.Recipe", "penstock.table.FittedRecipe"}
#: Classes that users make or catch, and whose methods the package or a framework calls.
WITHOUT_METHODS = {
    *("Access", "Column", "DataError", "Field", "Format", "Limits", "Manifest", "RowError", "Spans"),
    *("CheckpointHandler", "DataIter", "PyDataset"),
}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A public thing: its name as users write it, and what griffe knows of it."""

    name: str
    thing: Any
    depth: int = 0

    @property
    def short(self) -> str:
        """The name without the package: "read", "Dataset.shuffle", "image.Resize"."""
        return (
            self.name.removeprefix("penstock.")
            .removeprefix("plan.expression.")
            .removeprefix("plan.text_rules.")
            .removeprefix("tools.simulate.")
        )

    @property
    def anchor(self) -> str:
        """Of its heading, as the site makes it."""
        return re.sub(r"[^\w-]", "", self.short).lower()

    @property
    def sections(self) -> list[Any]:
        """The docstring's parts, by griffe."""
        found = self.thing.docstring
        return [] if found is None else found.parse("google", warnings=False)

    def section(self, kind: str) -> Any:
        """What one section holds: its text, or a list of its lines; empty if it is not there."""
        for section in self.sections:
            if kind in (section.kind.value, getattr(section.value, "annotation", "")):
                return getattr(section.value, "description", section.value)
        return ""

    @property
    def parameters(self) -> list[Any]:
        """The arguments that a caller passes."""
        if self.thing.is_attribute or self.short in RECEIVED or (self.thing.is_class and self.is_error):
            return []
        found = [*self.thing.parameters]
        if self.name in OPTIONS and found[-1].kind is griffe.ParameterKind.var_keyword:
            found[-1:] = load()[OPTIONS[self.name]].parameters
        return [one for one in found if one.name not in ("self", "cls", "_")]

    @property
    def is_error(self) -> bool:
        """Whether it is raised."""
        return self.short.endswith("Error") and self.short != "source.RowError"

    @property
    def code(self) -> str:
        """The import path and the arguments: penstock.zip(datasets, *, on=None, strict=True)."""
        if self.thing.is_attribute:
            return ""
        if not self.parameters and (self.thing.is_class or self.depth == 0):
            return self.name
        shown, was_keyword = list[str](), False
        for one in self.parameters:
            kind = one.kind.value if one.kind else ""
            if kind == "keyword-only" and not was_keyword:
                shown.append("*")
            was_keyword |= kind in ("keyword-only", "variadic positional")
            star = {"variadic positional": "*", "variadic keyword": "**"}.get(kind, "")
            value = re.sub(r"^\w+\(.*", "…", str(one.default))  # what a call makes: the description says it
            default = "" if star or one.default is None else f"={value}"
            shown.append(f"{star}{one.name}{default}")
        joined = ", ".join(shown)
        returns = self.thing.returns if self.thing.is_function else None
        answer = "" if returns in (None, "None") or str(returns) == "None" else f" -> {returns}"
        name = self.name.rpartition(".")[2] if self.depth else self.name
        text = f"{name}({joined}){answer}"
        return text if len(text) <= 100 else f"{name}(\n" + "".join(f"    {one},\n" for one in shown) + f"){answer}"


@cache
def load() -> Any:
    """The package as griffe reads it, without running it."""
    search = [str(ROOT / "python")]
    return griffe.load(
        "penstock", search_paths=search, docstring_parser="google", allow_inspection=False, resolve_aliases=True
    )


def _found(package: Any, name: str) -> Any:
    module, _, last = name.rpartition(".")
    path = f"{HOMES.get(module, module)}.{last}".removeprefix("penstock.")
    thing = package[path]
    return thing.final_target if thing.is_alias else thing


def names_of(package: Any, page: Page) -> Iterator[str]:
    """The names on a page, each module's in the order of its `__all__`."""
    for name in (f"penstock.{one}" for one in page.names.split()):
        module, _, last = name.rpartition(".")
        if last != "*":
            yield name
            continue
        home = package[HOMES.get(module, module).removeprefix("penstock.")]
        yield from (f"{module}.{one}" for one in home.exports if str(one) not in NOT_FOR_USERS.get(module, set()))


def entries_of(package: Any, page: Page) -> Iterator[Entry]:
    """The names on a page, and after each class its public methods and properties."""
    for name in names_of(package, page):
        entry = Entry(name=name, thing=_found(package, name))
        yield entry
        last = name.rpartition(".")[2]
        if (
            entry.thing.is_class
            and last not in WITHOUT_METHODS
            and not entry.is_error
            and (name in RECIPES or not name.startswith(("penstock.image.", "penstock.table.", "penstock.text.")))
        ):
            for member in entry.thing.members.values():
                is_method = member.is_function or "property" in member.labels
                is_special = member.name.startswith("__") and member.name != "__init__" and member.docstring
                if is_method and (is_special or not member.name.startswith("_")):
                    yield Entry(name=f"{name}.{member.name}", thing=member, depth=1)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _argument(entry: Entry, described: Any) -> str:
    given = next((one for one in entry.parameters if one.name == described.name.lstrip("*")), None)
    kind = getattr(given, "annotation", None) or described.annotation
    return f"- `{described.name}`{f' (`{kind}`)' if kind else ''}: {_one_line(described.description)}"


def _markdown(entry: Entry) -> Iterator[str]:
    is_property = entry.thing.is_attribute
    yield f"{'#' * (2 + entry.depth)} {entry.short}\n"
    if entry.code:
        yield f"```python\n{entry.code}\n```\n"
    elif is_property and entry.thing.annotation is not None:
        yield f"*Property*, `{entry.thing.annotation}`.\n"
    for section in entry.sections:
        kind, value = section.kind.value, section.value
        if kind == "text":
            yield f"{value}\n"
        elif kind in ("parameters", "attributes"):
            yield f"**{'Arguments' if kind == 'parameters' else 'Attributes'}**\n"
            yield "\n".join(_argument(entry, one) for one in value) + "\n"
        elif kind == "returns":
            yield f"**Returns** {_one_line(' '.join(one.description for one in value))}\n"
        elif kind == "raises":
            yield "**Raises**\n"
            yield "\n".join(f"- `{one.annotation}`: {_one_line(one.description)}" for one in value) + "\n"
        else:  # Example, which griffe does not know in the singular
            yield f"**{section.title}**\n\n```python\n{value.description}\n```\n"


def pages() -> dict[str, str]:
    """The Markdown of every page, by file name."""
    package = load()
    made, rows = dict[str, str](), list[str]()
    for name, page in PAGES.items():
        entries = [*entries_of(package, page)]
        body = "\n".join(line for entry in entries for line in _markdown(entry))
        made[f"{name}.md"] = f"# {page.title}\n\n{page.about}\n\n{body}"
        shown = ", ".join(f"[`{entry.short}`]({name}.md#{entry.anchor})" for entry in entries if not entry.depth)
        rows.append(f"| [{page.title}]({name}.md) | {shown} |")
    about = (
        "Made of the docstrings, so that `help(ps.read)` says the same.\n\n"
        "Examples run in the tests. They begin with `import penstock as ps`, `import numpy as np` and\n\n"
        "```python\n"
        "data = ps.from_arrays(\n"
        "    {\n"
        '        "x": np.arange(10),\n'
        '        "label": np.arange(10) % 2,\n'
        '        "text": [f"row {n}" for n in range(10)],\n'
        '        "tokens": [[*range(n + 1)] for n in range(10)],\n'
        "    }\n"
        ")\n"
        "```\n\n"
        "where a line `a == b` is one that is true; `photos` is a folder of images in a folder for each class.\n"
    )
    index = f"# API reference\n\n{about}\n| page | names |\n| --- | --- |\n" + "\n".join(rows) + "\n"
    return {"index.md": index, **made}


def main(folder: str) -> None:
    """Writes the pages into a folder, and removes those of names that are gone."""
    made, where = pages(), Path(folder)
    where.mkdir(parents=True, exist_ok=True)
    for old in where.glob("*.md"):
        if old.name not in made:
            old.unlink()
    for name, text in made.items():
        (where / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
