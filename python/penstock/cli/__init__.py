"""The command line. One file a command; an error is a message on stderr and exit status 1, Ctrl-C a quiet 130."""

from __future__ import annotations

import inspect as python_inspect
import io
import sys
import warnings as python_warnings
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from penstock.cli.bench import bench
from penstock.cli.cache import CACHE_COMMANDS, about_cache
from penstock.cli.console import complain, warn
from penstock.cli.demo import demo
from penstock.cli.explain import explain
from penstock.cli.index import index
from penstock.cli.inspect import inspect
from penstock.cli.simulate import simulate
from penstock.core.errors import PenstockError
from penstock.core.kernels import native_version

_INTERRUPTED = 130


class _Group(TyperGroup):
    """Turns what a command raises into a message and an exit status; errors that nobody expected keep their traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Runs the command."""
        try:
            return super().invoke(ctx)
        except PenstockError as error:
            complain(error)
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            raise typer.Exit(_INTERRUPTED) from None


app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"penstock {native_version}")
        raise typer.Exit


@app.callback()
def _penstock(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Feeds training data to accelerators: exact, resumable, fast, without tuning.

    Begin with:
      penstock demo                 a training, interrupted and resumed
      penstock inspect data/train   what a dataset holds
      penstock bench data/train     how fast it can be fed, and what limits it

    A dataset is a folder of pictures, a file, or a quoted glob such as 'data/train-*.tfrecord'; several may be given.
    """


def _help_of(command: Callable[..., None]) -> str:
    """The docstring with its paragraphs as single lines, which the terminal's width breaks anew; lists stay as they are."""
    paragraphs = (python_inspect.getdoc(command) or "").split("\n\n")
    return "\n\n".join(part if "\n  " in part else part.replace("\n", " ") for part in paragraphs)


for command in (inspect, explain, simulate, index, bench, demo):
    app.command(help=_help_of(command))(command)

cache = typer.Typer(no_args_is_help=True, rich_markup_mode="rich", help=_help_of(about_cache))
for name, work in CACHE_COMMANDS.items():
    cache.command(name, help=_help_of(work))(work)
app.add_typer(cache, name="cache")


def main() -> None:
    """The entry point `penstock`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # names of files and bars, on terminals that cannot show them
    python_warnings.showwarning = warn
    try:
        app()
    except KeyboardInterrupt:  # before or after a command
        sys.exit(_INTERRUPTED)
