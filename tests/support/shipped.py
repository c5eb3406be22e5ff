"""Tokenizers that packages ship, and real texts in many scripts: what `make shipped` puts into target/shipped."""

from __future__ import annotations

import base64
import gettext
import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from support.texts import PATTERNS

FOLDER = Path(__file__).parents[2] / "target" / "shipped"

#: Django's translations, a language or more of each script.
LANGUAGES = {
    "Latin": "de fr vi pl tr",
    "Cyrillic": "ru uk",
    "Greek": "el",
    "Arabic": "ar fa",
    "Hebrew": "he",
    "Devanagari": "hi mr ne",
    "Bengali": "bn",
    "Thai": "th",
    "Han": "zh_Hans zh_Hant",
    "Kana": "ja",
    "Hangul": "ko",
    "Armenian": "hy",
    "Georgian": "ka",
    "Tamil": "ta",
    "Khmer": "km",
}
QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
CLIP = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
#: Encodings of tiktoken: where their ranks are, and their patterns.
ENCODINGS = {
    "cl100k": ("llama_index/core/_static/tiktoken_cache/9b5ad71b2ce5302211f9c61530b329a4922fc6a4", PATTERNS["cl100k"]),
    "o200k": ("llama_index/core/_static/tiktoken_cache/fb374d419588a4632f3f557e76b4b70aebbca790", PATTERNS["o200k"]),
    "Qwen": ("dashscope/resources/qwen.tiktoken", QWEN),
    "GPT-2": ("mlx_whisper/assets/gpt2.tiktoken", PATTERNS["gpt2"]),
    "Whisper": ("mlx_whisper/assets/multilingual.tiktoken", PATTERNS["gpt2"]),
}
MODELS = {
    "Mistral": "mistral_common/data/tokenizer.model.v1",
    "Jurassic-2, of the kind Unigram": "ai21_tokenizer/resources/j2-tokenizer/j2-tokenizer.model",
    "Mistral, third": "mistral_common/data/mistral_instruct_tokenizer_240323.model.v3",
}


def translations() -> dict[str, list[str]]:
    """Texts by script."""
    found = dict[str, list[str]]()
    for script, languages in LANGUAGES.items():
        texts = dict[str, None]()
        for language in languages.split():
            for file in sorted(FOLDER.glob(f"django/**/locale/{language}/LC_MESSAGES/*.mo")):
                with file.open("rb") as opened:
                    catalogue = gettext.GNUTranslations(opened)._catalog  # type: ignore[attr-defined]  # no other door
                texts |= dict.fromkeys(text for key, text in sorted(catalogue.items(), key=str) if key and text)
        found[script] = [*texts]
    return found


def real_texts(count: int) -> Iterator[str]:
    """So many: every translation, then some of them put together, of one script or of two."""
    by_script = translations()
    made = [text for texts in by_script.values() for text in texts]
    chosen = random.Random(0)
    while len(made) < count:
        one, other = (chosen.choice(by_script[script]) for script in chosen.choices([*by_script], k=2))
        made.append(
            chosen.choice([" ", "\n\n", ", ", "", "  \n"]).join([one, other, one[: chosen.randrange(len(one))]])
        )
    yield from made


def encoding(name: str) -> Any:
    """An encoding of tiktoken."""
    import tiktoken
    from tiktoken.load import load_tiktoken_bpe

    file, pattern = ENCODINGS[name]
    ranks = load_tiktoken_bpe(str(FOLDER / file))  # of Whisper with a token of no bytes
    return tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={"<|end|>": len(ranks) + 9})


def tekken() -> Any:
    """Mistral's, as an encoding of tiktoken."""
    import tiktoken

    said = json.loads((FOLDER / "mistral_common/data/tekken_240911.json").read_text())
    config = said["config"]
    count = config["default_vocab_size"] - config["default_num_special_tokens"]
    ranks = {base64.b64decode(one["token_bytes"]): one["rank"] for one in said["vocab"][:count]}
    return tiktoken.Encoding("tekken", pat_str=config["pattern"], mergeable_ranks=ranks, special_tokens={})


def clip() -> Any:
    """OpenAI's CLIP, as a tokenizer of `tokenizers`."""
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

    lines = gzip.decompress((FOLDER / "open_clip/bpe_simple_vocab_16e6.txt.gz").read_bytes()).decode().split("\n")
    merges = [(one, other) for one, _, other in (line.partition(" ") for line in lines[1 : 49_152 - 256 - 2 + 1])]
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = [chr(byte) for byte in plain] + [chr(256 + place) for place in range(256 - len(plain))]
    tokens = [*letters, *(f"{letter}</w>" for letter in letters), *map("".join, merges), "<start>", "<end>"]
    vocabulary = {token: place for place, token in enumerate(tokens)}
    made = Tokenizer(models.BPE(vocabulary, merges, end_of_word_suffix="</w>", unk_token="<end>"))
    made.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
    )
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(CLIP), "removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    end, start = (("<end>", vocabulary["<end>"]), ("<start>", vocabulary["<start>"]))
    made.post_processor = processors.RobertaProcessing(end, start, trim_offsets=False, add_prefix_space=False)
    made.add_special_tokens(["<start>", "<end>"])
    return made


def bert(*, lowercase: bool) -> Any:
    """BERT's for Chinese, which Chinese CLIP ships, as a tokenizer of `tokenizers`."""
    from tokenizers import BertWordPieceTokenizer, Tokenizer

    made = BertWordPieceTokenizer(str(FOLDER / "cn_clip/clip/vocab.txt"), lowercase=lowercase)
    return Tokenizer.from_str(made.to_str())


def sentencepiece(name: str) -> Any:
    """A model of SentencePiece."""
    from sentencepiece import SentencePieceProcessor

    return SentencePieceProcessor(model_proto=(FOLDER / MODELS[name]).read_bytes())
