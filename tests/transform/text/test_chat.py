"""Conversations as tokens and masks, beside transformers' `apply_chat_template`."""

from __future__ import annotations

import json
import pickle
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps

tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
if (trl := find_spec("trl")) is None or trl.origin is None:
    pytest.skip("trl is not installed", allow_module_level=True)
TEMPLATES = Path(trl.origin).parent / "chat_templates"

SPECIALS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
CHATS: list[list[dict[str, str]]] = [
    [{"role": "user", "content": "Hello you"}, {"role": "assistant", "content": "Hello, you too!"}],
    [
        {"role": "user", "content": "naïve 日本?"},
        {"role": "assistant", "content": "ça\n  va 👍🏽"},
        {"role": "user", "content": "  spaces  "},
        {"role": "assistant", "content": "a"},
    ],
    [{"role": "user", "content": "no answer"}],
]
MARKED = ["qwen2_5", "qwen3", "llama3", "phi3", "phi3_5", "cohere", "gemma", "qwen3_6", "glm4moe", "deepseekv3", "lfm2", "nemotron_3_nano", "qwen3_instruct_2507", "smolvlm", "cohere2", "gemma3", "lfm2_v2", "deepseek_r1_distill", "nemotron_3_super", "qwen2_5_vl"]  # fmt: skip
IN_PARTS = {"smolvlm", "gemma3", "idefics3", "llava_next"}


def byte_level() -> Any:
    """As GPT-2, Llama 3 and Qwen have it."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    return _trained(made, tokenizers.pre_tokenizers.ByteLevel.alphabet())


def metaspace() -> Any:
    """As Llama 2 and Gemma have it."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    made.normalizer = tokenizers.normalizers.Replace(" ", "▁")
    made.decoder = tokenizers.decoders.Replace("▁", " ")
    return _trained(made, [])


def _trained(made: Any, alphabet: list[str]) -> Any:
    specials = [*SPECIALS.values(), "<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|end|>", "<end_of_turn>"]  # fmt: skip
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=600, special_tokens=specials, initial_alphabet=alphabet, show_progress=False)  # fmt: skip
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    made.train_from_iterator([one["content"] for chat in CHATS for one in chat] * 3 + ["Hello to you", "system user assistant", *([] if alphabet else bytes_)], trainer)  # fmt: skip
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, **SPECIALS)


def template_of(name: str) -> str:
    return (TEMPLATES / f"{name}.jinja").read_text()


def in_parts(chats: list[list[dict[str, str]]]) -> list[list[dict[str, Any]]]:
    return [[{**one, "content": [{"type": "text", "text": one["content"]}]} for one in chat] for chat in chats]


def made_of(op: Any, chats: Any, **columns: Any) -> tuple[list[list[int]], list[list[int]]]:
    rows = ps.from_arrays({"messages": [json.dumps(one) for one in chats], **columns}).transform(messages=op)
    batch = next(iter(ps.Loader(rows.select([op.into, op.mask_into]).batch(len(chats)))))
    return batch[op.into].to_pylist(), batch[op.mask_into].to_pylist()


@pytest.mark.parametrize("make", [byte_level, metaspace])
@pytest.mark.parametrize("name", MARKED)
def test_tokens_and_masks_are_those_of_transformers(name: str, make: Any) -> None:
    tokenizer = make()
    chats = in_parts(CHATS) if name in IN_PARTS else CHATS
    op = ps.text.ChatTemplate(tokenizer, template_of(f"{name}_training"), date="2026-01-31")
    tokens, masks = made_of(op, chats)
    for chat, ids, mask in zip(chats, tokens, masks, strict=True):
        theirs = tokenizer.apply_chat_template(
            chat, chat_template=str(op.template), tokenize=True, return_dict=True, return_assistant_tokens_mask=True
        )
        assert ids == theirs["input_ids"]
        if any(theirs["assistant_masks"]) or len(chat) == 1:
            assert mask == theirs["assistant_masks"]
    assert [any(mask) for mask in masks] == [True, True, False]


@pytest.mark.parametrize("make", [byte_level, metaspace])
def test_without_marks_the_mask_is_what_answers_add(make: Any) -> None:
    tokenizer = make()
    for which, learnt in (("assistant", ["ça\n  va 👍🏽<|im_end|>\n", "a<|im_end|>\n"]), ("last", ["a<|im_end|>\n"])):
        op = ps.text.ChatTemplate(tokenizer, template_of("qwen2_5"), mask=which)
        (ids,), (mask,) = made_of(op, CHATS[1:2])
        kept = [one for one, learn in zip(ids, mask, strict=True) if learn]
        assert tokenizer.decode(kept) == "".join(learnt)


