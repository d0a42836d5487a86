"""Typical calls have the answers and the types that are written down, and Tab completes their keywords."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

import papilio
from tests.api import typical_calls


def test_typical_calls(tmp_path: Path) -> None:
    typical_calls.main(tmp_path)


def test_signatures_have_sizes_and_reading_options_by_name() -> None:
    parameters = inspect.signature(papilio.count).parameters
    assert {"p", "q", "k", "per", "where", "u"} <= parameters.keys()
    assert all(each.kind is not each.VAR_KEYWORD for each in parameters.values())
    assert "where" in inspect.signature(papilio.read).parameters
    assert "host_memory" in inspect.signature(papilio.robins_alexander).parameters


@pytest.mark.parametrize(
    ("typed", "wanted"),
    [
        ("papilio.count(g, 'biclique', p", "p="),
        ("papilio.count(g, 'clique', k", "k="),
        ("papilio.read(g, wh", "where="),
    ],
)
@pytest.mark.parametrize("with_jedi", [True, False])
def test_tab_completes_keywords_in_ipython(typed: str, wanted: str, with_jedi: bool) -> None:
    completer = pytest.importorskip("IPython.core.completer", reason="IPython is not installed")
    complete = completer.IPCompleter(namespace={"papilio": papilio}, global_namespace={})
    complete.use_jedi = with_jedi
    with completer.provisionalcompleter():
        assert wanted in {each.text for each in complete.completions(typed, len(typed))}
