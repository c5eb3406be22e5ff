"""Tokenizers as users have them, files and objects of other libraries, become models: bytes that say all, from which any process makes the native tokenizer."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.core import kernels
from penstock.core.arguments import check_texts, is_whole, path_of
from penstock.core.errors import PlanError
from penstock.core.installing import pip_install
from penstock.core.messages import quoted

if TYPE_CHECKING:
    from penstock.transform.text.library_tokenizer import LibraryTokenizer

#: Native tokenizers that a process keeps: each takes some ten megabytes.
_KEPT = 8
#: Ids are int32.
_LAST_ID = (1 << 31) - 1


@dataclass(frozen=True)
class Tiktoken:
    r"""An encoding of tiktoken from its file: a token a line, in base64, with its rank.

    A `tiktoken.Encoding` goes to `Tokenize` as it is; this is for a file beside which nothing says what pattern cuts texts.

    Args:
        path: the `.tiktoken` file.
        pattern: the regular expression that cuts texts into pieces, tiktoken's `pat_str`.
        special_tokens: their ids, by name.

    Example:
        import base64

        import penstock as ps

        with open("letters.tiktoken", "w") as file:
            file.write("".join(f"{base64.b64encode(bytes([byte])).decode()} {byte}\n" for byte in range(256)))
        letters = ps.text.Tiktoken("letters.tiktoken", pattern=r"\S+|\s+", special_tokens={"<|end|>": 256})
        rows = ps.from_arrays({"text": ["hi"]}).transform(text=ps.text.Tokenize(letters, end="<|end|>")).batch(1)
        next(iter(ps.Loader(rows)))["tokens"].to_pylist()  # [[104, 105, 256]]
    """

    path: str | Path
    pattern: str
    special_tokens: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, repr=False)
class Model:
    """A tokenizer. kind: "json", "tiktoken" or "sentencepiece". data: the bytes of its file. More is known of an encoding of tiktoken. by_library: whether a tokenizer.json is run by the package `tokenizers`, as the native one does not do it exactly. path: of the file, for messages."""

    kind: str
    data: bytes
    pattern: str = ""
    special_tokens: tuple[tuple[str, int], ...] = ()
    by_library: bool = False
    path: str = field(default="", compare=False)

    @property
    def named(self) -> str:
        """What messages call it."""
        return self.path or f"a tokenizer of {len(self.data):,} bytes ({self.kind})"

    @cached_property
    def digest(self) -> str:
        """32 hex digits of all that it is."""
        state = hashlib.blake2b(self.data, digest_size=16)
        state.update(json.dumps([self.kind, self.pattern, self.special_tokens]).encode("utf-8", "surrogatepass"))
        return state.hexdigest()

    @property
    def is_unigram(self) -> bool:
        """Whether it is a tokenizer.json of a Unigram model."""
        try:
            said = json.loads(self.data) if self.kind == "json" else {}
        except ValueError:
            return False  # whoever reads it says what is wrong
        model = said.get("model") if isinstance(said, dict) else None
        return isinstance(model, dict) and (model.get("type") == "Unigram" or "unk_id" in model)

    def __repr__(self) -> str:
        return f"{self.kind}:{self.digest[:16]}{' by the package tokenizers' if self.by_library else ''}"

    def native(self, *, spans: bool = False) -> kernels.TextTokenizer | LibraryTokenizer:
        """The tokenizer, made once in a process; PlanError for what is none. spans: whether to know which bytes tokens are."""
        return _by_library(self) if self.by_library else _native(self, spans)


@lru_cache(maxsize=_KEPT)
def _by_library(model: Model) -> LibraryTokenizer:  # a key
    try:
        from penstock.transform.text.library_tokenizer import LibraryTokenizer
    except ImportError:
        raise PlanError(
            f"Tokenize: this tokenizer.json needs the package tokenizers; {pip_install('tokenizers')}"
        ) from None
    try:
        return LibraryTokenizer(model.data.decode())
    except (ValueError, UnicodeDecodeError) as error:
        raise PlanError(f"Tokenize: {model.named}: {error}; save it anew") from None


@lru_cache(maxsize=_KEPT)
def _native(model: Model, spans: bool) -> kernels.TextTokenizer:  # a key
    try:
        if model.kind == "tiktoken":
            return kernels.TextTokenizer.of_ranks(model.data, model.pattern, list(model.special_tokens), spans)
        if model.kind == "sentencepiece":
            return kernels.TextTokenizer.of_sentencepiece(model.data, spans)
        return kernels.TextTokenizer.of_json(model.data.decode(), spans)
    except (ValueError, UnicodeDecodeError) as error:
        raise PlanError(
            f"Tokenize: {model.named}: {error}; give a tokenizer.json, a .tiktoken file or a model of SentencePiece, or tokenize in map()"
        ) from None


def model_of(given: Any) -> Model:
    """What a user gave as a model; PlanError for what is no tokenizer."""
    if isinstance(given, Model):
        return given
    if isinstance(given, (str, Path)):
        return _of_file(Path(path_of("Tokenize", given)))
    if isinstance(given, Tiktoken):
        return _of_tiktoken(given)
    given = getattr(given, "backend_tokenizer", given)  # of transformers
    library = type(given).__module__.partition(".")[0]
    if library == "tokenizers" and hasattr(given, "to_str"):
        return Model("json", given.to_str().encode())
    if library == "tiktoken" and hasattr(given, "_mergeable_ranks"):
        return _of_ranks(given._mergeable_ranks, given._pat_str, given._special_tokens)  # noqa: SLF001  # tiktoken has no other door
    if library == "sentencepiece" and hasattr(given, "serialized_model_proto"):
        return Model("sentencepiece", given.serialized_model_proto())
    raise PlanError(
        f"Tokenize: {quoted(given)} is no tokenizer; give the path of a tokenizer.json or of a model of SentencePiece, Tiktoken(…), or an object of tokenizers, transformers (a fast one), tiktoken or sentencepiece"
    )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        inside = path / "tokenizer.json"
        better = (
            f"give {str(inside)!r}"
            if inside.is_file()
            else "give the path of a tokenizer's file, or the tokenizer itself as its library loads it"
        )
        raise PlanError(f"Tokenize: {path}: {error.strerror}; {better}") from None


def _of_file(path: Path) -> Model:
    if path.suffix == ".tiktoken":
        raise PlanError(
            f"Tokenize: {path}: a file of tiktoken does not say how texts are cut; write Tiktoken({str(path)!r}, pattern=…)"
        )
    data = _read(path)
    is_json = data.lstrip()[:1] == b"{"
    if path.suffix == ".txt" and not is_json:
        raise PlanError(
            f"Tokenize: {path}: a list of tokens does not say how texts are cut; give tokenizers.BertWordPieceTokenizer({str(path)!r}) for BERT's"
        )
    return Model("json" if is_json else "sentencepiece", data, path=str(path))


def _of_tiktoken(given: Tiktoken) -> Model:
    path = path_of("Tiktoken: path", given.path)
    check_texts("Tiktoken", pattern=given.pattern)
    special = given.special_tokens
    if not isinstance(special, Mapping):
        raise PlanError(f"Tiktoken: special_tokens={quoted(special)}; pass a dict of their ids, by name")
    for name, number in special.items():
        check_texts("Tiktoken", **{"the name of a special token": name})
        if not is_whole(number) or isinstance(number, bool) or not 0 <= number <= _LAST_ID:
            raise PlanError(
                f"Tiktoken: special_tokens: {quoted(name)} has the id {quoted(number)}; pass a whole number from 0 to {_LAST_ID:,}"
            )
    return Model(
        "tiktoken", _read(Path(path)), given.pattern, tuple(sorted((one, int(special[one])) for one in special))
    )


def _of_ranks(ranks: Mapping[bytes, int], pattern: str, special_tokens: Mapping[str, int]) -> Model:
    lines = (b"%s %d\n" % (base64.b64encode(token), rank) for token, rank in ranks.items())
    return Model("tiktoken", b"".join(lines), pattern, tuple(sorted(special_tokens.items())))
