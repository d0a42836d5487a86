"""What is asked of maximal bicliques in property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from papilio.motifs import MaximalBiclique


def motifs() -> st.SearchStrategy[MaximalBiclique]:
    """Draw least and largest sizes of both sides."""

    def bounds(name: str) -> st.SearchStrategy[dict[str, int | None]]:
        return st.tuples(st.integers(1, 4), st.none() | st.integers(0, 4)).map(
            lambda drawn: {
                f"min_{name}": drawn[0],
                f"max_{name}": None if drawn[1] is None else drawn[0] + drawn[1],
            }
        )

    return st.builds(lambda u, v: MaximalBiclique(**u, **v), bounds("u"), bounds("v"))
