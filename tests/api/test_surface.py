"""The public signatures and the flags of all commands, as two files: a change that is not meant fails here.

``PAPILIO_WRITE_SURFACE=1`` writes both files again, after a change that is meant.
"""

import inspect
import os
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import papilio
from papilio.cli.app import cli
from papilio.storage.records import digest_of

HERE = Path(__file__).parent


def parameters(function: object) -> Iterator[str]:
    """Yield the parameters of a function, those by keyword in order of their names."""
    keywords = []
    for name, parameter in inspect.signature(function, eval_str=False).parameters.items():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            keywords.append(f"{name}{shown(parameter)}")
        else:
            yield f"{name}{shown(parameter)}"
    yield from (["*", *sorted(keywords)] if keywords else [])


def shown(parameter: inspect.Parameter) -> str:
    return "" if parameter.default in (None, parameter.empty) else f"={parameter.default!r}"


def signatures() -> Iterator[str]:
    for name in sorted(papilio.__all__):
        found = getattr(papilio, name)
        if isinstance(found, type):
            own = ", ".join(sorted(each for each in dir(found) if not each.startswith("_")))
            made = "" if issubclass(found, Exception) else f"({', '.join(parameters(found))})"
            yield f"class {name}{made}: {own}"
        elif callable(found):
            yield f"{name}({', '.join(parameters(found))})"
        else:
            yield name


def commands(command: click.Command = cli, words: str = "papilio") -> Iterator[str]:
    """Yield each command with its flags, and a digest of all that its help says of itself and of them."""
    said = [command.help or ""]
    names = []
    for each in command.params:
        names += each.opts if isinstance(each, click.Option) else [each.human_readable_name]
        choices = getattr(each.type, "choices", ())
        said += [*each.opts, each.type.name, *map(str, choices), getattr(each, "help", None) or ""]
    yield f"{words}: {' '.join(names)} [{digest_of(' '.join(said).encode())[:12]}]"
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=words)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from commands(found, f"{words} {name}")


@pytest.mark.parametrize(("file", "lines"), [("signatures.txt", signatures), ("commands.txt", commands)])
def test_signatures_and_commands_are_as_written(file, lines):
    found, expected = "\n".join(lines()) + "\n", HERE / file
    if os.environ.get("PAPILIO_WRITE_SURFACE"):
        expected.write_text(found)
    assert found == expected.read_text(), (
        f"tests/api/{file}: if this is meant, run PAPILIO_WRITE_SURFACE=1 python -m pytest tests/api/test_surface.py"
    )
