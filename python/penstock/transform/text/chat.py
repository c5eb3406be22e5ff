"""Conversations as tokens, and which of them a model is to learn."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from typing import Any, NamedTuple

import pyarrow as pa

from penstock.core.arguments import check_texts, check_whole, hold_as_int, is_encodable, is_one_of
from penstock.core.columns.spec import Columns, Field, Spec
from penstock.core.errors import PlanError, RowError
from penstock.core.installing import pip_install
from penstock.core.messages import quoted
from penstock.transform.family import Chains, Workspace
from penstock.transform.text.chat_files import Template, chat_of
from penstock.transform.text.chat_tokens import ChatTokens
from penstock.transform.text.native_texts import arrow_texts, ragged
from penstock.transform.text.op import Step, TextOp, check_new
from penstock.transform.text.tokenize import Tokenize

_MASKS = ("assistant", "last")
_SPECIAL = ("error", "as_token")
_TAKEN = {"messages", "tools", "documents", "add_generation_prompt"}
_FORGED = "take it out, or say special_in_messages='as_token'"
_DO = "give a list of messages, each with a role and content"


@dataclass(frozen=True)
class ChatTemplate(TextOp):
    """Conversations as tokens, int32, and a mask of those to learn, uint8 of 0 and 1: both ragged, of the same lengths, in columns of their own.

    The column holds the messages of each row as JSON, `[{"role": "user", "content": "Hi"}, …]`; where a file has them as nested values, `ps.read(…, columns={"messages": ps.Column(feature="messages", dtype="string")})` takes their JSON from
    JSON lines, and `roles=` names the other column of Parquet, which has lists of roles beside lists of contents. Texts and tokens are those of transformers' `apply_chat_template`.

    The mask has what stands between {% generation %} and {% endgeneration %}. Of a template without these, it has what each message of the assistant adds behind the prompt for it, the end of its turn included; where earlier messages
    change once more follow (some templates drop earlier reasoning), rows are bad, and the error says so. A conversation without an answer has a mask of zeros.

    Args:
        tokenizer: a fast tokenizer of transformers, the folder that `save_pretrained` wrote, or whatever `Tokenize` takes, with `template`. Masks need a tokenizer.json or tiktoken.
        template: the Jinja template as text. Default: None, the tokenizer's own.
        mask: "assistant", all its messages; "last", the last of these; None for no mask. Default: "assistant".
        into: the column of tokens. Default: "tokens".
        mask_into: the column of the mask. Default: "assistant_mask".
        roles: the column with lists of roles, where the op's column holds lists of contents. Default: None.
        tools: a column with the tools of each row as JSON, a list of JSON Schemas. Default: None.
        variables: what the template reads beside messages and tools, {"enable_thinking": False} for example. Default: None; the tokenizer's special tokens are always there.
        date: the day that the template writes, "2026-01-31". Default: None: a template that asks for the day of today is an error, as the same rows would give other tokens tomorrow.
        special_in_messages: what a special token in a message is: "error", the row is bad, so that no message can forge a turn; or "as_token", its id, as in transformers. Default: "error".
        max_length: tokens of a row at most; the last ones are dropped. Default: None, all.

    Returns:
        The op, for `Dataset.transform`.

    Raises:
        PlanError: for what is no tokenizer, a template that does not parse, and by `transform` for a column of another kind.
        DataError: from a Loader, for messages without a role, that the template refuses, or whose answers cannot be told.

    Example:
        import penstock as ps
        from tokenizers import Tokenizer, models, pre_tokenizers

        bytes_only = Tokenizer(models.BPE({letter: i for i, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}, []))
        bytes_only.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        template = "{% for m in messages %}{{ m.role[0] + ':' + m.content + '.' }}{% endfor %}{% if add_generation_prompt %}a:{% endif %}"
        chats = ps.from_arrays({"messages": ['[{"role": "user", "content": "1"}, {"role": "assistant", "content": "2"}]']})
        chats = chats.transform(messages=ps.text.ChatTemplate(bytes_only, template)).select(["tokens", "assistant_mask"])
        next(iter(ps.Loader(chats.batch(1))))["assistant_mask"].to_pylist()  # "u:1.a:2." [[0, 0, 0, 0, 0, 0, 1, 1]]
    """

    tokenizer: Any
    template: str | None = None
    _: KW_ONLY
    mask: str | None = "assistant"
    into: str = "tokens"
    mask_into: str = "assistant_mask"
    roles: str | None = None
    tools: str | None = None
    variables: Any = None
    date: str | None = None
    special_in_messages: str = "error"
    max_length: int | None = None

    def __post_init__(self) -> None:
        """Makes a model of the tokenizer, and checks what was said; PlanError."""
        chat = chat_of(self.tokenizer)
        template = chat.template if self.template is None else self.template
        if template is None:
            raise PlanError("ChatTemplate: the tokenizer has no template of its own; give template=, Jinja as text")
        try:
            given = json.loads(self.variables) if isinstance(self.variables, str) else dict(self.variables or {})
            variables = json.dumps({**chat.variables, **given}, sort_keys=True, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise PlanError(
                f"ChatTemplate: variables={quoted(self.variables)} are no values by name as JSON has them ({error}); pass a dict of numbers, text and lists"
            ) from None
        if taken := sorted({*given} & _TAKEN):
            raise PlanError(
                f"ChatTemplate: variables={quoted(given)}: {', '.join(taken)} come from the rows; leave them out"
            )
        self._check_words(template)
        spans = None if self.mask is None else "offsets"
        model = Tokenize(chat.tokenizer, add_special_tokens=False, special_in_text="as_token", offsets=spans).tokenizer
        for name, value in (("tokenizer", model), ("template", Template(template)), ("variables", variables)):
            object.__setattr__(self, name, value)
        self._renderer()
        ChatTokens(model, spans=self.mask is not None)

    def _check_words(self, template: Any) -> None:
        check_texts("ChatTemplate", template=template, into=self.into, mask_into=self.mask_into)
        check_texts("ChatTemplate", **{name: value for name, value in (("roles", self.roles), ("tools", self.tools), ("date", self.date)) if value is not None})  # fmt: skip
        for word, value, choices in (("mask", self.mask, _MASKS), ("special_in_messages", self.special_in_messages, _SPECIAL)):  # fmt: skip
            if not is_one_of(value, choices) and (word, value) != ("mask", None):
                raise PlanError(f"ChatTemplate: {word}={quoted(value)}; pass one of {', '.join(map(repr, choices))}")
        if self.max_length is not None:
            check_whole("ChatTemplate", max_length=self.max_length)
            hold_as_int(self, "max_length")
        if self.into == self.mask_into:
            raise PlanError(
                f"ChatTemplate: into= and mask_into= are both {quoted(self.into)}; give each its own column"
            )

    def _renderer(self) -> Any:
        try:
            from penstock.transform.text.chat_jinja import ChatRenderer
        except ImportError:
            raise PlanError(f"ChatTemplate needs jinja2; {pip_install('jinja2')}") from None
        try:
            now = None if self.date is None else datetime.fromisoformat(self.date)
        except ValueError:
            raise PlanError(f"ChatTemplate: date={quoted(self.date)} is no day; write it as '2026-01-31'") from None
        return ChatRenderer(self.template or "", json.loads(self.variables), now)

    def needs(self, name: str) -> tuple[str, ...]:
        """See `Op`."""
        return (name, *(one for one in (self.roles, self.tools) if one is not None))

    def makes(self, name: str) -> tuple[str, ...]:
        """See `Op`."""
        return (self.into,) if self.mask is None else (self.into, self.mask_into)

    def beside(self, name: str, chains: Chains) -> None:
        """See `Op`."""
        if chains[name][0] != self or any(one in chains for one in self.needs(name)[1:]):
            raise PlanError(
                f"transform: ChatTemplate on column {quoted(name)}: write what changes its columns in a transform before"
            )

    def output(self, name: str, given: Spec) -> Spec:
        """See `Op`."""
        shape = () if self.roles is None else (None,)
        for column, wanted in ((name, shape), (self.roles, shape), (self.tools, ())):
            if (
                column is not None
                and column in given
                and (given[column].dtype, given[column].shape) != ("string", wanted)
            ):
                what = "lists of text" if wanted else "text, messages as JSON (or roles=, where they are lists)"
                raise PlanError(
                    f"transform: ChatTemplate on column {quoted(column)}, which is {given[column]}; give it {what}"
                )
        check_new("ChatTemplate", self.makes(name), given)
        made = {self.into: Field("int32", (None,)), self.mask_into: Field("uint8", (None,))}
        return {**given, **{one: made[one] for one in self.makes(name)}}

    def step(self, name: str, fields: Spec, number: int) -> Step:
        """See `TextOp`."""
        run = _Chats(self, name)
        return lambda columns, keys, work: run(columns, work)  # noqa: ARG005


class _Row(NamedTuple):
    text: str
    spans: list[tuple[int, int]]


class _Chats:
    """Conversations of a batch as tokens."""

    def __init__(self, op: ChatTemplate, name: str) -> None:
        self._op, self._name = op, name
        self._renderer = op._renderer()  # noqa: SLF001  # its own
        self._tokens = ChatTokens(op.tokenizer, spans=op.mask is not None)

    def __call__(self, columns: Columns, work: Workspace) -> Columns:
        rows, said, errors = list[_Row](), list[str](), list[RowError]()
        for row, (messages, tools) in enumerate(self._given(columns)):
            try:
                chat, known = _read(messages), None if tools is None else _from_json(tools, "its tools")
                rows.append(self._render(chat, known))
                said.append(_said([chat, known]))
            except ValueError as error:
                rows.append(_Row("", []))
                said.append("")
                errors.append(RowError(row, f"column {quoted(self._name)}: {error}", _DO))
        if self._op.special_in_messages == "error":
            for row, found in self._tokens.special_in(said):
                rows[row] = _Row("", [])
                errors.append(RowError(row, f"column {quoted(self._name)}: {found}", _FORGED))
        errors.sort(key=lambda error: error.row)
        if errors and work.bad is None:
            raise errors[0]
        if errors and work.bad is not None:
            work.bad(errors)
        most = self._op.max_length
        ids, edges, mask = self._tokens([one.text for one in rows], [one.spans for one in rows], most, work.threads)
        made: Columns = {self._op.into: ragged(ids, edges, None)}
        if mask is not None:
            made[self._op.mask_into] = ragged(mask, edges, None)
        return made

    def _given(self, columns: Columns) -> Iterator[tuple[Any, Any]]:
        """Each row's messages and tools, as they are written."""
        op, count = self._op, len(columns[self._name])
        tools = [None] * count if op.tools is None else _texts(op.tools, columns[op.tools])
        if op.roles is None:
            yield from zip(_texts(self._name, columns[self._name]), tools, strict=True)
            return
        contents, roles = (_lists(one, columns[one]) for one in (self._name, op.roles))
        yield from zip(zip(roles, contents, strict=True), tools, strict=True)

    def _render(self, messages: Any, tools: Any) -> _Row:
        made = self._learnt(messages, tools)
        if not is_encodable(made.text):
            raise ValueError("it holds half of a surrogate pair, which is no character")
        return made

    def _learnt(self, messages: Any, tools: Any) -> _Row:
        if self._op.mask is None:
            return _Row(self._renderer.render(messages, tools).text, [])
        from penstock.transform.text.chat_spans import learnt

        return _Row(*learnt(self._renderer, messages, tools, self._op.mask))  # type: ignore[arg-type]  # one of the two


