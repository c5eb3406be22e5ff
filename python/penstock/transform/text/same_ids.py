"""Whether the native tokenizer gives the ids that a tokenizer's own library gives, on texts of many scripts: looked at once for each tokenizer, where the library is installed."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from penstock.core.columns.plain import as_texts
from penstock.core.columns.text_parts import text_parts
from penstock.core.errors import PlanError
from penstock.core.installing import pip_install
from penstock.core.messages import quoted
from penstock.transform.text.models import Model

_WORDS = (
    "All human beings are born free and equal in dignity and rights.",
    "Tous les êtres humains naissent libres et égaux en dignité et en droits.",
    "Tất cả mọi người sinh ra đều được tự do và bình đẳng",
    "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι",
    "Все люди рождаются свободными и равными в своём достоинстве и правах.",
    "يولد جميع الناس أحرارًا متساوين في الكرامة والحقوق.",
    "כל בני אדם נולדו בני חורין ושווים בערכם ובזכויותיהם",
    "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता",
    "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกัน",
    "人人生而自由,在尊严和权利上一律平等。",
    "すべての人間は、生まれながらにして自由であり、",
    "모든 인간은 태어날 때부터 자유로우며",
)
_ODD = (
    "",
    " ",
    "  two  blanks\t\ttabs\r\n\r\nlines \n ends  \n  ",
    "don't WE'LL I'm he'd ſ'S 'tis",
    "1 12 123 1234 12345 ½ ² ٣٤ Ⅷ 1,234.5e-6",
    "def f(x):\n    return {'a': [x ** 2, ...]}  # ok!?\n",
    'https://example.org/a_b?c=d&e=%20#f <a href="x">y</a>',
    "\ufb01 \u212b A\u030a e\u0301 \u00e9 \u3231 \uff76\uff9e \uff26\uff55\uff4c\uff4c a\u00adb a\u200bb a\u200db \ufeff \u3000x\u00a0y \u1112\u1161\u11ab \u0915\u093c",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f1e9\U0001f1ea \u2603\ufe0f \U0001f916\U0001f916 \U0001f9d1\U0001f3fd",
    "\x00\x01\x7f\ufffd\u2028\u2029\x85\x0b\x0c",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!!!!!!!!!!!!!!!!!!!!!!!!!!",
    "▁under ▁▁ line ## ##ing Ġ </w> <0x0A>",
)
_LOST_BYTE = "has no token for"
TEXTS = (*_WORDS, *_ODD, " ".join(_WORDS), "\n".join(_WORDS))


def exact(model: Model, given: Any, *, spans: bool) -> Model:
    """The model, run by its own library if the native tokenizer does not give its ids, or its spans. given: what the user gave. PlanError where neither does."""
    try:
        _check(model, given)
        model.native(spans=spans)
    except PlanError:
        other = replace(model, by_library=True)
        if model.kind != "json" or find_spec("tokenizers") is None:
            raise
        other.native(spans=spans)
        return other
    return model


def _check(model: Model, given: Any) -> None:
    """PlanError for a tokenizer whose native ids differ from its library's."""
    if model.kind == "tiktoken" and hasattr(given, "encode_ordinary"):
        _compare(model, given.encode_ordinary)
    else:
        _check_once(model)


@lru_cache(maxsize=64)
def _check_once(model: Model) -> None:
    if model.is_unigram:  # sums that differ by a rounding decide between ways that are equally good
        raise PlanError(
            f"Tokenize: a tokenizer.json of a Unigram model needs the package tokenizers; {pip_install('tokenizers')}"
        )
    library, check = _CHECKS[model.kind]
    if find_spec(library) is not None:
        check(model)


