"""Each error of the system has the remedy for its cause; only a full disk asks for space."""

from __future__ import annotations

import ast
import errno
import os

import pytest

from papilio.system_errors import _REMEDIES, code_of, explain
from tests.conftest import ROOT

FULL = {errno.ENOSPC, errno.EDQUOT}


@pytest.mark.parametrize("code", sorted(errno.errorcode))
def test_the_reason_is_told_and_space_is_asked_for_only_when_it_lacks(code: int) -> None:
    told = explain(OSError(code, os.strerror(code)), "then resume")
    assert told.startswith(f"({os.strerror(code)}); ")
    assert told.endswith("then resume")
    assert ("space" in told.partition(");")[2]) == (code in FULL)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (errno.ENOENT, "gone"),
        (errno.ESTALE, "gone"),
        (errno.EACCES, "permissions"),
        (errno.EROFS, "mounted for writing"),
        (errno.EIO, "disk"),
        (errno.ETIMEDOUT, "network"),
        (errno.ECONNREFUSED, "network"),
        (errno.EMFILE, "ulimit -n"),
    ],
)
def test_the_remedy_names_what_is_wrong(code: int, words: str) -> None:
    assert words in explain(OSError(code, os.strerror(code)))


def test_no_code_has_two_remedies() -> None:
    codes = [code for codes in _REMEDIES.values() for code in codes]
    assert len(set(codes)) == len(codes)


@pytest.mark.parametrize("kind", [TimeoutError, FileNotFoundError, ConnectionRefusedError, PermissionError])
def test_a_class_without_a_code_or_a_message_has_its_remedy(kind: type[OSError]) -> None:
    """Libraries of the network raise such errors."""
    assert code_of(kind()) is not None
    reason, _, remedy = explain(kind()).partition("; ")
    assert len(reason) > 2
    assert remedy


def test_an_error_of_a_library_is_quoted_in_one_line() -> None:
    assert (
        explain(OSError("the archive\n is torn"), "choose another one") == "(the archive is torn); choose another one"
    )


def test_nothing_else_puts_an_error_of_the_system_into_words() -> None:
    """The text of a message never asks for space itself, and takes no ``strerror``."""
    for path in sorted((ROOT / "papilio").rglob("*.py")):
        if path.name == "system_errors.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            assert not (isinstance(node, ast.Attribute) and node.attr == "strerror"), path
            text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
            assert not any(words in text for words in ("make room", "free space there", "check free space")), (
                path,
                text,
            )
