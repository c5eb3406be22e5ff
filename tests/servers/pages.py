"""A server on loopback that pages the listing of a bucket as S3 does (ListObjectsV2), for more objects than a real one could hold."""

from __future__ import annotations

import contextlib
import http.server
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

PAGE = 1000
_NUMBER = "p/{:08}.jpg"


def name_of(number: int) -> str:
    """The key of an object."""
    return _NUMBER.format(number)


def page(first: int, objects: int) -> bytes:
    """One page of XML, of the objects from `first` on."""
    last = min(first + PAGE, objects)
    more = f"<NextContinuationToken>{last}</NextContinuationToken>" if last < objects else ""
    head = f"<Name>data</Name><KeyCount>{last - first}</KeyCount><IsTruncated>{str(bool(more)).lower()}</IsTruncated>"
    rows = [
        f"<Contents><Key>{name_of(n)}</Key><LastModified>2026-11-21T00:00:00.000Z</LastModified>"
        f"<ETag>&quot;{n:032x}&quot;</ETag><Size>{n + 1}</Size></Contents>"
        for n in range(first, last)
    ]
    return f'<?xml version="1.0"?><ListBucketResult>{head}{more}{"".join(rows)}</ListBucketResult>'.encode()


@contextlib.contextmanager
def pages_server(objects: int) -> Iterator[int]:
    """Serves the listing of so many objects while the context lasts; gives its port."""

    class Pages(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked = dict(parse_qsl(urlsplit(self.path).query))
            after = asked.get("start-after", "")
            first = int(asked.get("continuation-token", int(after[2:10]) + 1 if after else 0))
            body = page(first, objects)
            self.send_response(200)
            self.send_header("content-type", "application/xml")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), name="pages-server", daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()
