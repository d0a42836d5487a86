"""From CUDA C++ to C++: the few constructs that a header alone cannot express.

* ``extern __shared__ T name[];`` becomes a pointer to the block's dynamic shared memory;
* ``__shared__ T name[N];`` becomes a reference into the block's own memory, so that blocks can be interleaved;
* each ``extern "C" __global__`` function is followed by its registration (see ``PAPILIO_EMU_KERNEL``).

Lines stay lines, so every message and every debugger shows the line of the ``.cu`` file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.emulator.errors import EmulatorError

__all__ = ["Source", "translate"]

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)
_SKIPPED = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)
_SHARED = re.compile(r"(?P<extern>\bextern\s+)?(?:\bstatic\s+)?\b__shared__\b")
_ALIGN = re.compile(r"\b(?:__align__|alignas)\s*\(")
_UNBOUNDED = re.compile(r"(?P<type>.*?)\b(?P<name>\w+)\s*\[\s*\]\s*", re.DOTALL)
_DECLARED = re.compile(r"(\w+)\s*(?:\[.*\])?\s*\Z", re.DOTALL)
_GLOBAL = re.compile(r"\b__global__\b")
_WORD = re.compile(r"\s*(\w+)\s*")
_OPENING, _CLOSING = "([{", ")]}"


@dataclass(frozen=True)
class Source:
    """One translated file: ``name`` as includes write it, ``text`` for the host compiler, its kernels."""

    name: str
    text: str
    kernels: tuple[str, ...]


def _masked(text: str) -> str:
    """Blank comments and literals, keeping every offset and line."""
    return _SKIPPED.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def _closing(masked: str, start: int) -> int:
    """Offset of the bracket that closes the one at ``start``."""
    depth = 0
    for at in range(start, len(masked)):
        if masked[at] in _OPENING:
            depth += 1
        elif masked[at] in _CLOSING:
            depth -= 1
            if depth == 0:
                return at
    raise EmulatorError(f"line {masked.count(chr(10), 0, start) + 1}: the bracket is never closed")


def _split_commas(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        if char in _OPENING + "<":
            depth += 1
        elif char in _CLOSING + ">":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]]


def _dynamic_shared(declaration: str) -> str:
    alignment = "16"
    match = _ALIGN.search(declaration)
    if match:
        end = _closing(declaration, match.end() - 1)
        alignment = declaration[match.end() : end]
        declaration = declaration[: match.start()] + declaration[end + 1 :]
    array = _UNBOUNDED.fullmatch(declaration)
    if array is None:
        raise EmulatorError(f"`extern __shared__ {declaration.strip()};` is not of the form `T name[];`")
    kind = array["type"]
    return f"{kind}* const {array['name']} = static_cast<{kind.strip()}*>(papilio_emu_dynamic_shared({alignment}));"


def _static_shared(declaration: str, number: int) -> str:
    """One piece of block memory per variable, so that running over the end of one is not another's start."""
    made, base = [], ""
    for at, part in enumerate(_split_commas(declaration)):
        match = _DECLARED.search(part)
        if match is None:
            raise EmulatorError(f"`__shared__ {declaration.strip()};` cannot be read")
        if at == 0:
            base = part[: match.start()].rstrip("* ")
        member, name = (part if at == 0 else f"{base} {part}"), match[1]
        kind, tag = f"papilio_emu_shared_{number}_{at}", f"papilio_emu_tag_{number}_{at}"
        made.append(
            f"struct {kind} {{ {member}; }}; static char {tag}; [[maybe_unused]] auto& {name} = "
            f"static_cast<{kind}*>(papilio_emu_static_shared(&{tag}, sizeof({kind}), alignof({kind}), "
            f'"{name}"))->{name};'
        )
    return " ".join(made)


def _replace_shared(text: str) -> str:
    masked = _masked(text)
    out, done = [], 0
    for number, match in enumerate(_SHARED.finditer(masked)):
        end = masked.find(";", match.end())
        if end < 0:
            raise EmulatorError(f"line {text.count(chr(10), 0, match.start()) + 1}: `;` missing after __shared__")
        declaration = masked[match.end() : end]
        made = _dynamic_shared(declaration) if match["extern"] else _static_shared(declaration, number)
        missing = text.count("\n", match.start(), end + 1) - made.count("\n")
        out += [text[done : match.start()], made, "\n" * missing]
        done = end + 1
    return "".join([*out, text[done:]])


def _register_kernels(text: str) -> tuple[str, list[str]]:
    masked = _masked(text)
    out, names, done = [], [], 0
    for match in _GLOBAL.finditer(masked):
        if not re.search(r'extern\s+"C"\s*$', text[: match.start()]):
            continue
        at, name, bound = match.end(), "", "1024"
        while masked[at] != "(":
            word = _WORD.match(masked, at)
            if word is None:
                line = text.count("\n", 0, match.start()) + 1
                raise EmulatorError(f"line {line}: no kernel name behind __global__")
            at, name = word.end(), word[1]
            if name == "__launch_bounds__":
                end = _closing(masked, at)
                bound = " ".join(_split_commas(masked[at + 1 : end])[0].split())
                at = end + 1
        body = _closing(masked, at) + 1
        while masked[body].isspace():
            body += 1
        if masked[body] != "{":  # a declaration
            continue
        end = _closing(masked, body) + 1
        out += [text[done:end], f" PAPILIO_EMU_KERNEL({name}, ({bound}))"]
        done = end
        names.append(name)
    return "".join([*out, text[done:]]), names


@cache  # sources share their headers
def _translate_one(text: str, name: str) -> Source:
    try:
        shared = _replace_shared(text)
        registered, kernels = _register_kernels(shared)
    except EmulatorError as error:
        raise EmulatorError(f"{name}: {error}") from None
    return Source(name, f'#line 1 "{name}"\n{registered}', tuple(kernels))


def translate(text: str, name: str, files: Mapping[str, Path]) -> list[Source]:
    """Translate a source and, after it, the sources of ``files``, by name, that it includes, directly or not.

    Raises
    ------
    EmulatorError
        For a standard header (NVRTC has none), a missing include or a construct that cannot be read.
    """
    sources: dict[str, Source] = {}
    waiting = [(text, name)]
    while waiting:
        text, name = waiting.pop()
        if name in sources:
            continue
        sources[name] = _translate_one(text, name)
        for quoted, system in _INCLUDE.findall(text):
            if system:
                raise EmulatorError(f"{name} includes <{system}>: kernels use no headers, NVRTC has none")
            if quoted not in files:
                raise EmulatorError(f"{name} includes {quoted!r}, which is no source of the kernels")
            waiting.append((files[quoted].read_text(), quoted))
    return list(sources.values())
