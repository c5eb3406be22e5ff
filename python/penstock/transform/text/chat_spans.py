"""Which characters of a rendered chat a model is to learn."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from penstock.transform.text.chat_jinja import ChatRenderer, Messages, Rendered, Span

#: Whose words are learnt: those of all messages of the assistant, of the last one, or all that there is.
Learnt: TypeAlias = Literal["assistant", "last"]


def learnt(renderer: ChatRenderer, messages: Messages, tools: Any, which: Learnt) -> Rendered:
    """A conversation, and the spans that are learnt: what the template marks as generated, else what each message of the assistant adds behind a prompt.

    ValueError where a template without marks writes a conversation's beginning in another way once more messages follow.
    """
    whole = renderer.render(messages, tools)
    answers = [place for place, message in enumerate(messages) if message["role"] == "assistant"]
    if which == "last":
        answers = answers[-1:]
    if not renderer.marks:
        return Rendered(whole.text, [_added(renderer, messages, tools, place, whole.text) for place in answers])
    if which == "assistant" or not answers:
        return whole if answers else Rendered(whole.text, [])
    before = messages[: answers[0]]
    try:
        begin = _start(renderer, before, tools, whole.text, prompt=True)
    except ValueError:  # a prompt may begin what the template marks
        begin = _start(renderer, before, tools, whole.text)
    return Rendered(whole.text, [span for span in whole.generated if span[1] > begin])


def _start(renderer: ChatRenderer, messages: Messages, tools: Any, text: str, *, prompt: bool = False) -> int:
    """How much of a conversation's text these first messages are, with what asks for an answer if so wanted."""
    begin = renderer.render(messages, tools, prompt=prompt).text if messages else ""
    if not text.startswith(begin):
        raise ValueError(
            f"the template writes its first {len(messages)} messages in another way once more follow (as those that drop earlier reasoning do), "
            "so that nothing tells which characters are the assistant's"
        )
    return len(begin)


def _added(renderer: ChatRenderer, messages: Messages, tools: Any, place: int, text: str) -> Span:
    """The characters that message `place` adds behind what asks for it."""
    begin = _start(renderer, messages[:place], tools, text, prompt=True)
    return begin, _start(renderer, messages[: place + 1], tools, text)
