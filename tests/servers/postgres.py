"""A real PostgreSQL server on loopback, out of the system's packages, for as long as the tests run."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

from servers.free_port import free_port

PASSWORD = "pass'word \\ 7%&"  # what has to be quoted somewhere
QUOTED_PASSWORD = "pass%27word%20%5C%207%25%26"


def find_binaries() -> Path | None:
    """The folder with initdb and pg_ctl of the newest version; None if there is none."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parent.parent.name))
    if found:
        return found[-1].parent
    initdb = shutil.which("initdb")
    return None if initdb is None else Path(initdb).resolve().parent


class Postgres:
    """A server with one database, one user and a password; TCP only."""

    def __init__(self, binaries: Path) -> None:
        self.binaries = binaries
        self.folder = Path(tempfile.mkdtemp(prefix="penstock-postgres-"))
        self.port = free_port()
        self._as_user: list[str] = []
        if os.geteuid() == 0:  # the server refuses to run as root
            user = pwd.getpwnam("postgres" if "postgres" in [entry.pw_name for entry in pwd.getpwall()] else "nobody")
            # Not by subprocess's own `user`: that forks, which a test process of a large address space cannot afford.
            self._as_user = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
            os.chown(self.folder, user.pw_uid, user.pw_gid)
        password = self.folder / "password"
        password.write_text(PASSWORD + "\n")
        password.chmod(0o644)
        self._run(
            "initdb", "-A", "scram-sha-256", "-U", "tester", f"--pwfile={password}", "-E", "UTF8", "--locale=C", "-N"
        )
        self.start()

    @property
    def uri(self) -> str:
        return f"postgresql://tester:{QUOTED_PASSWORD}@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off"
        self._run("pg_ctl", "-w", "-l", str(self.folder / "log"), "-o", options, "start")

    def stop(self) -> None:
        self._run("pg_ctl", "-w", "-m", "immediate", "stop")

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    def _run(self, program: str, *arguments: str) -> None:
        command = [*self._as_user, str(self.binaries / program), "-D", str(self.folder / "data"), *arguments]
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C"}
        done = subprocess.run(
            command,
            env=environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=110,
        )
        assert done.returncode == 0, done.stdout + done.stderr