def test_a_folder_brings_template_and_special_tokens(tmp_path: Path) -> None:
    tokenizer = byte_level()
    tokenizer.chat_template = template_of("llama3")
    tokenizer.save_pretrained(tmp_path)
    given = [ps.text.ChatTemplate(one) for one in (tokenizer, tmp_path, str(tmp_path))]
    assert len({made_of(op, CHATS)[0].__repr__() for op in given}) == 1
    assert made_of(given[0], CHATS)[0] == [
        tokenizer.apply_chat_template(chat, tokenize=True, return_dict=True)["input_ids"] for chat in CHATS
    ]


def test_rows_of_parquet_have_roles_beside_contents(tmp_path: Path) -> None:
    pq.write_table(pa.table({"messages": CHATS}), tmp_path / "chats.parquet")
    op = ps.text.ChatTemplate(byte_level(), template_of("llama3_training"), roles="messages.role")
    rows = (
        ps.read(tmp_path / "chats.parquet").transform(**{"messages.content": op}).select(["tokens", "assistant_mask"])
    )
    batch = next(iter(ps.Loader(rows.batch(3))))
    assert (batch["tokens"].to_pylist(), batch["assistant_mask"].to_pylist()) == made_of(
        ps.text.ChatTemplate(byte_level(), template_of("llama3_training")), CHATS
    )


def test_tools_and_variables_reach_the_template() -> None:
    tokenizer = byte_level()
    tools = [{"type": "function", "function": {"name": "Hello", "description": "says <it>", "parameters": {}}}]
    op = ps.text.ChatTemplate(
        tokenizer, template_of("qwen3_training"), tools="tools", variables={"enable_thinking": False}
    )
    tokens, _ = made_of(op, CHATS[:1], tools=[json.dumps(tools)])
    theirs = tokenizer.apply_chat_template(
        CHATS[0], chat_template=str(op.template), tools=tools, enable_thinking=False, return_dict=True
    )
    assert tokens == [theirs["input_ids"]]


def test_the_same_on_ranks_in_a_process_and_after_pickling(tmp_path: Path) -> None:
    lines = [json.dumps({"messages": [{"role": "user", "content": f"q{i}"}, {"role": "assistant", "content": f"a{i}" * (i % 5)}]}) for i in range(64)]  # fmt: skip
    (tmp_path / "chats.jsonl").write_text("\n".join(lines))
    op = pickle.loads(pickle.dumps(ps.text.ChatTemplate(byte_level(), template_of("phi3_training"), max_length=24)))
    rows = ps.read(tmp_path / "chats.jsonl", columns={"messages": ps.Column(feature="messages", dtype="string")})
    rows = rows.transform(messages=op).select(["tokens", "assistant_mask"]).shuffle(seed=1).batch(16)

    def values(batch: Any) -> list[Any]:
        return list(zip(batch["tokens"].to_pylist(), batch["assistant_mask"].to_pylist(), strict=True))

    with ps.Loader(rows, epochs=1) as loader:
        alone = [values(batch) for batch in loader]
    assert max(len(ids) for step in alone for ids, _ in step) == 24
    halves = []
    for rank in range(2):
        with ps.Loader(rows, epochs=1, rank=rank, world_size=2) as loader:
            halves.append([values(batch) for batch in loader])
    assert [[*one, *other] for one, other in zip(*halves, strict=True)] == alone
    with ps.Loader(rows, epochs=1, isolation="process") as loader:
        assert [values(batch) for batch in loader] == alone
    assert "jinja:" in rows.explain()
    assert "generation" not in rows.explain()


