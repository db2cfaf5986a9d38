"""Command-line programs with one-line errors."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, TypeVar, cast

import typer
from typer.core import TyperCommand, TyperGroup

from securefl.base.errors import ConfigError
from securefl.cli.console import one_line_errors

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

_USAGE_ERROR: Final = cast("type[Exception]", typer.BadParameter.__mro__[1])
"""Base of all usage errors, which typer does not export."""
_NO_ARGUMENTS: Final = "NoArgsIsHelpError"
"""Raised after the help text."""
_MISSING: Final = "MissingParameter"
_UNFIT: Final = {
    "int_parsing": "is not a whole number",
    "float_parsing": "is not a number",
    "greater_than_equal": "is below {ge} or not a number",
    "less_than_equal": "is above {le} or not a number",
}
"""Reasons by kind of error, with fields of its context; NaN fails every "at least"."""
_VALUES: Final = {"bool": "", "int": "N", "float": "NUMBER", "str": "TEXT"}
"""Words for values in help, by their type."""
_NAMES: Final = frozenset({"name", "party", "run"})
"""Parameters whose text is the name of a machine or a run."""


class Program(typer.Typer):
    """Program or group of commands."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(
            cls=settings.pop("cls", CommandGroup),
            pretty_exceptions_enable=False,
            context_settings={"help_option_names": ["-h", "--help"]},
            **settings,
        )

    def command(self, name: str | None = None, **settings: Any) -> Callable[[FunctionT], FunctionT]:
        """Add a command, as :meth:`typer.Typer.command`."""
        return super().command(name, cls=_Command, **settings)


def run_program(function: Callable[..., None]) -> None:
    """Run a function as a program; its parameters are the options."""
    program = Program(add_completion=False)
    program.command()(function)
    program()


class _Command(TyperCommand):
    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        if self.help:
            # The terminal wraps the lines of a paragraph.
            self.help = re.sub(r"(?<=\S)\n(?=[^\s-])", " ", self.help).replace("``", "")

    def invoke(self, ctx: Any) -> Any:
        """Run the command; turn an error into one line and an exit code."""
        with one_line_errors():
            return super().invoke(ctx)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        # A command may take one file in place of its options (securefl.cli.kit_options).
        expand = getattr(self.callback, "expand_arguments", list)
        with _usage_in_one_line(ctx):
            return super().parse_args(ctx, expand(args))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return required arguments without braces, and repeated ones with one ellipsis."""
        pieces = [re.sub(r"^\{(.+)\}", r"\1", piece) for piece in super().collect_usage_pieces(ctx)]
        return [
            re.sub(r"^\[(\[.+\]\.\.\.)\]\.\.\.$", r"\1", piece).replace("......", "...") for piece in pieces
        ]

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, whose help shows values as FILE, N or TEXT."""
        return _with_plain_values(super().get_params(ctx))


class CommandGroup(TyperGroup):
    """Group of commands with one-line usage errors."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, whose help shows values as FILE, N or TEXT."""
        return _with_plain_values(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Return the remaining arguments; turn a usage error into one line and an exit code."""
        with _usage_in_one_line(ctx):
            return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the requested command; refuse an unknown one."""
        with _usage_in_one_line(ctx):
            return super().resolve_command(ctx, args)


def _with_plain_values(parameters: Iterable[Any]) -> list[Any]:
    found = list(parameters)
    for parameter in found:
        parameter.display_type_rich = partial(_value, parameter)
        # typer would add the range in brackets.
        parameter._get_number_range_help_str = _no_range
    return found


def _no_range() -> None:
    return None


def _value(parameter: Any, ctx: Any) -> str:
    """Return a word for a parameter's value, such as ``FILE`` or ``N (1 to 100)``; empty for a flag."""
    shown = parameter.metavar
    if parameter.param_type_name == "argument" and shown is not None:
        shown = ""  # the column before has it
    elif shown is None:
        shown = _value_of_kind(parameter, ctx)
    least, most = getattr(parameter, "min", None), getattr(parameter, "max", None)
    if least is not None and most is not None:
        return f"{shown} ({least} to {most})".strip()
    if least is not None:
        return f"{shown} (at least {least})".strip()
    return str(shown)


def _value_of_kind(parameter: Any, ctx: Any) -> str:
    kind = parameter.display_type(ctx).strip("<>").removeprefix("list[").rstrip("]").split()[0]
    if kind.lower() == "path":
        return "DIR" if re.search(r"\b(folder|directory)\b", parameter.help or "", re.IGNORECASE) else "FILE"
    if kind == "str" and parameter.name in _NAMES:
        return "NAME"
    return _VALUES.get(kind, str(kind))


def check_words(command: Any, program: str, words: Iterable[str]) -> None:
    """Check options of a command without calling it, and without its required ones.

    Args:
        command: as typer makes it.
        program: name of the command in errors.
        words: options, each with its value behind ``=``.

    Raises:
        ConfigError: an option is unknown, or its value is refused.
    """
    ctx = command.make_context(program, [], resilient_parsing=True)
    # The context is complete; a resilient parser would ignore errors of the words.
    ctx.resilient_parsing = False
    ctx.ignore_unknown_options = False
    try:
        found, _rest, order = command.make_parser(ctx).parse_args(args=list(words))
        for parameter in order:
            # Arguments, which are missing here, have no value.
            if found.get(parameter.name) is not None:
                parameter.process_value(ctx, found[parameter.name])
    except _USAGE_ERROR as error:
        raise _refusal(error, ctx) from None


@contextmanager
def _usage_in_one_line(ctx: Any) -> Iterator[None]:
    # Callbacks of options refuse values as ConfigError.
    with one_line_errors():
        try:
            yield
        except _USAGE_ERROR as error:
            if ctx.resilient_parsing or type(error).__name__ == _NO_ARGUMENTS:
                raise
            raise _refusal(error, ctx) from None


def _refusal(error: Any, ctx: Any) -> ConfigError:
    program, see = ctx.command_path, f"see: {ctx.command_path} {ctx.help_option_names[0]}"
    parameter, option = getattr(error, "param", None), getattr(error, "option_name", None)
    if parameter is not None:
        reason = "is missing" if type(error).__name__ == _MISSING else _unfit(error)
        what = (parameter.help or "").rstrip(".")
        return ConfigError(_name(parameter), reason, f"{what}; {see}" if what else see)
    if option is None:
        return ConfigError(program, _clause(error.message), see)
    if error.message.startswith("No such option"):
        near = " or ".join(sorted(error.possibilities or ()))
        return ConfigError(
            option, f"is not an option of {program}", f"did you mean {near}? {see}" if near else see
        )
    return ConfigError(option, _clause(error.message.removeprefix(f"Option {option!r} ")), see)


def _unfit(error: Any) -> str:
    """Return why a value is refused, in our words if its parser names the kind of error."""
    details: Callable[[], Iterable[Any]] = getattr(error.__cause__, "errors", tuple)
    for detail in details():
        words = _UNFIT.get(detail["type"])
        if words is not None:
            return f"{detail['input']!r} {words.format(**detail.get('ctx', {}))}"
    return _clause(error.message).removeprefix("value error, ")


def _name(parameter: Any) -> str:
    """Return an option's longest name, or an argument's metavar."""
    if parameter.param_type_name == "option":
        return str(max(parameter.opts, key=len))
    return str(parameter.metavar or parameter.name.upper())


def _clause(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:].rstrip(".")
