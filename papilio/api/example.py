"""The graphs that the package contains, to try it on."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any, Literal, NamedTuple

from papilio.api.read import Graph, read
from papilio.arguments import checked

ExampleName = Literal["southern-women", "senate-votes", "karate-club"]


class Example(NamedTuple):
    """A graph of the package: its file, how to read it, and where it is from."""

    file: str
    reading: dict[str, Any]
    holds: str
    source: str

    @property
    def path(self) -> Path:
        return Path(__file__).parents[1] / "data" / self.file

    @property
    def text(self) -> str:
        """The lines of the file, unpacked."""
        lines = self.path.read_bytes()
        return (gzip.decompress(lines) if self.path.suffix == ".gz" else lines).decode()


EXAMPLES: dict[ExampleName, Example] = {
    "southern-women": Example(
        "southern-women.csv",
        {"u": "woman", "v": "event"},
        "18 women by 14 social events, 89 attendances",
        "A. Davis, B. B. Gardner, M. R. Gardner, Deep South, University of Chicago Press, 1941",
    ),
    "senate-votes": Example(
        "senate-votes.txt.gz",
        {"sign": 3},
        "145 senators by 1,056 bills of the U.S. Senate, 27,083 votes, yea (+1) or nay (-1)",
        "T. Derr, C. Johnson, Y. Chang, J. Tang, Balance in signed bipartite networks, CIKM 2019",
    ),
    "karate-club": Example(
        "karate-club.csv",
        {"kind": "unipartite"},
        "34 members of a karate club, 78 friendships; a unipartite graph",
        "W. W. Zachary, An information flow model for conflict and fission in small groups, "
        "Journal of Anthropological Research 33, 1977",
    ),
}


@checked
def example(name: ExampleName) -> Graph:
    """Return a small public graph that the package contains.

    Parameters
    ----------
    name : {"southern-women", "senate-votes", "karate-club"}
        18 women by 14 social events (Davis, Gardner and Gardner 1941); 145 senators by 1,056 bills, a signed graph
        (Derr et al. 2019); the friendships of 34 members of a karate club, a unipartite graph (Zachary 1977).

    Returns
    -------
    Graph
        As :func:`papilio.read` returns it; ``source`` is the path of its file.

    Raises
    ------
    PapilioError
        InputError for another name; otherwise as :func:`papilio.read`.

    Examples
    --------
    >>> women = papilio.example("southern-women")
    >>> papilio.count(women, "butterfly").count
    341
    """
    found = EXAMPLES[name]
    return read(found.path, **found.reading)
