"""Text as tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any

from penstock.core.arguments import check_flags, check_texts, check_whole, hold_as_int, is_one_of
from penstock.core.columns.spec import Columns, Field, Spec
from penstock.core.errors import PlanError, RowError
from penstock.core.messages import quoted
from penstock.transform.family import Workspace
from penstock.transform.text.models import Model, model_of
from penstock.transform.text.native_texts import ragged, texts_of
from penstock.transform.text.op import Step, TextOp, check_new
from penstock.transform.text.same_ids import exact

_SPECIAL = ("error", "as_text", "as_token")
_KEEP = ("first", "last")
_ALL = 1 << 62


@dataclass(frozen=True, repr=False)
class Tokenize(TextOp):
    """Text as the ids of its tokens: int32, as many a row as there are. The ids are those that the tokenizer itself gives.

    They go into a column of their own, which is ragged, so that `pack`, `batch_tokens`, `batch_bucketed` and `batch_padded` take it. Whole columns are tokenized natively, on all threads of the loader. A null stays a null.

    The plan and its states know a tokenizer by the digest of its bytes. Where the library that it comes from is installed, its ids are compared once, on texts of many scripts. A `tokenizer.json` whose ids the native tokenizer does not give exactly (Unigram models, `add_prefix_space`) is run by the package `tokenizers`, which `explain()` says; of others, a difference is an error.

    Args:
        tokenizer: the path of a Hugging Face `tokenizer.json` or of a model of SentencePiece; `Tiktoken(…)`; a `tokenizers.Tokenizer`, a fast tokenizer of transformers, a `tiktoken.Encoding` or a `sentencepiece.SentencePieceProcessor`.
        into: the column of ids. Default: "tokens".
        add_special_tokens: whether to add what the tokenizer's post-processor puts around a text, [CLS] and [SEP] for example. tiktoken and SentencePiece have none: see `begin` and `end`. Default: True.
        special_in_text: what a special token that stands in a text is: "error", the row is bad; "as_text", letters like others, so that no document can forge a control token; "as_token", its id, for texts from a template. Default: "error".
        max_length: tokens of a row at most, all that is added included; the others are dropped, of a pair from the longer text. Default: None, all.
        keep: which of them stay, "first" or "last". Default: "first".
        begin: a token before each row, by its name, "<s>" for example. Default: None.
        end: a token behind each row, "<|endoftext|>" for example: what stands between documents in `pack`. Default: None.
        offsets: a column for the bytes of the text that each token is: int32, (first, behind the last); (0, 0) for what was added. Natively of byte-level BPE (GPT, Llama 3, tiktoken), by the package `tokenizers` of others that have a `tokenizer.json`. Default: None.
        pair: the column of second texts, for tokenizers that take two. Default: None.
        type_ids: a column for which text of a pair each token is of: uint8. Default: None.

    Returns:
        The op, for `Dataset.transform`.

    Raises:
        PlanError: for what is no tokenizer, one that is not done exactly, and a token that it does not have; by `transform`, for a column that is no text.
        DataError: from a Loader, for a text with a special token in it, or that is no UTF-8.

    Example:
        import penstock as ps
        from tokenizers import Tokenizer, models, pre_tokenizers

        words = Tokenizer(models.WordLevel({"[UNK]": 0, "a": 1, "text": 2}, unk_token="[UNK]"))
        words.pre_tokenizer = pre_tokenizers.Whitespace()
        rows = ps.from_arrays({"text": ["a text", "a"]}).transform(text=ps.text.Tokenize(words)).select(["tokens"])
        next(iter(ps.Loader(rows.batch(2))))["tokens"].to_pylist()  # [[1, 2], [1]]
    """

    tokenizer: Any
    into: str = "tokens"
    _: KW_ONLY
    add_special_tokens: bool = True
    special_in_text: str = "error"
    max_length: int | None = None
    keep: str = "first"
    begin: str | None = None
    end: str | None = None
    offsets: str | None = None
    pair: str | None = None
    type_ids: str | None = None

    def __repr__(self) -> str:
        said = {one.name: getattr(self, one.name) for one in fields(self)}
        unusual = [f"{name}={value!r}" for name, value in said.items() if value != _USUAL.get(name, ...)]
        return f"Tokenize({', '.join(unusual)})"

    def __post_init__(self) -> None:
        """Makes a model of the tokenizer, and checks what was said; PlanError."""
        model = model_of(self.tokenizer)
        if model is not self.tokenizer:
            model = exact(model, self.tokenizer, spans=self.offsets is not None)
        object.__setattr__(self, "tokenizer", model)
        self._check_words()
        native = model.native(spans=self.offsets is not None)
        if self.special_in_text == "as_token" and not native.has_special_ids():
            raise PlanError(
                "Tokenize: special_in_text='as_token': SentencePiece finds no control token in a text; leave it out, and see begin= and end="
            )
        for word, token in (("begin", self.begin), ("end", self.end)):
            if token is not None and native.id_of(token) is None:
                raise PlanError(
                    f"Tokenize: {word}={quoted(token)}: the tokenizer has no such token; give one of its own"
                )
        added = native.added()[self.pair is not None] * self.add_special_tokens
        added += (self.begin is not None) + (self.end is not None)
        if self.max_length is not None and self.max_length < added:
            raise PlanError(
                f"Tokenize: max_length={self.max_length}, and {added} tokens are added to a text; give more"
            )

    def _check_words(self) -> None:
        check_flags("Tokenize", add_special_tokens=self.add_special_tokens)
        if self.max_length is not None:
            check_whole("Tokenize", max_length=self.max_length)
            hold_as_int(self, "max_length")
        for word, value, choices in (("special_in_text", self.special_in_text, _SPECIAL), ("keep", self.keep, _KEEP)):
            if not is_one_of(value, choices):
                raise PlanError(f"Tokenize: {word}={quoted(value)}; pass one of {', '.join(map(repr, choices))}")
        texts = {
            "begin": self.begin,
            "end": self.end,
            "offsets": self.offsets,
            "pair": self.pair,
            "type_ids": self.type_ids,
        }
        check_texts("Tokenize", into=self.into, **{name: text for name, text in texts.items() if text is not None})
        columns = [one for one in (self.into, self.offsets, self.type_ids, self.pair) if one is not None]
        if "" in columns:
            raise PlanError("Tokenize: '' is no name of a column; give into=, offsets=, pair= and type_ids= one")
        if len({*columns}) < len(columns):
            raise PlanError(f"Tokenize: one name for two columns, among {', '.join(columns)}; give each its own")
        if self.pair is not None and self.offsets is not None:
            raise PlanError("Tokenize: offsets of pairs are not known; leave out offsets= or pair=")
        if self.type_ids is not None and self.pair is None:
            raise PlanError("Tokenize: type_ids= says which text of a pair a token is of; give pair=, too")

    def needs(self, name: str) -> tuple[str, ...]:
        """See `Op`."""
        return (name,) if self.pair is None else (name, self.pair)

    def makes(self, name: str) -> tuple[str, ...]:
        """See `Op`."""
        return tuple(one for one in (self.into, self.offsets, self.type_ids) if one is not None)

    def beside(self, name: str, chains: Mapping[str, Any]) -> None:
        """See `Op`."""
        check_new("Tokenize", self.makes(name), {name: Field("string")})  # behind a function nothing else is known
        if self.pair == name:
            raise PlanError(
                f"transform: Tokenize(pair={quoted(self.pair)}) on that column itself; give pair= the column of second texts"
            )
        if self.pair is not None and (chains[name][0] != self or self.pair in chains):
            raise PlanError(
                f"transform: Tokenize(pair={quoted(self.pair)}) on column {quoted(name)}: write what changes either text in a transform before"
            )

    def output(self, name: str, given: Spec) -> Spec:
        """See `Op`."""
        for column in self.needs(name):
            self.check_text(column, given)
        check_new("Tokenize", self.makes(name), given)
        nullable = any(column in given and given[column].nullable for column in self.needs(name))
        made = {self.into: Field("int32", (None,), nullable=nullable)}
        if self.offsets is not None:
            made[self.offsets] = Field("int32", (None, 2), nullable=nullable)
        if self.type_ids is not None:
            made[self.type_ids] = Field("uint8", (None,), nullable=nullable)
        return {**given, **made}

    def step(self, name: str, given: Spec, number: int) -> Step:
        """See `TextOp`."""
        self.tokenizer.native(spans=self.offsets is not None)
        return lambda columns, keys, work: self._run(name, columns, work)  # noqa: ARG005

    def _run(self, name: str, columns: Columns, work: Workspace) -> Columns:
        texts = [texts_of(one, columns[one]) for one in self.needs(name)]
        model: Model = self.tokenizer
        native = model.native(spans=self.offsets is not None)
        ids, edges, types, spans, bad = native.run(
            texts[0],
            texts[1] if self.pair is not None else None,
            add_special=bool(self.add_special_tokens),
            special=self.special_in_text,
            most=_ALL if self.max_length is None else self.max_length,
            keeps_last=self.keep == "last",
            begin=None if self.begin is None else native.id_of(self.begin),
            end=None if self.end is None else native.id_of(self.end),
            spans=self.offsets is not None,
            types=self.type_ids is not None,
            threads=work.threads,
        )
        _tell(name, bad, work)
        missing = texts[0][2]
        made: Columns = {self.into: ragged(ids, edges, missing)}
        if self.offsets is not None:
            made[self.offsets] = ragged(spans.reshape(-1, 2), edges, missing)
        if self.type_ids is not None:
            made[self.type_ids] = ragged(types, edges, missing)
        return made


#: What nobody needs to say.
_USUAL = {one.name: one.default for one in fields(Tokenize)}


def _tell(name: str, bad: Sequence[tuple[int, str, str]], work: Workspace) -> None:
    """RowError for the first bad row, unless somebody takes all of them."""
    errors = [RowError(row, f"column {quoted(name)}: {found}", remedy) for row, found, remedy in bad]
    if errors and work.bad is None:
        raise errors[0]
    if errors and work.bad is not None:
        work.bad(errors)
