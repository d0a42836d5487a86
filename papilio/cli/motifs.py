"""Flags made from the fields of dataclasses, and commands with a subcommand for each motif.

A field ``pair_side`` is the flag ``--pair-side``, a field ``p`` the flag ``-p``. Its annotation gives the type and the
limits, the docstring of its class the help. If a field ``max_p`` exists, ``--all-p`` leaves the field ``p`` open; with
several such fields, ``--all`` leaves all of them open. The options of engines (:attr:`papilio.motifs.Motif.choices`)
are flags, too.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Collection, Sequence
from dataclasses import MISSING, fields
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import click
from click.shell_completion import CompletionItem

from papilio.arguments import Between
from papilio.cli.options import LAYER, integer, reading_given
from papilio.errors import InputError, UnsupportedError
from papilio.motifs import LAYER_FIELDS, MOTIFS, Motif, suggest_motif
from papilio.registry import MOTIF_ROWS


def attribute_help(kind: type) -> dict[str, str]:
    """Return the description of each attribute in the docstrings of a class and its bases."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        text = inspect.cleandoc(base.__doc__ or "").replace("``", "")
        for names, body in re.findall(r"^(\w[\w, ]*) : [^\n]*\n((?:    [^\n]*\n?)+)", text, re.MULTILINE):
            found |= dict.fromkeys(names.split(", "), " ".join(body.split()))
    return found


def first_paragraph(text: str | None) -> str:
    """Return the first paragraph of a docstring as one line."""
    return " ".join(inspect.cleandoc(text or "").split("\n\n")[0].replace("``", "").split())


def field_option(name: str, hint: Any, **settings: Any) -> click.Option:
    """Return the flag of a field, by its name and its annotation."""
    flag = _flag(name)
    if get_origin(hint) in (Union, types.UnionType):
        hint = next(each for each in get_args(hint) if each is not type(None))
    if name in LAYER_FIELDS:
        return click.Option([flag, name], **LAYER, **settings)
    if get_origin(hint) is Literal:
        return click.Option([flag, name], type=click.Choice(get_args(hint)), **settings)
    if get_origin(hint) is Annotated:
        limits = next(each for each in get_args(hint) if isinstance(each, Between))
        number = click.IntRange(int(limits.low), int(limits.high))
        return click.Option([flag, name], type=number, metavar=name.rpartition("_")[2].upper(), **settings)
    if hint is bool:
        return click.Option([flag, name], is_flag=True, **settings)
    return click.Option([flag, name], type=integer if hint is int else hint, **settings)


def _flag(name: str) -> str:
    return f"-{name}" if len(name) == 1 else f"--{name.replace('_', '-')}"


