"""Chats as text: Jinja templates as transformers has them, and which characters the assistant wrote.

The one file that imports jinja2 (extra `text`). What a template sees is plain JSON, in jinja2's sandbox, as templates come from strangers.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeAlias

import jinja2
import jinja2.exceptions
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

from penstock.core.errors import PlanError

#: A conversation: of each message its role, its content, and whatever else its template reads.
Messages: TypeAlias = Sequence[Mapping[str, Any]]

#: First and last character, the last one excluded.
Span: TypeAlias = tuple[int, int]


class Rendered(NamedTuple):
    """A conversation as text, and the parts of it that the template marks as generated."""

    text: str
    generated: list[Span]


class ChatRenderer:
    """A template, compiled once.

    ChatRenderer("{{ messages[0].content }}").render([{"role": "user", "content": "hello"}]).text == "hello"

    variables: what it gets beside the messages: the special tokens, `enable_thinking`, …. now: the time that `strftime_now` tells; a template that asks for it fails without.
    """

    def __init__(self, template: str, variables: Mapping[str, Any] | None = None, now: datetime | None = None) -> None:
        environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, jinja2.ext.loopcontrols]
        )
        environment.filters["tojson"] = _to_json
        environment.globals |= {
            "raise_exception": _raise,
            "strftime_now": _no_clock if now is None else now.strftime,
            "dict": _Dicts(),
            "namespace": _Namespace,
        }
        try:
            self._template = environment.from_string(template)
        except jinja2.TemplateSyntaxError as error:
            raise PlanError(f"ChatTemplate: line {error.lineno} of the template: {error.message}") from None
        self.marks = environment.extensions[_Generation.identifier].is_used  # type: ignore[attr-defined]  # this one
        self._variables = dict(variables or {})

    def render(self, messages: Messages, tools: Any = None, *, prompt: bool = False) -> Rendered:
        """The conversation's text. tools: as JSON Schema has them. prompt: ends with what an answer begins with.

        ValueError, in the template's words where it has some, for messages that it does not take.
        """
        given = [_with_reasoning(message) for message in messages]
        pieces: list[str] = []
        _track.length, _track.found = 0, []
        try:
            for piece in self._template.generate(
                messages=given, tools=tools, documents=None, add_generation_prompt=prompt, **self._variables
            ):
                pieces.append(piece)
                _track.length += len(piece)
        except RecursionError:
            raise ValueError("the template calls itself without an end") from None
        except MemoryError:
            raise ValueError("the template makes a text that no memory holds") from None
        except (jinja2.TemplateError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(str(error) or type(error).__name__) from None
        text, found = "".join(pieces), [*_track.found]
        if any(not text.startswith(part, begin) for begin, part in found):
            raise ValueError("the template moves what stands between {% generation %} and {% endgeneration %}")
        return Rendered(text, [(begin, begin + len(part)) for begin, part in found if part])


_track = threading.local()


class _Generation(jinja2.ext.Extension):
    """{% generation %}: what is between, and its end, is what the model is to learn."""

    tags = {"generation"}  # noqa: RUF012  # as jinja2 declares it
    is_used = False

    def parse(self, parser: Any) -> Any:
        self.is_used = True
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_generated"), [], [], body).set_lineno(line)

    def _generated(self, caller: Any) -> str:
        made: str = caller()
        _track.found.append((_track.length, made))
        return made


def _to_json(
    value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
) -> str:
    """Without jinja2's escapes for HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise(message: str) -> None:
    raise jinja2.TemplateError(message)


def _no_clock(form: str) -> str:  # noqa: ARG001  # as strftime
    raise jinja2.TemplateError(
        "the template writes the date of the day, so that a text would not be the same tomorrow; "
        "say which: ChatTemplate(…, date='2026-01-31')"
    )


class _Dicts:
    """The template's `dict`, without what hangs on the class."""

    def __call__(self, *pairs: Any, **named: Any) -> dict[Any, Any]:
        return dict(*pairs, **named)

    def fromkeys(self, keys: Any, value: Any = None) -> dict[Any, Any]:
        return dict.fromkeys(keys, value)


class _Namespace(jinja2.utils.Namespace):
    """The template's `namespace`, without names that begin with an underscore."""

    def __init__(*given: Any, **named: Any) -> None:  # `self` may be one of the names
        self, pairs = given[0], dict(*given[1:], **named)
        for name in pairs:
            _check_name(name)
        jinja2.utils.Namespace.__init__(self, pairs)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        super().__setitem__(name, value)


def _check_name(name: Any) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise jinja2.exceptions.SecurityError(f"a template sets no {name!r} on a namespace")


_REASONING = ("reasoning_content", "thinking", "reasoning")


def _with_reasoning(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """A message whose reasoning has the names that templates read, whichever it was given."""
    reasoning = next((message[key] for key in _REASONING if message.get(key) is not None), None)
    return message if reasoning is None else {"thinking": reasoning, **message, "reasoning_content": reasoning}
