"""Report pages from templates: everything that is put into a page is escaped, and a page loads nothing.

A page is one file that is HTML and well-formed XML alike: figures are data URIs, the style is inside, and its
content security policy forbids every request.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import cache
from statistics import median
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from papilio.reports.scaling import SHORT_S, counting_s
from papilio.tasks.worker import WorkerInfo
from papilio.wording import plural, show_bytes, show_share

_MAX_ROWS = 64
"""Workers listed one by one."""

_NOT_XML = re.compile("[^\\t\\n\\r\\u0020-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")
"""Characters that no XML document may hold."""


def _machines(workers: Iterable[WorkerInfo]) -> list[tuple[Any, ...]]:
    """Return a row for each kind of workers on each host: host, how many, threads, memory, GPU, version."""
    found = Counter(
        (
            worker.host,
            worker.threads,
            show_bytes(worker.memory_bytes),
            "none" if worker.gpu is None else f"{worker.gpu}, {show_bytes(worker.gpu_memory_bytes)}",
            worker.version,
        )
        for worker in workers
    )
    return [(host, number, *offer) for (host, *offer), number in found.items()]


def show_moment(time: float) -> str:
    """Return a moment, given in seconds since 1970, in one line."""
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d\u00a0%H:%M:%S\u00a0UTC")


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("papilio.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"MAX_ROWS": _MAX_ROWS, "SHORT_S": SHORT_S}
    environment.filters |= {
        "base64": lambda content: b64encode(content).decode(),
        "counting": counting_s,
        "machines": _machines,
        "median": median,
        "show_bytes": show_bytes,
        "moment": show_moment,
        "number": "{:,}".format,
        "percent": lambda share: f"{100 * share:.1f} %",
        "plural": plural,
        "share": show_share,
        "seconds": lambda value: f"{value:,.3f} s" if value < 10 else f"{value:,.1f} s",
    }
    return environment


def render_page(template: str, *, title: str, state: str, subtitle: str, **facts: Any) -> str:
    """Return the page of a template that extends ``page.html``, which shows ``facts``.

    The state is ``finished``, or marked as what else it is. Control characters, which XML cannot hold, become U+FFFD.
    """
    page = _environment().get_template(template)
    return _NOT_XML.sub("\ufffd", page.render(title=title, state=state, subtitle=subtitle, **facts))
