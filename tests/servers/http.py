"""A plain HTTP server of files on loopback: Werkzeug's, with ranges, ETags and nothing to list."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from werkzeug.serving import make_server
from werkzeug.utils import send_from_directory
from werkzeug.wrappers import Request, Response


@contextlib.contextmanager
def http_server(folder: Path, says: str = "etag date", asked: list[dict[str, str]] | None = None) -> Iterator[str]:
    """Serves the files of a folder while the context lasts; gives what their URLs begin with.

    says: which of "etag", "weak" (an ETag), "date", and "listed" (a date for HEAD alone) answers have. asked: the headers of
    all GETs are noted there.
    """
    known = says.split()

    @Request.application
    def serve(request: Request) -> Response:
        if asked is not None and request.method == "GET":
            asked.append({name.lower(): value for name, value in request.headers.items()})
        if request.headers.get("If-Match", "").startswith("W/"):
            return Response(status=412)  # RFC 9110, 13.1.1: strong comparison
        response = send_from_directory(folder, request.path.lstrip("/"), request.environ, etag="etag" in known)
        if "weak" in known:
            modified = os.stat(folder / request.path.lstrip("/")).st_mtime_ns
            response.headers["ETag"] = f'W/"{modified:x}"'
        if "date" not in known and not ("listed" in known and request.method == "HEAD"):
            response.headers.pop("Last-Modified", None)
        response.direct_passthrough = False
        response.make_sequence()
        response.close()  # a client that goes away would leave the file open
        return response

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server("127.0.0.1", 0, serve, threaded=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), name="http-server", daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()
