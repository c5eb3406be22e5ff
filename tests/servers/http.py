"""A plain HTTP server of files on loopback: Werkzeug's, with ranges, ETags and nothing to list."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator
from pathlib import Path

from werkzeug.serving import make_server
from werkzeug.utils import send_from_directory
from werkzeug.wrappers import Request, Response


@contextlib.contextmanager
def http_server(folder: Path) -> Iterator[str]:
    """Serves the files of a folder while the context lasts; gives what their URLs begin with."""

    @Request.application
    def serve(request: Request) -> Response:
        response = send_from_directory(folder, request.path.lstrip("/"), request.environ)
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