class _MotifFlags:
    """The flags of a motif; of a listing, which has motifs of one size, without those for tables.

    ``taken`` are names of flags that the command has itself: a motif cannot have them there.
    """

    def __init__(self, kind: type[Motif], *, listed: bool, taken: Collection[str | None] = ()) -> None:
        self._kind, self._listed = kind, listed
        self._hints = get_type_hints(kind, include_extras=True)
        self._defaults = {field.name: field.default for field in fields(kind) if field.name not in taken}
        self._sizes = kind.sizes
        self.options = [*self._field_options(), *self._engine_options()]

    def _field_options(self) -> list[click.Option]:
        helps, several = attribute_help(self._kind), len(self._sizes) > 1
        bounded = {f"max_{name}": name for name in self._sizes}
        options = []
        for name, default in self._defaults.items():
            text = helps.get(name, "").partition(". ")[0].rstrip(".")
            if name in bounded:
                text += f", with --all-{bounded[name]}" + (" or --all" if several else "")
            elif type(default) is int:
                text += f"; {default} by default"
            if name not in bounded or not self._listed:
                options.append(field_option(name, self._hints[name], help=f"{text}.", default=None))
        if self._listed:
            return options
        tables = {f"--all-{name}": name for name in self._sizes}
        if several:
            tables["--all"] = f"({', '.join(self._sizes)})"
        for flag, what in tables.items():
            text = f"Count every {what} in one run; the answer is a table."
            options.append(click.Option([flag], is_flag=True, help=text))
        return options

    def _engine_options(self) -> list[click.Option]:
        helps = attribute_help(self._kind)
        return [
            click.Option([_flag(name)], type=click.Choice(values), help=helps.get(name))
            for name, values in self._kind.choices.items()
        ]

    def read(self, given: dict[str, Any], store: str | None) -> tuple[Motif, dict[str, str]]:
        """Return the motif and the options of its engine.

        Names of layers are looked up in the graph ``store``. InputError if sizes or sides are missing or contradictory.
        """
        chosen = {name: given[name] for name in self._defaults if given.get(name) is not None}
        chosen |= {name: _find_layer(store, chosen[name]) for name in LAYER_FIELDS if name in chosen}
        if self._listed:
            self._require_sizes(chosen)
        else:
            chosen |= {name: None for name in self._sizes if self._is_open(name, given)}
        for name in self._defaults:
            if name not in chosen and get_origin(self._hints[name]) is Literal:
                self._require_choice(name, chosen)
        options = {name: given[name] for name in self._kind.choices if given[name] is not None}
        return self._kind(**chosen), options

    def _require_sizes(self, chosen: dict[str, Any]) -> None:
        missing = [name for name in self._sizes if name not in chosen and self._defaults[name] is None]
        if missing:
            raise InputError(
                f"a listing needs {' and '.join(map(_flag, missing))} with a number: all its motifs have one size"
            )

    def _is_open(self, name: str, given: dict[str, Any]) -> bool:
        flag, size, largest = _flag(name), given[name], given[f"max_{name}"]
        every = next((each for each in (f"all_{name}", "all") if given.get(each)), None)
        if every is not None and size is not None:
            raise InputError(f"{flag} {size} and {_flag(every)} contradict each other; use one of them")
        if every is not None or size is not None:
            return size is None
        if largest is not None:
            raise InputError(f"--max-{name} {largest} is a limit of --all-{name}, which is missing: add --all-{name}")
        if self._defaults[name] is None:
            more = f"; --all counts every ({', '.join(self._sizes)})" if len(self._sizes) > 1 else ""
            raise InputError(f"{self._kind.name} needs {flag} with a number, or --all-{name}{more}")
        return False

    def _require_choice(self, name: str, chosen: dict[str, Any]) -> None:
        """Require an explicit choice if the question depends on it."""
        values = get_args(self._hints[name])
        is_needed = self._defaults[name] is MISSING
        if is_needed or len({self._kind(**chosen, **{name: value}) for value in values}) > 1:
            asked = [f"--all-{each}" if size is None else f"{_flag(each)} {size}" for each, size in chosen.items()]
            raise InputError(
                f"{' '.join([self._kind.name, *asked])} needs {_flag(name)} {' or '.join(values)}: "
                "the answer depends on it"
            )


def _find_layer(store: str | None, word: str) -> str:
    """Return u or v for a layer, by its letter or by its name in the graph of the current command."""
    if word in ("u", "v"):
        return word
    if store is None or store == "-":
        why = "standard input is read only once" if store else "several graphs may name their layers differently"
        raise InputError(f"layer is {word!r}; expected u or v, because {why}")
    import papilio

    return papilio.read(store, **reading_given()).layer(word)