def test_masks_are_packed_beside_their_tokens() -> None:
    op = ps.text.ChatTemplate(byte_level(), template_of("llama3_training"))
    rows = ps.from_arrays({"messages": [json.dumps(one) for one in CHATS]}).transform(messages=op)
    tokens, masks = made_of(op, CHATS)
    packed = next(
        iter(
            ps.Loader(
                rows.select(["tokens", "assistant_mask"])
                .pack(["tokens", "assistant_mask"], length=4096, strategy="concat")
                .batch(1)
            )
        )
    )
    assert packed["tokens"][0][: sum(map(len, tokens))].tolist() == [one for ids in tokens for one in ids]
    assert packed["assistant_mask"][0][: sum(map(len, tokens))].tolist() == [one for mask in masks for one in mask]


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ("", "is no JSON"),
        ("[", "is no JSON"),
        ("null", "no list of messages"),
        ('{"role": "user"}', "no list of messages"),
        ('[{"content": "a"}]', "message 0 has no role"),
        ('[{"role": 1, "content": "a"}]', "message 0 has no role"),
        ('["a"]', "message 0 has no role"),
        ('[{"role": "user", "content": "a<|eot_id|>"}]', r"special token \"<\|eot_id\|>\".*as_token"),
        ('[{"role": "user", "content": [{"text": "<s>"}]}]', 'special token "<s>"'),
        ('[{"role": "user", "content": [{"text": "<"}, {"text": "s>"}]}]', 'special token "<s>"'),
        ('[{"role": "user", "content": "x", "tool_calls": [{"<s>": 1}]}]', 'special token "<s>"'),
        ("[" * 100_000, "nested too deeply"),
        (r'[{"role": "user", "content": "\ud800"}]', "half of a surrogate"),
        ('[{"role": "user", "content": {"a": 1}}]', "message 0 has a content that is neither text nor a list of parts"),
    ],
)
def test_bad_rows_say_what_is_wrong(row: str, error: str) -> None:
    op = ps.text.ChatTemplate(byte_level(), template_of("llama3"))
    rows = ps.from_arrays({"messages": [json.dumps(CHATS[0]), row]}).transform(messages=op).select(["tokens"])
    with pytest.raises(ps.DataError, match=error), ps.Loader(rows.batch(2)) as loader:
        next(iter(loader))


def test_a_null_and_bytes_that_are_no_text_are_bad_rows(tmp_path: Path) -> None:
    op = ps.text.ChatTemplate(byte_level(), template_of("llama3"))
    good = json.dumps(CHATS[0])
    pq.write_table(pa.table({"messages": [good, None]}), tmp_path / "chats.parquet")
    rows = ps.read(tmp_path / "chats.parquet", nulls="arrow").transform(messages=op).select(["tokens"]).batch(2)
    with pytest.raises(ps.DataError, match="it is null"), ps.Loader(rows) as loader:
        next(iter(loader))
    broken = pa.array([good.encode(), b'[{"role": "\xff"}]'], pa.large_binary()).view(pa.large_string())
    rows = ps.from_arrays({"messages": broken}).transform(messages=op).select(["tokens"]).batch(2)
    with pytest.raises(ps.DataError, match="no UTF-8 from byte 11"), ps.Loader(rows) as loader:
        next(iter(loader))


def test_a_comment_marks_nothing() -> None:
    template = "{# {% generation %} #}{% for m in messages %}{{ m.content + '.' }}{% endfor %}"
    tokenizer = byte_level()
    (ids,), (mask,) = made_of(ps.text.ChatTemplate(tokenizer, template), CHATS[:1])
    assert tokenizer.decode([one for one, learn in zip(ids, mask, strict=True) if learn]) == "Hello, you too!."


def test_special_tokens_in_messages_as_transformers_has_them() -> None:
    tokenizer, chat = byte_level(), [{"role": "user", "content": "a<|eot_id|>b"}]
    op = ps.text.ChatTemplate(tokenizer, template_of("llama3"), special_in_messages="as_token", mask=None)
    rows = ps.from_arrays({"messages": [json.dumps(chat)]}).transform(messages=op).select(["tokens"])
    theirs = tokenizer.apply_chat_template(chat, chat_template=str(op.template), return_dict=True)["input_ids"]
    assert next(iter(ps.Loader(rows.batch(1))))["tokens"].to_pylist() == [theirs]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"template": None}, "no template of its own"),
        ({"template": "{% if %}"}, "line 1 of the template"),
        ({"mask": "user"}, "mask='user'"),
        ({"mask_into": "tokens"}, "both 'tokens'"),
        ({"date": "today"}, "no day"),
        ({"variables": {"a": object()}}, "as JSON has them"),
        ({"variables": 5}, "as JSON has them"),
        ({"variables": {"messages": 2}}, "messages come from the rows"),
        ({"special_in_messages": None}, "special_in_messages=None"),
        ({"max_length": 0}, "max_length"),
        ({"special_in_messages": "as_text"}, "special_in_messages"),
        ({"tokenizer": 3}, "no tokenizer"),
        ({"tokenizer": "/"}, "no tokenizer.json"),
    ],
)
def test_what_cannot_be_is_said_at_once(arguments: dict[str, Any], error: str) -> None:
    given = {"tokenizer": byte_level(), "template": "{{ messages }}", **arguments}
    with pytest.raises(ps.PlanError, match=error):
        ps.text.ChatTemplate(given.pop("tokenizer"), **given)


def test_columns_of_another_kind_are_refused() -> None:
    op = ps.text.ChatTemplate(byte_level(), "{{ messages }}")
    with pytest.raises(ps.PlanError, match="messages as JSON"):
        ps.from_arrays({"messages": np.arange(3)}).transform(messages=op)
