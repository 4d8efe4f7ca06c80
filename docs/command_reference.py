"""Writes the tables of `command-line.md` from the commands themselves.

    python docs/command_reference.py

A table stands between `<!-- options of COMMAND -->` and `<!-- end -->`: everything between these marks is replaced. The
prose around it is written by hand.
"""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import typer
from typer.main import get_command

from heterobandits.cli.commands import app

PAGE = Path(__file__).with_name("command-line.md")
BLOCK = re.compile(r"(<!-- options of ([\w-]+) -->\n).*?(<!-- end -->)", re.S)
PLACEHOLDERS = {"str": "TEXT", "int": "N", "int range": "N", "float": "X", "float range": "X"}


def render_page(page: str) -> str:
    """The page with the tables as they should be."""
    commands = get_command(app).commands
    return BLOCK.sub(lambda block: block[1] + render_tables(commands[block[2]]) + block[3], page)


def render_tables(command: Any) -> str:
    """The options of a command; of a group those that most of its commands share, and then each with its own."""
    verbs = getattr(command, "commands", {})
    if not verbs:
        return render_table("option", option_rows(command))
    uses = Counter(row for verb in verbs.values() for row in option_rows(verb))
    shared = [row for row, count in uses.items() if count > len(verbs) / 2]
    rows = []
    for name, verb in verbs.items():
        own = [row for row in option_rows(verb) if row not in shared]
        rows.append((f"**`{usage_of(name, verb)}`**", first_words(verb.help)))
        rows += [(f"&emsp;{option}", meaning) for option, meaning in own]
    return render_table("common to most", shared) + "\n" + render_table("command", rows)


def render_table(head: str, rows: list[tuple[str, str]]) -> str:
    """Two columns of Markdown."""
    cells = [(head, "meaning"), ("---", "---"), *rows]
    return "".join(f"| {left} | {right} |\n" for left, right in cells)


def option_rows(command: Any) -> list[tuple[str, str]]:
    """The arguments and options of a command, and what each means."""
    context = typer.Context(command)
    return [(f"`{name_of(one, context)}`", meaning_of(one)) for one in command.params]


def usage_of(name: str, command: Any) -> str:
    """The command with its arguments; what may be left out stands in brackets."""
    context = typer.Context(command)
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    names = [(name_of(one, context), one.required) for one in arguments]
    return " ".join([name, *(text if required else f"[{text}]" for text, required in names)])


def name_of(parameter: Any, context: typer.Context) -> str:
    """An argument, or an option with what follows it."""
    record, _ = parameter.get_help_record(context)
    kind = "".join(re.findall(r"<(.*)>", record))  # such as `int`, or `table|json`
    placeholder = parameter.metavar or PLACEHOLDERS.get(kind, kind)
    if parameter.param_type_name == "argument":
        name = parameter.metavar or parameter.name.upper()
        return escape(name if "|" not in kind else kind)
    options = ", ".join(sorted(parameter.opts, key=len, reverse=True))
    return escape(options if parameter.is_flag else f"{options} {placeholder}")


def meaning_of(parameter: Any) -> str:
    """The help of an argument or option, its default and its environment variable."""
    parts = [escape(parameter.help or "")]
    default = parameter.default
    if getattr(parameter, "show_default", False) and default is not None and default is not False:
        parts.append(f"Default: `{default}`.")
    if parameter.required and parameter.param_type_name == "option":
        parts.append("Required.")
    if parameter.envvar:
        parts.append(f"Environment variable: `{parameter.envvar}`.")
    return " ".join(parts)


def first_words(text: str) -> str:
    """What a command says of itself, without its example."""
    return escape(" ".join(text.partition("\n\nExample:")[0].split()))


def escape(text: str) -> str:
    """In a cell of a table."""
    return text.replace("|", r"\|")


if __name__ == "__main__":
    PAGE.write_text(render_page(PAGE.read_text("utf-8")), "utf-8")
