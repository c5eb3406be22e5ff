"""The command line, one file a command. An error is a message on stderr and exit status 1; Ctrl-C exits with 130."""

from __future__ import annotations

import inspect as python_inspect
import sys
import warnings as python_warnings
from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.markup import escape
from typer.core import TyperCommand, TyperGroup

from penstock.cli.bench import bench
from penstock.cli.cache import CACHE_COMMANDS, about_cache
from penstock.cli.console import complain, show_whatever_comes, warn
from penstock.cli.count import count
from penstock.cli.demo import demo
from penstock.cli.explain import explain
from penstock.cli.index import index
from penstock.cli.inspect import inspect
from penstock.cli.profile import profile
from penstock.cli.report import report
from penstock.cli.simulate import simulate
from penstock.cli.top import top
from penstock.cli.trace import TRACE_COMMANDS, about_trace
from penstock.cli.verify import verify
from penstock.core.errors import PenstockError
from penstock.core.kernels import native_version

_INTERRUPTED = 130


class _PlainFlags:
    """Flags take no value, and their help names no type of it."""

    def get_params(self, ctx: Any) -> Any:
        """The parameters, as for any command."""
        found = super().get_params(ctx)  # type: ignore[misc]
        for parameter in found:
            if getattr(parameter, "is_flag", False) and parameter.metavar is None:
                parameter.metavar = ""
        return found


class _Command(_PlainFlags, TyperCommand):
    """One command."""


class _CommandGroup(_PlainFlags, TyperGroup):
    """Turns a command's PenstockError into a message and an exit status; other errors keep their traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except PenstockError as error:
            complain(error)
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            raise typer.Exit(_INTERRUPTED) from None


app = typer.Typer(
    cls=_CommandGroup,
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
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and stop."),
    ] = False,
) -> None:
    """Feeds training data to accelerators: exact, resumable, fast, without tuning.

    Start with:
      penstock demo                 a training run, interrupted and resumed
      penstock inspect data/train   what a dataset holds
      penstock profile data.csv     what is in each column
      penstock bench data/train     how fast it loads, and what limits it
      penstock top                  what every training on this machine waits for, live

    A dataset is a folder of images, a file, or a quoted glob such as 'data/train-*.tfrecord'. You may name several.
    """


def _help_of(command: Callable[..., None]) -> str:
    """The docstring with each paragraph on one line, so that the terminal wraps it. Lists stay as they are, and brackets are no markup."""
    paragraphs = (python_inspect.getdoc(command) or "").split("\n\n")
    return escape("\n\n".join(part if "\n  " in part else part.replace("\n", " ") for part in paragraphs))


for command in (inspect, profile, explain, simulate, index, count, verify, top, report, bench, demo):
    app.command(cls=_Command, help=_help_of(command))(command)

for group, about, commands in (("cache", about_cache, CACHE_COMMANDS), ("trace", about_trace, TRACE_COMMANDS)):
    several = typer.Typer(cls=_CommandGroup, no_args_is_help=True, rich_markup_mode="rich", help=_help_of(about))
    for name, work in commands.items():
        several.command(name, cls=_Command, help=_help_of(work))(work)
    app.add_typer(several, name=group)


def main() -> None:
    """The entry point `penstock`."""
    show_whatever_comes()
    python_warnings.showwarning = warn
    try:
        app()
    except KeyboardInterrupt:  # before or after a command
        sys.exit(_INTERRUPTED)