def _read(given: Any) -> list[Any]:
    """A row's messages; ValueError for what are none."""
    if given is None:
        raise ValueError("it is null")
    messages = _of_lists(given) if isinstance(given, tuple) else _from_json(given, "it")
    if not isinstance(messages, list):
        raise ValueError(f"it holds {quoted(messages)}, which is no list of messages")  # noqa: TRY004  # of data
    for place, message in enumerate(messages):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise ValueError(f"message {place} has no role: {quoted(message)}")  # noqa: TRY004  # of data
        if not isinstance(message.get("content"), (str, list, type(None))):
            raise ValueError(  # noqa: TRY004  # of data
                f"message {place} has a content that is neither text nor a list of parts: {quoted(message['content'])}"
            )
    return messages


def _from_json(text: Any, what: str) -> Any:
    if isinstance(text, UnicodeDecodeError):
        raise ValueError(f"{what} is no UTF-8 from byte {text.start} on")  # noqa: TRY004  # of data
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"{what} is no JSON ({error})") from None
    except RecursionError:
        raise ValueError(f"{what} is nested too deeply") from None


def _texts(name: str, column: Any) -> list[Any]:
    """Each row's text, or what its bytes are no text for."""
    texts = arrow_texts(name, column)
    try:
        return texts.to_pylist()  # type: ignore[no-any-return]
    except UnicodeDecodeError:
        return list(map(_text_or_error, texts.cast(pa.large_binary()).to_pylist()))


