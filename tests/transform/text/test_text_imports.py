"""What `ps.text` imports: no package that a plan does without."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_PROGRAM = """
import base64, sys
sys.modules |= dict.fromkeys(["jinja2", "tokenizers", "tiktoken", "sentencepiece"])  # as if not installed

import penstock as ps

with open("letters.tiktoken", "w") as file:
    file.write("".join(f"{base64.b64encode(bytes([byte])).decode()} {byte}\\n" for byte in range(256)))
letters = ps.text.Tiktoken("letters.tiktoken", pattern=r"\\S+|\\s+", special_tokens={"<|end|>": 256})
rows = ps.from_arrays({"text": ["to be", "é"]}).transform(text=ps.text.Tokenize(letters, end="<|end|>"))
batch = next(iter(ps.Loader(rows.batch(2))))
assert batch["tokens"].to_pylist() == [[*b"to be", 256], [*"é".encode(), 256]]
packed = next(iter(ps.Loader(rows.pack("tokens", length=5).batch(1, steps=1, lanes=1))))
assert packed["tokens"].shape == (1, 5)
assert "pandas" not in sys.modules, "pyarrow.array or to_numpy imported it: see core/columns/plain.py"
"""


def test_tokens_need_no_optional_package(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
