"""Chat templates, beside transformers on the templates of real models, which trl ships."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.transform.text.chat_jinja import ChatRenderer
from penstock.transform.text.chat_spans import learnt

utils = pytest.importorskip("transformers.utils.chat_template_utils", reason="transformers is not installed")
if (trl := find_spec("trl")) is None or trl.origin is None:
    pytest.skip("trl is not installed", allow_module_level=True)
TEMPLATES = sorted(Path(trl.origin).parent.glob("chat_templates/*.jinja"))
BY_NAME = {path.stem: path.read_text() for path in TEMPLATES}
MARKED = [path.stem for path in TEMPLATES if re.search(r"\{%-?\s*generation", path.read_text())]

SPECIALS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"}
CALL = {"type": "function", "function": {"name": "weather", "arguments": {"city": "Köln", "days": 2}}}
CHATS: list[list[dict[str, Any]]] = [
    [{"role": "user", "content": "Hi <there> & 'you'"}, {"role": "assistant", "content": "Hello!"}],
    [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": " a\n"},
        {"role": "assistant", "content": "bé \n"},
        {"role": "user", "content": "c"},
        {"role": "assistant", "content": "日本"},
    ],
    [
        {"role": "user", "content": "Rain?"},
        {"role": "assistant", "content": "", "tool_calls": [CALL]},
        {"role": "tool", "name": "weather", "content": "sunny"},
        {"role": "assistant", "content": "No.", "reasoning": "It is sunny."},
    ],
    [{"role": "user", "content": "Rain?"}],
]
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "<what> it will be",
            "parameters": {"type": "object", "properties": {"city": {"type": "string", "description": "where"}}},
        },
    }
]


def theirs(template: str, chat: Any, tools: Any, *, prompt: bool, marks: bool) -> Any:
    """What transformers makes of it; None for an error."""
    try:
        texts, spans = utils.render_jinja_template(
            [chat],
            tools=tools,
            chat_template=template,
            return_assistant_tokens_mask=marks,
            add_generation_prompt=prompt,
            **SPECIALS,
        )
    except Exception:  # whatever a template raises
        return None
    return texts[0], [(begin, end) for begin, end in spans[0] if begin < end] if marks else []


def ours(renderer: ChatRenderer, chat: Any, tools: Any, *, prompt: bool) -> Any:
    try:
        made = renderer.render(chat, tools, prompt=prompt)
    except ValueError:
        return None
    return made.text, made.generated


@pytest.mark.parametrize("name", BY_NAME)
def test_texts_and_spans_are_those_of_transformers(name: str) -> None:
    template, compared = BY_NAME[name], 0
    renderer = ChatRenderer(template, SPECIALS, datetime.now(UTC))
    assert renderer.marks == (name in MARKED)
    for chat in CHATS:
        for tools in (None, TOOLS):
            for prompt in (False, True):
                expected = theirs(template, chat, tools, prompt=prompt, marks=renderer.marks)
                assert ours(renderer, chat, tools, prompt=prompt) == expected
                compared += expected is not None
    assert compared >= 4


@pytest.mark.parametrize("name", ["qwen2_5", "qwen3_instruct_2507", "llama3"])
def test_what_messages_add_is_what_training_templates_mark(name: str) -> None:
    plain, marked = (ChatRenderer(BY_NAME[one], SPECIALS) for one in (name, f"{name}_training"))
    for chat in CHATS[:2]:
        given, expected = ([one.text[slice(*span)].strip("\n") for span in one.generated] for one in (learnt(plain, chat, None, "assistant"), learnt(marked, chat, None, "assistant")))  # fmt: skip
        assert given == expected
        last = learnt(plain, chat, None, "last")
        assert [last.text[slice(*span)].strip("\n") for span in last.generated] == expected[-1:]


@pytest.mark.parametrize(
    "name", [one for one in MARKED if not one.startswith("llava")]
)  # which takes contents in parts
def test_the_last_answer_is_a_part_of_all(name: str) -> None:
    renderer = ChatRenderer(BY_NAME[name], SPECIALS, datetime.now(UTC))
    everything, last = (learnt(renderer, [*CHATS[0], *CHATS[1][-2:]], None, which) for which in ("assistant", "last"))
    assert last.generated == everything.generated[-len(last.generated) :]
    assert last.generated
    assert "Hello" not in "".join(last.text[slice(*span)] for span in last.generated)
    assert learnt(renderer, CHATS[3], None, "last").generated == []


def test_a_template_that_drops_reasoning_needs_marks() -> None:
    chat = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "<think>x</think>b"}, *CHATS[0]]
    with pytest.raises(ValueError, match=r"first \d messages in another way once more follow"):
        learnt(ChatRenderer(BY_NAME["deepseek_r1_distill"], SPECIALS), chat, None, "assistant")


def test_the_clock_is_not_read() -> None:
    renderer = ChatRenderer(BY_NAME["llama3_2"], SPECIALS)
    with pytest.raises(ValueError, match="date='2026-01-31'"):
        renderer.render(CHATS[0])
    dated = ChatRenderer(BY_NAME["llama3_2"], SPECIALS, datetime(2024, 7, 26, tzinfo=UTC))
    assert "Today Date: 26 Jul 2024" in dated.render(CHATS[0]).text


@pytest.mark.parametrize(
    ("template", "error"),
    [
        ("{{ raise_exception('roles must alternate') }}", "roles must alternate"),
        ("{{ messages[7].content }}", "has no element 7"),
        ("{{ messages.__class__.__mro__ }}", "unsafe"),
        ("{% set x = namespace(__init__=1) %}", "underscore|'__init__'"),
        ("{{ messages.append(1) }}", "unsafe"),
        ("{{ 'a' + 1 }}", "concatenate"),
        ("{{ 1 / 0 }}", "division"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "without an end"),
        ("{% for i in range(1000000) %}{% endfor %}", "(?i)range"),
        ("{{ ({% generation %}a{% endgeneration %}) }}", None),
        ("{% for %}", None),
        ("{% generation %}never closed", None),
        ("{% set a %}{% generation %}b{% endgeneration %}{% endset %}c{{ a }}", "moves what stands between"),
    ],
)
def test_templates_that_fail_say_why(template: str, error: str | None) -> None:
    if error is None:
        with pytest.raises(ps.PlanError, match="ChatTemplate: line 1 of the template"):
            ChatRenderer(template)
        return
    with pytest.raises(ValueError, match=error):
        ChatRenderer(template).render(CHATS[0])
