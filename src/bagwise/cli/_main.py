"""Dispatch, and what errors look like."""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Annotated

import typer
from rich.console import Console

from bagwise._version import __version__
from bagwise.cli import (
    _compare,
    _datasets,
    _demo,
    _explain,
    _fit,
    _leaderboard,
    _methods,
    _predict,
    _reproduce,
)

__all__ = ["app", "main"]

app = typer.Typer(
    name="bagwise",
    help="Multi-instance learning: compare methods on bags, fit, predict, explain.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("demo")(_demo.demo)
app.command("compare")(_compare.compare)
app.command("fit")(_fit.fit)
app.command("predict")(_predict.predict)
app.command("explain")(_explain.explain)
app.command("datasets")(_datasets.datasets)
app.command("methods")(_methods.methods)
app.command("reproduce")(_reproduce.reproduce)
app.command("leaderboard")(_leaderboard.leaderboard)


def _show_version(value: bool) -> None:
    if value:
        typer.echo(f"bagwise {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error.")
    ] = False,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version."
        ),
    ] = False,
) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; end with a status of 0 if all went well.

    An error is one line on standard error and a status of 1 (2 for wrong usage);
    `--debug`, anywhere on the line, adds the traceback.

    Parameters
    ----------
    arguments : sequence of str, optional
        The words after the program's name; those of the process by default.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    sys.exit(_call(lambda: _invoke(words), debug=debug, as_json="--json" in words))


def _invoke(words: list[str]) -> int:
    command = typer.main.get_command(app)
    result = command.main(args=words, prog_name="bagwise", standalone_mode=False)
    return result if isinstance(result, int) else 0


def _call(action: Callable[[], int], *, debug: bool, as_json: bool) -> int:
    console = Console(stderr=True)

    def fail(text: str, status: int) -> int:
        if as_json:
            print(json.dumps({"error": text}))
        console.print(f"error: {text}", markup=False, highlight=False, soft_wrap=True)
        return status

    try:
        return action()
    except typer.Exit as end:
        return int(end.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        text = "stopped; what was finished is kept, the same command continues"
        return fail(text, 130)
    except BrokenPipeError:
        # The reader of our output has gone, which is no error of ours.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + int(getattr(signal, "SIGPIPE", 13))
    except Exception as error:
        if debug:
            traceback.print_exc()
        usage = getattr(error, "format_message", None)  # click's errors have one
        return fail(first_line(error), 1) if usage is None else fail(usage(), 2)


def first_line(error: BaseException) -> str:
    """Say in one line what went wrong."""
    if isinstance(error, OSError) and error.strerror:
        where = f": {error.filename}" if error.filename else ""
        return f"{error.strerror}{where}"
    if isinstance(error, KeyError) and error.args:
        return f"unknown name {error.args[0]!r}"
    text = " ".join(str(error).split())
    return text or type(error).__name__
