"""Texts of many scripts, and tokenizers made of them, for tests of tokenizing."""

from __future__ import annotations

import base64
import io
import json
import random
from typing import TYPE_CHECKING

from penstock.transform.text.same_ids import TEXTS

if TYPE_CHECKING:
    import sentencepiece
    import tiktoken
    import tokenizers

_GAPS = ["", " ", "  ", "\n", "\n\n  ", "\t", ".", "!\n\n ", "\r\n", "\u3000", "\u0301", "<|", "'s ", "123"]
_ENDS = ["", "", "  ", "\n", "\n  ", " \n \n", ". \n", "?\n\n \n", "\u0947\n\n "]


def mixed_texts(count: int, seed: int = 0) -> list[str]:
    """So many texts, pieces of those in a dozen scripts, put together anew with odd blanks between and behind."""
    chosen, made = random.Random(seed), [*TEXTS]
    while len(made) < count:
        one, other = chosen.choice(TEXTS), chosen.choice(TEXTS)
        front, back = chosen.randrange(len(one) + 1), chosen.randrange(len(other) + 1)
        made.append(one[:front] + chosen.choice(_GAPS) + other[back:] + chosen.choice(_ENDS))
    return made[:count]


def gpt_like() -> tokenizers.Tokenizer:
    """Byte-level BPE, as GPT-2's."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=900,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    made.train_from_iterator(mixed_texts(200, 1), trainer)
    return made


def clip_like() -> tokenizers.Tokenizer:
    """BPE with a suffix behind words, cut by a regular expression, as CLIP's."""
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

    made = Tokenizer(models.BPE(end_of_word_suffix="</w>", unk_token="<end>"))
    made.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
    )
    words = Regex(r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+")
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(words, "removed", invert=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=1200,
        special_tokens=["<start>", "<end>"],
        initial_alphabet=letters,
        end_of_word_suffix="</w>",
        show_progress=False,
    )
    alone = [letter for byte in range(256) for letter in [chr(byte)]]
    made.train_from_iterator([*mixed_texts(200, 1), *alone], trainer)
    made.post_processor = processors.RobertaProcessing(
        ("<end>", 1), ("<start>", 0), trim_offsets=False, add_prefix_space=False
    )
    return made


def bert_like(*, lowercase: bool = True) -> tokenizers.Tokenizer:
    """WordPiece, as BERT's."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=600, special_tokens=special, show_progress=False)
    made.train_from_iterator(mixed_texts(200, 1), trainer)
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return made


def llama_like() -> tokenizers.Tokenizer:
    """BPE with bytes for unknown letters and blanks as letters, as Llama 2's."""
    from tokenizers import Tokenizer, models, normalizers, trainers

    made = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    special = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=special[:3], limit_alphabet=60, show_progress=False)
    made.train_from_iterator(mixed_texts(200, 1), trainer)
    value = json.loads(made.to_str())
    vocabulary = value["model"]["vocab"]
    for token in special[3:]:
        vocabulary.setdefault(token, len(vocabulary))
    return Tokenizer.from_str(json.dumps(value))


def unigram_like() -> tokenizers.Tokenizer:
    """Unigram, as T5's in a tokenizer.json."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers

    made = Tokenizer(models.Unigram())
    made.normalizer = normalizers.NFKC()
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=500, special_tokens=["<unk>", "</s>"], unk_token="<unk>", show_progress=False
    )
    made.train_from_iterator(mixed_texts(200, 1), trainer)
    return Tokenizer.from_str(made.to_str())  # a file rounds scores


PATTERNS = {
    "gpt2": r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s",
    "cl100k": r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s",
    "o200k": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "own": r"\p{L}+(?=\s)|\p{L}+|\p{N}|[^\p{L}\p{N}]+",
}


def ranks() -> dict[bytes, int]:
    """Tokens of byte-level BPE with their ranks, bytes first: what a .tiktoken file holds."""
    from tokenizers import pre_tokenizers

    letters = sorted(pre_tokenizers.ByteLevel.alphabet(), key=ord)
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    byte_of = dict(zip(letters, [*plain, *sorted({*range(256)} - {*plain})], strict=True))
    tokens = {
        bytes(byte_of[letter] for letter in token) for token in gpt_like().get_vocab() if not token.startswith("<|end")
    }
    singles = [bytes([byte]) for byte in range(256)]
    order = [*singles, *sorted(tokens - {*singles}, key=lambda token: (len(token), token))]
    return {token: rank for rank, token in enumerate(order)}


def tiktoken_like(pattern: str) -> tiktoken.Encoding:
    """An encoding of tiktoken, with a gap between its special tokens."""
    import tiktoken

    tokens = ranks()
    special = {"<|endoftext|>": len(tokens), "<|fim|>": len(tokens) + 7}
    return tiktoken.Encoding(
        f"like {pattern}", pat_str=PATTERNS[pattern], mergeable_ranks=tokens, special_tokens=special
    )


def tiktoken_file(encoding: tiktoken.Encoding) -> bytes:
    """The same as a file."""
    lines = (
        f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in encoding._mergeable_ranks.items()
    )  # there is no other door
    return "".join(lines).encode()


def sentencepiece_like(kind: str, **options: object) -> sentencepiece.SentencePieceProcessor:
    """A model of SentencePiece, "unigram" or "bpe"."""
    import sentencepiece

    file = io.BytesIO()
    texts = [text.replace("\n", " ").replace("\x00", "") for text in mixed_texts(300, 1)]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=file,
        vocab_size=700,
        model_type=kind,
        minloglevel=2,
        character_coverage=0.98,
        hard_vocab_limit=False,
        **options,
    )
    return sentencepiece.SentencePieceProcessor(model_proto=file.getvalue())
