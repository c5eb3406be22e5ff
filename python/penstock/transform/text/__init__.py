"""Text ops: `ps.text.Tokenize("tokenizer.json")`; a row here for each. `filters` has predicates for `filter`.

`op` says what an op is: a dataclass with what comes out and a step, from columns to columns. `family` runs chains of them. `bytes` has what byte-level models take. `tokenize` has tokens; `models` makes
bytes of users' tokenizers, and native tokenizers of these, and `same_ids` compares both. `chat` has conversations, `masking` and `middles` what is to be guessed. `text_to_text` cleans. `windows` is a function for `flat_map`. `native_texts` are columns as native code takes and gives them.
"""

from penstock.transform.text import filters
from penstock.transform.text.bytes import Bytes
from penstock.transform.text.chat import ChatTemplate
from penstock.transform.text.masking import MaskTokens, SpanCorruption
from penstock.transform.text.middles import FillInTheMiddle
from penstock.transform.text.models import Tiktoken
from penstock.transform.text.text_to_text import C4, Language, Normalize, Redact
from penstock.transform.text.tokenize import Tokenize
from penstock.transform.text.windows import Windows

__all__ = [
    "C4",
    "Bytes",
    "ChatTemplate",
    "FillInTheMiddle",
    "Language",
    "MaskTokens",
    "Normalize",
    "Redact",
    "SpanCorruption",
    "Tiktoken",
    "Tokenize",
    "Windows",
    "filters",
]
