"""A file server over TLS on the loopback interface, with a certificate of an authority of its own."""

from __future__ import annotations

import contextlib
import datetime as dt
import http.server
import ipaddress
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@contextlib.contextmanager
def https_server(
    folder: Path, files: dict[str, bytes], send: Callable[[ssl.SSLSocket, bytes], None] = ssl.SSLSocket.sendall
) -> Iterator[tuple[str, Path, list[str]]]:
    """Serves files; gives the server's URL, the file of the authority's certificate, and who asked. `send` sends an answer's body."""
    authority, certificate, key = certificates(folder)
    agents: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self) -> None:
            content = files[self.path[1:]]
            self.send_response(200)
            self.send_header("content-length", str(len(content)))
            self.send_header("etag", '"one"')
            self.end_headers()

        def do_GET(self) -> None:
            agents.append(self.headers["user-agent"])
            content = files[self.path[1:]]
            first, last = map(int, self.headers["range"].removeprefix("bytes=").split("-"))
            self.send_response(206)
            self.send_header("content-range", f"bytes {first}-{last}/{len(content)}")
            self.send_header("content-length", str(last - first + 1))
            self.send_header("etag", '"one"')
            self.end_headers()
            send(self.connection, content[first : last + 1])

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_port}/", authority, agents
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


def certificates(folder: Path) -> tuple[Path, Path, Path]:
    """Files of an authority's certificate, of a server's, and of its key."""
    now, keys = dt.datetime.now(dt.UTC), [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in ("authority", "127.0.0.1")]
    made = []
    for number, (name, key) in enumerate(zip(names, keys, strict=True)):
        builder = x509.CertificateBuilder().subject_name(name).issuer_name(names[0]).public_key(key.public_key())
        builder = builder.serial_number(x509.random_serial_number()).not_valid_before(now - dt.timedelta(days=1))
        builder = builder.not_valid_after(now + dt.timedelta(days=9))
        builder = builder.add_extension(x509.BasicConstraints(ca=number == 0, path_length=None), critical=True)
        if number:
            address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
            builder = builder.add_extension(x509.SubjectAlternativeName([address]), critical=False)
        made.append(builder.sign(keys[0], hashes.SHA256()))
    paths = folder / "authority.pem", folder / "server.pem", folder / "key.pem"
    for path, one in zip(paths, made, strict=False):
        path.write_bytes(one.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    paths[2].write_bytes(keys[1].private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))
    return paths