def _with_added(data: bytes) -> tuple[str, ...]:
    """Texts with the added tokens of a tokenizer.json: some of each kind, alone and beside others."""
    kinds: dict[tuple[bool, ...], list[str]] = {}
    for one in json.loads(data).get("added_tokens") or ():
        kind = tuple(bool(one.get(word)) for word in ("special", "normalized", "lstrip", "rstrip", "single_word"))
        kinds.setdefault(kind, []).append(one["content"])  # thousands in some, such as <unused1>
    tokens = [token for found in kinds.values() for token in (*found[:4], *found[4:][-4:])]
    shapes = (
        "{0}",
        "a{0}b",
        " {0} ",
        "{0}{0}",
        "{0} {0} {0}",
        "Tous les {0} êtres",
        "born\n{0}, and {0}.",
        "人{0}人  {0}\t",
        "{0} x",
        "x\n\n {0}",
    )
    return tuple(shape.format(token) for token in tokens for shape in shapes)


def _check_json(model: Model) -> None:
    from tokenizers import Tokenizer

    try:
        own = Tokenizer.from_str(model.data.decode())
    except Exception as error:  # the library raises plain Exceptions
        model.native()  # says more of what is wrong, if it finds that
        raise PlanError(f"Tokenize: the library tokenizers refuses it: {error}; save it anew") from None
    own.no_truncation()
    own.no_padding()
    added = _with_added(model.data)
    for special, texts in (("as_text", (*TEXTS, *added)), ("as_token", added)):
        if texts:
            own.encode_special_tokens = special == "as_text"
            _compare(model, lambda text: [*own.encode(text, add_special_tokens=False).ids], texts, special)


def _check_tiktoken(model: Model) -> None:
    import tiktoken

    lines = [line.split() for line in model.data.splitlines() if line]
    model.native()
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    own = tiktoken.Encoding(
        model.digest, pat_str=model.pattern, mergeable_ranks=ranks, special_tokens=dict(model.special_tokens)
    )
    _compare(model, own.encode_ordinary)


def _check_sentencepiece(model: Model) -> None:
    import sentencepiece

    model.native()
    own = sentencepiece.SentencePieceProcessor(model_proto=model.data)
    _compare(model, lambda text: [*own.encode(text, add_bos=False, add_eos=False)])


_CHECKS: dict[str, tuple[str, Callable[[Model], None]]] = {
    "json": ("tokenizers", _check_json),
    "tiktoken": ("tiktoken", _check_tiktoken),
    "sentencepiece": ("sentencepiece", _check_sentencepiece),
}


def _compare(
    model: Model, own: Callable[[str], Sequence[int]], texts: Sequence[str] = TEXTS, special: str = "as_text"
) -> None:
    column = as_texts(texts)
    assert column is not None
    ids, edges, _, _, bad = model.native().run(
        text_parts(column),
        None,
        add_special=False,
        special=special,
        most=1 << 62,
        keeps_last=False,
        begin=None,
        end=None,
        spans=False,
        types=False,
        threads=1,
    )
    lost = {row for row, found, _ in bad if found.endswith(_LOST_BYTE)}  # such texts are errors in a loader, too
    others = [one for one in bad if one[0] not in lost]
    if others:
        row, found, _ = others[0]
        raise PlanError(f"Tokenize: {quoted(texts[row])}: {found}; tokenize in map() with this tokenizer")
    for row, (text, mine) in enumerate(zip(texts, np.split(ids, edges[1:-1]), strict=True)):
        if row in lost:
            continue
        try:
            theirs = [*own(text)]
        except BaseException as error:
            if (
                type(error).__name__ != "PanicException"
            ):  # of a library in Rust, as tiktoken's, by a pattern that matches nothing
                raise
            raise PlanError(
                f"Tokenize: {quoted(text)}: the tokenizer's own library breaks off ({error}); tokenizers that match empty text are not for it, change the pattern"
            ) from None
        if theirs != mine.tolist():
            raise PlanError(
                f"Tokenize: {quoted(text)}: the tokenizer's own library gives {quoted(theirs)}, and this one {quoted(mine.tolist())}; tokenize in map() with this tokenizer, and report it"
            )
