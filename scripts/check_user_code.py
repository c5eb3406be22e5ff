"""Lets Pyright look at the Python of README.md and of every page of docs/ as at a user's code: the check of `make lint`.

It is basedpyright, since its wheels bring all that it needs, where that of Pyright fetches the checker from npm when it first runs. In its mode "standard" it
judges as Pyright and Pylance do.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
#: Pages say one thing after another, and reuse names; what they leave out is no mistake of theirs.
SETTINGS = {
    "typeCheckingMode": "standard",
    "extraPaths": [str(ROOT / "python")],
    "reportRedeclaration": False,
    "reportPossiblyUnboundVariable": False,
    "reportOptionalMemberAccess": False,
    "reportPrivateImportUsage": False,
}
#: Libraries that make their attributes when they are asked for, which no checker sees.
LAZY = re.compile(r"^ *(import|from) (jax|keras|tensorflow)\b", re.MULTILINE)
#: Trainers that take any dataset and loader, and whose annotations name their own.
DUCK_TYPED = re.compile(r"transformers\.Trainer\b")


def user_code(page: Path) -> str:
    """The Python of a page, each line with the number that it has there."""
    lines, is_code = [], False
    for line in page.read_text(encoding="utf-8").splitlines():
        fence = re.match(r"```(\w*)", line)
        if fence:
            is_code = fence[1] == "python"
        lines.append(line if is_code and not fence else "")
    code = "\n".join(lines).rstrip() + "\n"
    left_out = ["reportAttributeAccessIssue"] if LAZY.search(code) else []
    if DUCK_TYPED.search(code):
        left_out += ["reportArgumentType", "reportIncompatibleMethodOverride", "reportAttributeAccessIssue"]
    return code + "".join(f"# pyright: {rule}=false\n" for rule in left_out)


def complaints(modules: dict[str, str]) -> list[str]:
    """What Pyright says of modules (file name: code), each as "name:line: what is wrong"."""
    with tempfile.TemporaryDirectory() as folder:
        for name, code in modules.items():
            (Path(folder) / name).write_text(code, encoding="utf-8")
        (Path(folder) / "pyrightconfig.json").write_text(json.dumps(SETTINGS), encoding="utf-8")
        checker = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable, "--outputjson", "-p", folder]
        run = subprocess.run(checker, capture_output=True, text=True, check=False)  # noqa: S603
    if not run.stdout:
        raise SystemExit(f"basedpyright ended with status {run.returncode}: {run.stderr}")
    found = json.loads(run.stdout)
    if found["summary"]["filesAnalyzed"] != len(modules):
        raise SystemExit(f"basedpyright looked at {found['summary']['filesAnalyzed']} of {len(modules)} modules")
    return [
        f"{Path(one['file']).name}:{one['range']['start']['line'] + 1}: {one['message']} ({one.get('rule', 'syntax')})"
        for one in found["generalDiagnostics"]
        if one["severity"] == "error"
    ]


def main() -> None:
    """Checks all pages; ends with status 1 if one is wrong."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    modules = {f"{page.stem}.py": code for page in pages if (code := user_code(page)).strip()}
    wrong = complaints(modules)
    print(*wrong, f"user code: {len(wrong)} errors in {len(modules)} pages", sep="\n")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
