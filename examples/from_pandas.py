"""Count butterflies in a pandas data frame, and put the counts of its rows back into it.

The frame holds who attended which event in Davis, Gardner and Gardner's "Deep South".

    python examples/from_pandas.py
"""

from __future__ import annotations

import papilio


def main() -> None:
    """Read a frame, count per edge, and list the best supported rows."""
    frame = papilio.example("southern-women").to_pandas().rename(columns={"u": "woman", "v": "event"})

    result = papilio.count(frame, papilio.Butterfly(), per="edge")
    print(f"{result.count} butterflies in {len(frame)} attendances")

    frame["butterflies"] = result.vectors.aligned("edge")
    top = frame.sort_values(["butterflies", "woman", "event"], ascending=[False, True, True])
    print(top.head(5).to_string(index=False))


if __name__ == "__main__":
    main()
