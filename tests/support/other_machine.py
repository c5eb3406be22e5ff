"""Another machine, as far as Linux can pretend one: with its own network behind a link, its own name, and its own files at some paths. It takes a superuser."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.slow_link import new_interface

NAME = "other-machine"


def can_pretend() -> bool:
    """Whether namespaces and interfaces can be made here."""
    tried = ["unshare", "--net", "--mount", "--uts", "ip", "link"]
    try:
        made = subprocess.run(tried, capture_output=True, check=False).returncode == 0
    except OSError:
        return False
    return made and os.access("/dev/net/tun", os.W_OK)


@dataclass(frozen=True, kw_only=True)
class Link:
    """How packets go from one machine to the other, in each direction."""

    delay_s: float = 0.0
    loss: float = 0.0
    bytes_per_s: float = 1e9


@dataclass
class OtherMachine:
    """process: whose namespaces are the machine's; carrier: what carries packets; here, there: the addresses of both ends of the link."""

    process: int
    carrier: subprocess.Popen[Any]
    here: str
    there: str

    def run(self, *command: str, **options: Any) -> None:
        """Runs a command there, to its end."""
        subprocess.run([*self.enter, *command], check=True, **options)

    def join(self, address: str, **options: Any) -> None:
        """Begins a node of a cluster of Ray there."""
        told = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
        ray = [sys.executable, "-m", "ray.scripts.scripts", "start", f"--address={address}"]
        self.run(*ray, f"--node-ip-address={self.there}", "--disable-usage-stats", *told, capture_output=True)

    @contextmanager
    def having(self, files: Mapping[Path, Path]) -> Iterator[None]:
        """For a while, files and folders lie there at paths of this machine."""
        for path, content in files.items():
            self.run("mount", "--bind", str(content), str(path))
        try:
            yield
        finally:
            for path in files:
                self.run("umount", "--lazy", str(path))

    def cut(self) -> None:
        """Nothing comes over the link any more."""
        self.carrier.send_signal(signal.SIGSTOP)

    def mend(self) -> None:
        """The link is as it was."""
        self.carrier.send_signal(signal.SIGCONT)

    @property
    def enter(self) -> list[str]:
        """What makes a command one of that machine."""
        return ["nsenter", f"--target={self.process}", "--net", "--mount", "--uts"]

    def end(self) -> None:
        """Ends all that runs there."""
        its, ours = (os.stat(f"/proc/{process}/ns/net").st_ino for process in (self.process, "self"))
        if its == ours:
            return  # it was never made
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if os.stat(entry / "ns" / "net").st_ino == its:
                    os.kill(int(entry.name), signal.SIGKILL)


@contextmanager
def other_machine(link: Link) -> Iterator[OtherMachine]:
    """A machine at the other end of a link."""
    number, names = os.getpid() % 62_500, [f"pen{os.getpid()}{end}" for end in "ab"]
    here, there = (f"10.{200 + number // 12_500}.{number % 12_500 // 50}.{number % 50 * 4 + end}" for end in (1, 2))
    ends = [new_interface(name) for name in names]
    carrier = subprocess.Popen(
        [sys.executable, "-m", "support.slow_link", *map(str, ends), *map(str, vars(link).values())], pass_fds=ends
    )
    holder = subprocess.Popen(["unshare", "--net", "--mount", "--uts", "sleep", "infinity"])
    machine = OtherMachine(holder.pid, carrier, here, there)
    try:
        _wait_until_apart(holder.pid)
        machine.run("hostname", NAME)
        machine.run("ip", "link", "set", "lo", "up")
        subprocess.run(["ip", "link", "set", names[1], "netns", str(holder.pid)], check=True)
        _begin(["ip"], names[0], here, there)
        _begin([*machine.enter, "ip"], names[1], there, here)
        yield machine
    finally:
        machine.end()
        for process in (carrier, holder):
            process.kill()
            process.wait()
        for end in ends:
            os.close(end)


def _begin(ip: list[str], name: str, mine: str, theirs: str) -> None:
    subprocess.run([*ip, "addr", "add", mine, "peer", theirs, "dev", name], check=True)
    subprocess.run([*ip, "link", "set", name, "up"], check=True)


def _wait_until_apart(process: int) -> None:
    """Until a process has its own namespaces."""
    ours = os.stat("/proc/self/ns/uts").st_ino
    while os.stat(f"/proc/{process}/ns/uts").st_ino == ours:
        os.sched_yield()
