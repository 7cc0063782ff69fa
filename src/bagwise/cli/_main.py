"""Dispatch, and what errors look like."""

from __future__ import annotations

import functools
import json
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console

from bagwise._signals import exit_on_signals
from bagwise._version import __version__
from bagwise.cli import _compare, _listings, _models, _use
from bagwise.cli._common import UsageError, in_options

__all__ = ["app", "main"]

app = typer.Typer(
    name="bagwise",
    help="Multi-instance learning: compare methods on bags, fit, predict, explain.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


class Stopped(Exception):
    """Ctrl-C, before the option parser turns it into a bare status."""

    status = 128 + int(signal.SIGINT)


class Terminated(KeyboardInterrupt):
    """SIGTERM or SIGHUP, which end a command as Ctrl-C does."""

    def __init__(self, status: int) -> None:
        super().__init__()
        self.status = status


def _register(
    name: str, command: Callable[..., int], *, continues: bool = False
) -> None:
    """Add a command; `continues` if it goes on where it was stopped."""

    @functools.wraps(command)
    def run(*args: Any, **options: Any) -> int:
        try:
            return command(*args, **options)
        except KeyboardInterrupt as error:
            text = "; finished runs are kept, and the same command continues"
            end = Stopped(f"stopped{text if continues else ''}")
            end.status = getattr(error, "status", end.status)
            raise end from None

    app.command(name)(run)


_register("demo", _compare.demo, continues=True)
_register("compare", _compare.compare, continues=True)
_register("fit", _models.fit)
_register("predict", _models.predict)
_register("explain", _models.explain)
_register("evaluate", _use.evaluate)
_register("check", _use.check)
_register("card", _use.card)
_register("figure", _use.figure)
_register("table", _use.table)
_register("methods-text", _use.methods_text)
_register("datasets", _listings.datasets)
_register("methods", _listings.methods)


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
    _refuse_doubled(command, words)
    result = command.main(args=words, prog_name="bagwise", standalone_mode=False)
    return result if isinstance(result, int) else 0


def _refuse_doubled(command: Any, words: list[str]) -> None:
    """Refuse two values of one option, of which the parser would keep the last."""
    known = getattr(command, "commands", {})
    asked = next((known[word] for word in words if word in known), None)
    for option in [] if asked is None else asked.params:
        if option.nargs != 1 or option.multiple or getattr(option, "is_flag", False):
            continue
        given = []
        for word, after in zip(words, [*words[1:], ""], strict=True):
            name, sign, value = word.partition("=")
            if name in option.opts and name.startswith("-"):
                given.append(value if sign else after)
        if len(set(given)) > 1:
            told = " and ".join(dict.fromkeys(given))
            raise UsageError(f"{option.opts[0]} takes one value and got {told}")


def _call(action: Callable[[], int], *, debug: bool, as_json: bool) -> int:
    console = Console(stderr=True)

    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    def fail(text: str, status: int) -> int:
        if as_json:
            print(json.dumps({"error": text}))
        say(f"error: {text}")
        return status

    def warn(message: Any, *where: Any, **more: Any) -> None:
        say(f"warning: {in_options(message)}")

    try:
        with warnings.catch_warnings():
            if not debug:
                warnings.showwarning = warn
            with exit_on_signals(Terminated):
                return action()
    except typer.Exit as end:
        return int(end.exit_code)
    except (Stopped, KeyboardInterrupt, typer.Abort) as error:
        status = getattr(error, "status", Stopped.status)
        return fail(str(error) or "stopped", status)
    except BrokenPipeError:
        # The reader of the output has closed it, which is not an error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + int(getattr(signal, "SIGPIPE", 13))
    except Exception as error:
        if debug:
            traceback.print_exc()
        usage = getattr(error, "format_message", None)  # errors of click have one
        if type(error).__name__ == "NoArgsIsHelpError":  # help, not an error
            say(usage())
            return 2
        if usage is not None:
            return fail(usage(), 2)
        return fail(first_line(error), 2 if isinstance(error, UsageError) else 1)


def first_line(error: BaseException) -> str:
    """Return the error in one line."""
    if isinstance(error, OSError) and error.strerror:
        where = f": {error.filename}" if error.filename else ""
        return f"{error.strerror}{where}"
    if isinstance(error, KeyError) and error.args:
        return f"unknown name {error.args[0]!r}"
    return in_options(error) or type(error).__name__
