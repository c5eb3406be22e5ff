"""Which texts are worth training on: predicates for `filter`, with datatrove's rules, thresholds and words.

A predicate is an expression. `filter` reads the column once, ahead, and keeps which rows it chose; `len` is exact. `why` is the name of the rule that a text breaks.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from penstock.core.arguments import is_encodable
from penstock.core.errors import PlanError
from penstock.core.messages import quoted

if TYPE_CHECKING:
    from penstock.plan.expression import Expression
    from penstock.plan.text_rules import TextRule

__all__ = ["c4", "fineweb", "gopher", "language"]

#: Other codes of languages that whatlang tells, and whatlang's own.
_OTHER_CODES = dict(
    re.findall(
        r"(\w+)=(\w+)",
        "arb=ara arm=hye azj=aze bur=mya chi=cmn cze=ces dut=nld ekk=est fas=pes fil=tgl fre=fra geo=kat ger=deu gre=ell lvs=lav "
        "mac=mkd nor=nob npi=nep ory=ori per=pes rum=ron slo=slk twi=aka uzn=uzb wel=cym zho=cmn",
    )
)
#: Native code takes whole numbers of 64 bits.
_WHOLE = 1 << 63
#: Rules have numbers of 8 bits.
_MOST_PAIRS = 100
#: Gopher's stop words.
STOP_WORDS = ("the", "be", "to", "of", "and", "that", "have", "with")


def gopher(
    column: str | Expression = "text",
    *,
    min_doc_words: int | None = 50,
    max_doc_words: int | None = 100_000,
    min_avg_word_length: float | None = 3,
    max_avg_word_length: float | None = 10,
    max_symbol_word_ratio: float | None = 0.1,
    max_bullet_lines_ratio: float | None = 0.9,
    max_ellipsis_lines_ratio: float | None = 0.3,
    max_non_alpha_words_ratio: float | None = 0.8,
    min_stop_words: int | None = 2,
    stop_words: Sequence[str] = STOP_WORDS,
    repetition: bool = True,
    dup_line_frac: float | None = 0.3,
    dup_para_frac: float | None = 0.3,
    dup_line_char_frac: float | None = 0.2,
    dup_para_char_frac: float | None = 0.2,
    top_n_grams: Sequence[tuple[int, float]] = ((2, 0.2), (3, 0.18), (4, 0.16)),
    dup_n_grams: Sequence[tuple[int, float]] = ((5, 0.15), (6, 0.14), (7, 0.13), (8, 0.12), (9, 0.11), (10, 0.10)),
) -> TextRule:
    """Gopher's rules of quality and of repetition (arXiv 2112.11446), as datatrove's GopherQualityFilter and GopherRepetitionFilter have them.

    Words are those of spaCy's English tokenizer, lengths are characters. None or 0 asks nothing. A ratio of nothing to nothing is 0, where datatrove fails.

    Args:
        column: of text.
        min_doc_words: words at least, without those of punctuation alone.
        max_doc_words: the same at most.
        min_avg_word_length: characters of a word at least, on average.
        max_avg_word_length: the same at most.
        max_symbol_word_ratio: "#" a word at most, and ellipses a word at most.
        max_bullet_lines_ratio: the part of lines that begin with a bullet, at most.
        max_ellipsis_lines_ratio: the part of lines that end with an ellipsis, at most.
        max_non_alpha_words_ratio: the part of words with a letter, at least (datatrove's name).
        min_stop_words: different stop words at least.
        stop_words: which these are.
        repetition: whether the rules below are asked, too.
        dup_line_frac: the part of lines that came before, at most.
        dup_para_frac: the same of paragraphs.
        dup_line_char_frac: the part of characters in lines that came before, at most.
        dup_para_char_frac: the same of paragraphs.
        top_n_grams: words of an n-gram, and the part of characters in the most frequent one, at most; up to 100 pairs.
        dup_n_grams: words of an n-gram, and the part of characters in those that came before, at most; up to 100 pairs.

    Returns:
        A predicate for `filter`; `why` names the rule that a text breaks, "" for none.

    Raises:
        PlanError: for a threshold that is no number.

    Example:
        pages = ps.from_arrays({"text": ["We have seen that this is the case with all of them.", "buy now"]})
        len(pages.filter(ps.text.filters.gopher("text", min_doc_words=5, repetition=False))) == 1
    """
    given = dict(locals())
    given["stop_words"] = tuple(_texts("gopher", "stop_words", stop_words))
    for name in ("top_n_grams", "dup_n_grams"):
        given[name] = _pairs("gopher", name, given[name])
    return _rule(
        "gopher", gopher, given, flags=("repetition",), whole=(), others=("stop_words", "top_n_grams", "dup_n_grams")
    )


def c4(
    column: str | Expression = "text",
    *,
    split_paragraph: bool = True,
    remove_citations: bool = True,
    filter_no_terminal_punct: bool = True,
    min_num_sentences: int = 5,
    min_words_per_line: int = 3,
    max_word_length: int = 1000,
    filter_lorem_ipsum: bool = True,
    filter_javascript: bool = True,
    filter_curly_bracket: bool = True,
    filter_policy: bool = True,
) -> TextRule:
    """C4's rules of quality (Raffel et al. 2020), as datatrove's C4QualityFilter has them: which texts it keeps. `penstock.text.C4` leaves out the lines that it drops.

    Args:
        column: of text.
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
        A predicate for `filter`; `why` names the rule that a text breaks, "" for none.

    Raises:
        PlanError: for a threshold that is no whole number.

    Example:
        pages = ps.from_arrays({"text": ["This is a sentence.", "function() { }"]})
        len(pages.filter(ps.text.filters.c4("text", min_num_sentences=1))) == 1
    """
    flags = tuple(name for name, one in inspect.signature(c4).parameters.items() if isinstance(one.default, bool))
    whole = ("min_num_sentences", "min_words_per_line", "max_word_length")
    return _rule("c4", c4, dict(locals()), flags=flags, whole=whole, others=())


def fineweb(
    column: str | Expression = "text",
    *,
    line_punct_thr: float = 0.12,
    line_punct_exclude_zero: bool = False,
    stop_chars: Sequence[str] | None = None,
    short_line_thr: float = 0.67,
    short_line_length: int = 30,
    char_duplicates_ratio: float = 0.01,
    new_line_ratio: float = 0.3,
) -> TextRule:
    """FineWeb's rules of quality (Penedo et al. 2024), as datatrove's FineWebQualityFilter has them.

    Args:
        column: of text.
        line_punct_thr: the part of lines that end a sentence, at least.
        line_punct_exclude_zero: whether no such line at all is well, too.
        stop_chars: what ends a sentence. Default: the 155 marks of all scripts that datatrove lists.
        short_line_thr: the part of short lines, at most.
        short_line_length: characters of a short line, at most.
        char_duplicates_ratio: the part of characters in lines that came before, at most.
        new_line_ratio: line feeds a word, at most.

    Returns:
        A predicate for `filter`; `why` names the rule that a text breaks, "" for none.

    Raises:
        PlanError: for a threshold that is no number.

    Example:
        pages = ps.from_arrays({"text": ["This line is long enough, and ends.", "Home", "News"]})
        len(pages.filter(ps.text.filters.fineweb("text"))) == 1
    """
    given = dict(locals())
    if stop_chars is not None:
        given["stop_chars"] = tuple(_texts("fineweb", "stop_chars", stop_chars))
    others = ("stop_chars",)
    return _rule(
        "fineweb", fineweb, given, flags=("line_punct_exclude_zero",), whole=("short_line_length",), others=others
    )


def language(column: str | Expression, languages: str | Sequence[str], *, min_confidence: float = 0.0) -> Expression:
    """Texts in one of some languages, by whatlang's trigrams.

    Args:
        column: of text.
        languages: a code of ISO 639-3 that whatlang tells, such as "eng", or several. Persian is "pes", Mandarin "cmn", Norwegian "nob".
        min_confidence: from 0 to 1, how sure whatlang must be. Default: 0.

    Returns:
        A predicate for `filter`.

    Raises:
        PlanError: for a code that whatlang does not tell.

    Example:
        pages = ps.from_arrays({"text": ["The library is closed today.", "Die Bibliothek ist heute leider geschlossen."]})
        len(pages.filter(ps.text.filters.language("text", "deu"))) == 1
    """
    from penstock.core import kernels
    from penstock.plan.expression import expression_of
    from penstock.plan.text_rules import language_rule

    codes = (languages,) if isinstance(languages, str) else tuple(_texts("language", "languages", languages))
    if not codes or any(len(one) != 3 or not one.isalpha() or not one.islower() for one in codes):
        raise PlanError(f"language: languages={quoted(languages)}; give codes of three letters, of ISO 639-3: 'eng'")
    told = kernels.text_language_codes()
    unknown = [one for one in codes if one not in told]
    if unknown:
        others = "".join(f"{_OTHER_CODES[one]!r} for {one!r}, or " for one in unknown if one in _OTHER_CODES)
        raise PlanError(
            f"language: {', '.join(map(repr, unknown))} is no code that whatlang gives; give {others}some of {', '.join(told)}"
        )
    if isinstance(min_confidence, bool) or not isinstance(min_confidence, (int, float)) or not 0 <= min_confidence <= 1:
        raise PlanError(f"language: min_confidence={quoted(min_confidence)}; give a number from 0 to 1")
    return language_rule(expression_of("language", column), codes, float(min_confidence))


def _rule(
    name: str,
    function: Callable[..., Any],
    given: dict[str, Any],
    *,
    flags: Sequence[str],
    whole: Sequence[str],
    others: Sequence[str],
) -> TextRule:
    """The predicate, once its thresholds are looked at. flags: which are true or false; whole: whole numbers; Gopher's may be None."""
    from penstock.plan.expression import expression_of
    from penstock.plan.text_rules import text_rule

    usual = {one: parameter.default for one, parameter in inspect.signature(function).parameters.items()}
    column = expression_of(f"filters.{name}", given.pop("column"))
    given = {one: value for one, value in given.items() if one in usual}
    for one, value in given.items():
        if one in others:
            continue
        if one in flags:
            right, what = isinstance(value, bool), "True or False"
        elif one in whole:
            right, what = type(value) is int and -_WHOLE <= value < _WHOLE, "a whole number of at most 64 bits"
        else:
            may_be_none = name == "gopher"
            right, what = _is_number(value) or (may_be_none and value is None), "a number"
        if not right:
            raise PlanError(f"filters.{name}: {one}={quoted(value)}; give {what}")
    if "short_line_length" in given and given["short_line_length"] < 0:
        raise PlanError(f"filters.{name}: short_line_length={given['short_line_length']}; give a number from 0 on")
    return text_rule(column, name, given, usual)


def _is_number(value: Any) -> bool:
    """Whether it is one that a float holds, and not NaN."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return float(value) == float(value)
    except OverflowError:
        return False


def _texts(name: str, argument: str, given: Any) -> list[str]:
    if isinstance(given, str) or not isinstance(given, (Sequence, set, frozenset)):
        raise PlanError(f"filters.{name}: {argument}={quoted(given)}; give several texts")
    if not all(isinstance(one, str) and one and is_encodable(one) for one in given):
        raise PlanError(
            f"filters.{name}: {argument}={quoted(given)}; give texts of a character or more that can be encoded"
        )
    return sorted(given) if isinstance(given, (set, frozenset)) else list(given)


def _pairs(name: str, argument: str, given: Any) -> tuple[tuple[int, float], ...]:
    wrong = PlanError(
        f"filters.{name}: {argument}={quoted(given)}; give pairs of words and a part, as ((2, 0.2), (3, 0.18))"
    )
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise wrong
    if len(given) > _MOST_PAIRS:
        raise PlanError(f"filters.{name}: {argument} has {len(given):,} pairs; give {_MOST_PAIRS} at most")
    pairs = []
    for pair in given:
        if not isinstance(pair, Sequence) or len(pair) != 2:
            raise wrong
        words, part = pair
        if type(words) is not int or not 1 <= words <= 1000 or not _is_number(part):
            raise wrong
        pairs.append((words, float(part)))
    return tuple(pairs)
