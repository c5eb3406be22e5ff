"""Ops that make other text of text: `Normalize`, `Redact`, `C4`; and `Language`, which says what it is written in. Whole columns at a time, by native code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.core import kernels
from penstock.core.arguments import is_encodable, is_one_of
from penstock.core.columns.spec import Columns, Field, Spec
from penstock.core.columns.text_parts import TextParts, text_array
from penstock.core.draw_keys import DrawKeys
from penstock.core.errors import PlanError
from penstock.core.messages import quoted
from penstock.transform.family import Workspace
from penstock.transform.text.native_texts import naming, texts_of
from penstock.transform.text.op import Step, TextOp

#: What Redact finds.
_KINDS = ("email", "iban", "credit_card", "ip", "phone")


class TextToText(TextOp):
    """An op whose text takes the place of what it is made of."""

    def output(self, name: str, given: Spec) -> Spec:
        """See `Op`."""
        self.check_text(name, given)
        field = given.get(name, Field("string"))
        return {**given, name: Field("string", nullable=field.nullable)}

    def written(self, parts: TextParts, threads: int) -> tuple[Any, Any]:
        """Edges and bytes of what it makes."""
        raise NotImplementedError

    def step(self, name: str, fields: Spec, number: int) -> Step:  # nothing is drawn
        """See `TextOp`."""

        def step(columns: Columns, keys: DrawKeys, work: Workspace) -> Columns:  # noqa: ARG001
            parts = texts_of(name, columns[name])
            with naming(name):
                return {name: text_array(self.written(parts, work.threads), parts[2])}

        return step


@dataclass(frozen=True)
class Normalize(TextToText):
    r"""Text in a normal form of Unicode, in lower case, with white space in one way; in this order, as `unicodedata.normalize(form, text).lower()`.

    Args:
        form: "NFC", "NFD", "NFKC" or "NFKD", of Unicode 17; None leaves characters as they are. Default: "NFC".
        lowercase: whether text becomes lower case, as by `str.lower`. Default: False.
        whitespace: "keep" leaves white space as it is; "single" makes a space of each run, and none at both ends, as `" ".join(text.split())`; "lines" does that in each line, and leaves out empty ones. Default: "keep".

    Returns:
        The op, for `Dataset.transform`. A null stays a null.

    Raises:
        PlanError: for a form that there is not, and by `transform` for a column that is not text.

    Example:
        rows = ps.from_arrays({"text": ["  Ｈｅllo \n wörld "]})
        clean = ps.text.Normalize("NFKC", lowercase=True, whitespace="single")
        rows.transform(text=clean).head()["text"] == ["hello wörld"]
    """

    form: str | None = "NFC"
    lowercase: bool = False
    whitespace: str = "keep"

    def __post_init__(self) -> None:
        """PlanError for what there is not."""
        if self.form is not None and not is_one_of(self.form, ("NFC", "NFD", "NFKC", "NFKD")):
            raise PlanError(f"Normalize: form={quoted(self.form)}; choose NFC, NFD, NFKC or NFKD, or None")
        if not is_one_of(self.whitespace, ("keep", "single", "lines")):
            raise PlanError(f"Normalize: whitespace={quoted(self.whitespace)}; choose 'keep', 'single' or 'lines'")
        if not isinstance(self.lowercase, bool):
            raise PlanError(f"Normalize: lowercase={quoted(self.lowercase)}; give True or False")

    def written(self, parts: TextParts, threads: int) -> tuple[Any, Any]:
        """See `TextToText`."""
        return kernels.text_normalised(parts, self.form or "", self.lowercase, self.whitespace, threads)


@dataclass(frozen=True)
class Redact(TextToText):
    """Text without what names a person or an account: other words stand for it. By fixed patterns, in time linear in the text; docs/text_cleaning.md has them.

    Args:
        kinds: of "email", "iban" (its checksum modulo 97 and its country's length are right), "credit_card" (its checksum of Luhn, first digits and length are right), "ip" (versions 4 and 6) and "phone"
            (international with +, and North American). Default: all of them. Where several overlap, the one that begins first stands, of these the first kind that is named.
        replacement: what stands for each; "{kind}" in it is the kind's name. A dict has one for each kind. Default: "[{kind}]".

    Returns:
        The op, for `Dataset.transform`. A null stays a null.

    Raises:
        PlanError: for a kind that there is not, and by `transform` for a column that is not text.

    Example:
        rows = ps.from_arrays({"text": ["Write to ann@example.org from 192.0.2.7."]})
        rows.transform(text=ps.text.Redact(["email", "ip"])).head()["text"] == ["Write to [email] from [ip]."]
    """

    kinds: Sequence[str] = _KINDS
    replacement: str | Mapping[str, str] = "[{kind}]"

    def __post_init__(self) -> None:
        """PlanError for kinds that there are not."""
        given = (self.kinds,) if isinstance(self.kinds, str) else self.kinds
        kinds = tuple(given) if isinstance(given, Iterable) else ()
        if not kinds or not all(is_one_of(kind, _KINDS) for kind in kinds) or len({*kinds}) < len(kinds):
            raise PlanError(f"Redact: kinds={quoted(self.kinds)}; name some of {', '.join(_KINDS)}, each once")
        words = self.replacement
        if isinstance(words, str):
            words = dict.fromkeys(kinds, words)
        if not isinstance(words, Mapping) or not all(isinstance(words.get(kind), str) for kind in kinds):
            raise PlanError(
                f"Redact: replacement={quoted(self.replacement)}; give a text, or one for each of {', '.join(kinds)}"
            )
        if not all(is_encodable(words[kind]) for kind in kinds):
            raise PlanError(f"Redact: replacement={quoted(self.replacement)} has half of a surrogate pair; remove it")
        kinds = tuple(map(str, kinds))  # of NumPy's texts, too
        object.__setattr__(self, "kinds", kinds)
        object.__setattr__(self, "replacement", {kind: words[kind].replace("{kind}", kind) for kind in kinds})

    def __hash__(self) -> int:
        return hash((self.kinds, str(self.replacement)))

    def written(self, parts: TextParts, threads: int) -> tuple[Any, Any]:
        """See `TextToText`."""
        assert isinstance(self.replacement, Mapping)
        return kernels.text_redacted(parts, [*self.replacement.items()], threads)


@dataclass(frozen=True)
class C4(TextToText):
    r"""Text without the lines that C4 drops, as datatrove's C4QualityFilter edits it; "" where C4 drops all of it, which `filter(ps.text.filters.c4(…))` of the same arguments leaves out.

    Args:
        split_paragraph: whether lines are looked at; False for sentences.
        remove_citations: whether "[1]", "[edit]" and "[citation needed]" are left out.
        filter_no_terminal_punct: whether a line must end with . ? ! " or ', and not with an ellipsis.
        min_num_sentences: sentences in the lines that are kept, at least; -1 for any number.
        min_words_per_line: words of a line, at least.
        max_word_length: characters of a line's words, at most; -1 for any number.
        filter_lorem_ipsum: whether "lorem ipsum" drops a text.
        filter_javascript: whether "javascript" drops a line.
        filter_curly_bracket: whether "{" drops a text.
        filter_policy: whether words about cookies and terms of use drop a line.

    Returns:
        The op, for `Dataset.transform`. A null stays a null.

    Raises:
        PlanError: for a threshold that is no whole number, and by `transform` for a column that is not text.

    Example:
        rows = ps.from_arrays({"text": ["Home\nThis is a sentence.[1]\nNews"]})
        rows.transform(text=ps.text.C4(min_num_sentences=1)).head()["text"] == ["This is a sentence."]
    """

    split_paragraph: bool = True
    remove_citations: bool = True
    filter_no_terminal_punct: bool = True
    min_num_sentences: int = 5
    min_words_per_line: int = 3
    max_word_length: int = 1000
    filter_lorem_ipsum: bool = True
    filter_javascript: bool = True
    filter_curly_bracket: bool = True
    filter_policy: bool = True

    def __post_init__(self) -> None:
        """PlanError for thresholds of another type."""
        for name, field in self.__dataclass_fields__.items():
            value = getattr(self, name)
            default: Any = field.default
            if type(value) is not type(default) or not -(1 << 63) <= value < 1 << 63:
                what = "True or False" if field.type == "bool" else "a whole number of at most 64 bits"
                raise PlanError(f"C4: {name}={quoted(value)}; give {what}")

    def written(self, parts: TextParts, threads: int) -> tuple[Any, Any]:
        """See `TextToText`."""
        return kernels.TextRules("c4", {name: getattr(self, name) for name in self.__dataclass_fields__}).edited(
            parts, threads
        )


@dataclass(frozen=True)
class Language(TextOp):
    """The language of text, by whatlang's trigrams: two columns more, a code of ISO 639-3, and how sure that is.

    `ps.text.filters.language` leaves out rows of other languages.

    Args:
        into: the name of the column of codes: "eng", "deu", …, "" where there is nothing to tell by. The other one is `into` and "_confidence". Default: "language".

    Returns:
        The op, for `Dataset.transform`: the text stays. Of a null the code is null, and so is the confidence of a column that is known to have nulls, as `nulls="arrow"` reads it; otherwise it is 0.

    Raises:
        PlanError: for what is no name, and by `transform` for a column that is not text.

    Example:
        rows = ps.from_arrays({"text": ["Die Bibliothek ist heute leider geschlossen."]})
        rows.transform(text=ps.text.Language()).head()["language"] == ["deu"]
    """

    into: str = "language"

    def __post_init__(self) -> None:
        """PlanError for what is no name."""
        if not isinstance(self.into, str) or not self.into or not is_encodable(self.into):
            raise PlanError(f"Language: into={quoted(self.into)}; give the name of a column")

    def makes(self, name: str) -> tuple[str, ...]:  # whichever it is
        """See `Op`."""
        return (self.into, f"{self.into}_confidence")

    def output(self, name: str, given: Spec) -> Spec:
        """See `Op`."""
        self.check_text(name, given)
        for one in self.makes(name):
            if one in given:
                raise PlanError(f"transform: Language() makes column {quoted(one)}, which there is already; pass into=")
        nullable = given[name].nullable if name in given else False
        return {
            **given,
            self.into: Field("string", nullable=nullable),
            f"{self.into}_confidence": Field("float32", nullable=nullable),
        }

    def step(self, name: str, fields: Spec, number: int) -> Step:  # nothing is drawn
        """See `TextOp`."""
        nullable = fields[name].nullable if name in fields else False

        def step(columns: Columns, keys: DrawKeys, work: Workspace) -> Columns:  # noqa: ARG001
            parts = texts_of(name, columns[name])
            with naming(name):
                codes, sure = kernels.text_languages(parts, work.threads)
            made: Any = pa.array(sure, mask=parts[2]) if nullable else np.asarray(sure)
            return {self.into: text_array(codes, parts[2]), f"{self.into}_confidence": made}

        return step