class MotifGroup(click.Group):
    """A command with a subcommand for each motif, which adds the flags of the motif.

    The name of the motif is the first word that is not a flag, at any position, or the value of ``--motif``. The
    function receives ``motif`` (a Motif), ``engine_options`` and the values of its own flags.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        callback: Callable[..., None],
        params: Sequence[click.Parameter],
        listed: bool = False,
        motif_flag: bool = False,
        **settings: Any,
    ) -> None:
        words = [each.human_readable_name for each in params if isinstance(each, click.Argument)]
        metavar = " ".join(words if motif_flag else ["MOTIF", *words])
        super().__init__(name, no_args_is_help=False, subcommand_metavar=metavar, **settings)
        self._run, self._shared = callback, [*params]
        self._listed, self._motif_flag = listed, motif_flag

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(name for name in MOTIFS if not self._listed or MOTIF_ROWS[name].listed is not None)

    def get_command(self, ctx: click.Context, name: str) -> click.Command:
        if name not in MOTIFS:
            known = self.list_commands(ctx)
            raise UnsupportedError(f"unknown motif {name!r}{suggest_motif(name, known)}; known: {', '.join(known)}")
        if name not in self.list_commands(ctx):
            raise UnsupportedError(f"{name} cannot be listed; {MOTIF_ROWS[name].not_listed}")
        kind = MOTIFS[name]
        flags = _MotifFlags(kind, listed=self._listed, taken={each.name for each in self._shared})

        def run(**given: Any) -> None:
            own = {option.name: given.pop(option.name) for option in flags.options if option.name}
            given.pop("motif", None)
            several = given.get("stores", ())
            motif, options = flags.read(own, several[0] if len(several) == 1 else given.get("store"))
            self._run(motif=motif, engine_options=options, **given)

        what = first_paragraph(kind.__doc__)
        paragraphs = [each for each in inspect.cleandoc(self.help or "").split("\n\n") if not each.startswith("\b")]
        return click.Command(
            name,
            callback=run,
            params=[*flags.options, *self._shared],
            help="\n\n".join([*paragraphs, f"{name}: {what}"]),
            short_help=what,
        )

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return f"--motif {name}" if self._motif_flag else name, command, rest

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        names: dict[str, click.Option] = {}
        for name in self.list_commands(ctx):
            for option in self.get_command(ctx, name).get_params(ctx):
                if isinstance(option, click.Option):
                    names.setdefault(option.name or "", option)
        parser = click.Command(None, params=[*names.values()], add_help_option=False).make_parser(ctx)
        parser.allow_interspersed_args = self._motif_flag
        given, words, _ = parser.parse_args([*args])
        if self._motif_flag and "motif" in given:
            args = [given["motif"], *args]
        elif words and not self._motif_flag:
            args = [words[0], *args[: len(args) - len(words)], *words[1:]]
        elif any(word in ctx.help_option_names for word in args):
            args = ["--help"]
        elif not ctx.resilient_parsing:
            what = "option '--motif'" if self._motif_flag else "argument 'MOTIF'"
            raise click.UsageError(f"Missing {what}; known: {', '.join(self.list_commands(ctx))}", ctx)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.NoSuchOption as error:
            flag = error.option_name
            owners = [kind for kind in MOTIFS.values() if self._has(kind, flag)]
            if not owners:
                raise
            owner = min(owners, key=lambda kind: len(kind.__mro__))
            asked = error.ctx.command.name if error.ctx is not None else ""
            message = f"{asked} has no option {flag}; it belongs to {owner.name}"
            raise InputError(message) from None

    def _has(self, kind: type[Motif], flag: str) -> bool:
        return any(flag in option.opts for option in _MotifFlags(kind, listed=self._listed).options)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        shared = click.Command(None, params=self._shared, add_help_option=False)
        return [*super().shell_complete(ctx, incomplete), *shared.shell_complete(ctx, incomplete)]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        options = [each for each in (*self._shared, *self.get_params(ctx)) if isinstance(each, click.Option)]
        with formatter.section("Options of all motifs"):
            records = [option.get_help_record(ctx) for option in options]
            formatter.write_dl([record for record in records if record is not None])
        with formatter.section("Motifs"):
            commands = [self.get_command(ctx, name) for name in self.list_commands(ctx)]
            formatter.write_dl([(each.name or "", each.get_short_help_str(70)) for each in commands])
        formatter.write_paragraph()
        before = "--motif " if self._motif_flag else ""
        formatter.write_text(f"{ctx.command_path} {before}MOTIF --help shows the flags of a motif.")
