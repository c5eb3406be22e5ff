"""A server of Azure's blobs on loopback: Microsoft's Azurite, as scripts/test_servers.sh installs it, in memory."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import re
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from urllib.parse import quote

PROGRAM = Path(__file__).parent.parent.parent / "target/azurite/node_modules/azurite/dist/src/blob/main.js"
#: The account that every Azurite has, and its key, which Microsoft's documentation names.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_VERSION = "2023-11-03"


def why_not() -> str:
    """Why the server cannot run here; "" if it can."""
    if shutil.which("node") is None:
        return "Node.js is not installed"
    return "" if PROGRAM.exists() else "Azurite is not installed; scripts/test_servers.sh does it where npm is"


@dataclass(frozen=True)
class Azure:
    """A running server with one container, "data"."""

    port: int
    root = "az://data/"

    @property
    def environment(self) -> dict[str, str]:
        """By which a client finds it."""
        return {
            "AZURE_STORAGE_ENDPOINT": f"http://127.0.0.1:{self.port}/{ACCOUNT}",
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
        }

    def put(self, files: dict[str, bytes]) -> None:
        """Uploads objects."""
        for name, content in files.items():
            self._ask("PUT", f"/data/{quote(name)}", content)

    def delete(self, name: str) -> None:
        """Deletes an object."""
        self._ask("DELETE", f"/data/{quote(name)}")

    def make_container(self) -> None:
        """The container."""
        self._ask("PUT", "/data?restype=container")

    def _ask(self, method: str, path: str, body: bytes = b"") -> None:
        """A request signed with the account's key ("Authorize with Shared Key" in Azure's documentation)."""
        headers = {"x-ms-blob-type": "BlockBlob", "x-ms-date": formatdate(usegmt=True), "x-ms-version": _VERSION}
        name, _, query = path.partition("?")
        signed = [method, "", "", str(len(body) or ""), "", "application/octet-stream", *[""] * 6]
        signed += [f"{key}:{value}" for key, value in sorted(headers.items())]
        signed += [f"/{ACCOUNT}/{ACCOUNT}{name}", *([query.replace("=", ":")] if query else [])]
        digest = hmac.new(base64.b64decode(KEY), "\n".join(signed).encode(), hashlib.sha256).digest()
        headers["authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
        headers["content-type"] = "application/octet-stream"
        url = f"http://127.0.0.1:{self.port}/{ACCOUNT}{path}"
        urllib.request.urlopen(urllib.request.Request(url, body, headers, method=method), timeout=10).close()


@contextlib.contextmanager
def azure_server() -> Iterator[Azure]:
    """Runs a server while the context lasts."""
    folder = tempfile.mkdtemp(prefix="penstock-azurite-")
    options = ["--inMemoryPersistence", "--blobHost", "127.0.0.1", "--blobPort", "0", "--skipApiVersionCheck"]
    process = subprocess.Popen(
        ["node", str(PROGRAM), *options, "--silent", "--disableTelemetry"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
    )
    try:
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line)
            if found := re.search(r"listens on http://127\.0\.0\.1:(\d+)", line):
                break
        else:
            raise AssertionError("".join(said))
        server = Azure(int(found[1]))
        server.make_container()
        yield server
    finally:
        process.kill()
        process.communicate()
        shutil.rmtree(folder, ignore_errors=True)