def _text_or_error(data: bytes | None) -> Any:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError as error:
        return error


def _lists(name: str, column: Any) -> list[Any]:
    if not isinstance(column, (pa.Array, pa.ChunkedArray)):
        raise PlanError(
            f"transform: ChatTemplate on column {quoted(name)}, which is {column.dtype}; give it lists of text"
        )
    return column.to_pylist()  # type: ignore[no-any-return]


def _of_lists(given: tuple[Any, Any]) -> Any:
    roles, contents = given
    if roles is None or contents is None or len(roles) != len(contents):
        raise ValueError(f"it has {len(roles or ())} roles and {len(contents or ())} contents")
    return [{"role": role, "content": content} for role, content in zip(roles, contents, strict=True)]


def _said(value: Any) -> str:
    """All texts of messages, those that a template may write one behind the other side by side, then all names."""
    names = list[str]()
    return "".join([*_texts_in(value, names), "\n", "\n".join(names)])


def _texts_in(value: Any, names: list[str]) -> Iterator[str]:
    if isinstance(value, str):
        yield value if is_encodable(value) else ""
    elif isinstance(value, Mapping):
        names += filter(is_encodable, value)
        yield from _texts_in([*value.values()], names)
    elif isinstance(value, list):
        for one in value:
            yield from _texts_in(one, names)
