"""The pieces of a report page: everything that is put into it is escaped here, and nothing is loaded.

A page is one file that is HTML and well-formed XML alike: figures are data URIs, the style is inside, and its
content security policy forbids every request.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from string import Template

from papilio.reports.figures import Figure

__all__ = [
    "Html",
    "command_block",
    "definitions",
    "figure_grid",
    "note",
    "render_page",
    "section",
    "table",
    "tiles",
]


_NOT_XML = re.compile("[^\\t\\n\\r\\u0020-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")
"""Characters that no XML document may hold."""


class Html(str):
    """Text that is markup already; all other text is escaped."""

    __slots__ = ()


def _text(value: object) -> str:
    """Return a value as markup; control characters, which XML cannot hold, become U+FFFD."""
    if isinstance(value, Html):
        return value
    return escape(_NOT_XML.sub("\ufffd", str(value)))


def _breakable(value: object) -> str:
    """Return a value whose digits may be divided between lines at their commas."""
    return _text(value).replace(",", ",<wbr />")


def section(title: str, *parts: Html) -> Html:
    """Return a section with a heading."""
    return Html(f"<section>\n<h2>{_text(title)}</h2>\n" + "\n".join(parts) + "\n</section>")


def note(text: object, warning: bool = False) -> Html:
    """Return a paragraph."""
    return Html(f'<p class="{"warning" if warning else "note"}">{_text(text)}</p>')


def tiles(pairs: Iterable[tuple[str, object]]) -> Html:
    """Return the key figures, large: pairs of name and value."""
    items = "\n".join(
        f'<div class="tile"><span class="value">{_breakable(value)}</span>'
        f'<span class="name">{_text(name)}</span></div>'
        for name, value in pairs
    )
    return Html(f'<div class="tiles">\n{items}\n</div>')


def definitions(pairs: Iterable[tuple[str, object]]) -> Html:
    """Return a list of names and values."""
    items = "\n".join(f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>" for name, value in pairs)
    return Html(f"<dl>\n{items}\n</dl>")


def table(columns: Sequence[str], rows: Iterable[Sequence[object]], text_columns: int = 1) -> Html:
    """Return a table that scrolls by itself where the screen is narrow.

    Parameters
    ----------
    columns : sequence of str
    rows : iterable of sequences, each as long as ``columns``
    text_columns : int
        How many columns from the left hold text; the others hold numbers, set to the right.
    """

    def row(values: Sequence[object], cell: str) -> str:
        kinds = ["" if index < text_columns else ' class="n"' for index in range(len(values))]
        cells = (f"<{cell}{kind}>{_text(value)}</{cell}>" for kind, value in zip(kinds, values, strict=True))
        return f"<tr>{''.join(cells)}</tr>"

    body = "\n".join(row(values, "td") for values in rows)
    return Html(
        f'<div class="scroll"><table>\n<thead>{row(columns, "th")}</thead>\n<tbody>\n{body}\n</tbody>\n</table></div>'
    )


def figure_grid(figures: Iterable[Figure], wide: bool = False) -> Html:
    """Return figures side by side, or each at full width."""
    items = "\n".join(
        f'<figure><div class="scroll"><img alt="{_text(figure.caption)}" '
        f'src="data:image/svg+xml;base64,{b64encode(figure.svg).decode()}" /></div>'
        f"<figcaption>{_text(figure.caption)}</figcaption></figure>"
        for figure in figures
    )
    return Html(f'<div class="{"wide" if wide else "grid"}">\n{items}\n</div>')


def command_block(command: str) -> Html:
    """Return a command to copy."""
    return Html(f"<pre><code>{_text(command)}</code></pre>")


def render_page(title: str, state: str, subtitle: str, sections: Iterable[Html]) -> str:
    """Return a whole page.

    Parameters
    ----------
    title, subtitle : str
    state : str
        ``finished``, or what else it is, marked as such.
    sections : iterable of Html
    """
    template = Template(
        files("papilio.reports").joinpath("templates", "page.html").read_text(encoding="utf-8")
    )
    return template.substitute(
        title=_text(title),
        state=_text(state),
        state_class="finished" if state == "finished" else "unfinished",
        subtitle=_text(subtitle),
        sections="\n".join(sections),
    )
