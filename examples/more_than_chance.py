"""Did the women of a town meet more often than chance makes them, and which of them did?

Two women who met at the same two events are a butterfly. Their number is compared with that in 1,000 random graphs, in
which only the number of attendances is the same, then in which every woman goes to as many events as she did, and every
event has as many guests.

    python examples/more_than_chance.py
"""

from __future__ import annotations

import papilio


def main() -> None:
    """Compare butterflies with two null models, then groups of each size, then each event."""
    women = papilio.example("southern-women")
    for null in ("edges", "degrees"):
        found = papilio.significance(women, "butterfly", null=null)
        print(
            f"{found.observed} butterflies; with the same {null} {found.mean:.0f} on average: z = {found.z:.1f}, "
            f"p = {found.p_value:.3f}"
        )

    print("\npairs of women who met at the same q events:")
    for (_, q), size in papilio.significance(women, papilio.Biclique(2, None, max_q=5)).cells.items():
        if size.z is not None:
            print(f"  q = {q}: {size.observed:>3}, by chance {size.mean:5.1f} ± {size.std:4.1f}, z = {size.z:.1f}")

    print("\nevents whose guests meet more often than chance makes them:")
    each = papilio.significance(women, "butterfly", per="vertex")
    for event in [found for found in each.top(3) if found.place == "v"]:
        print(f"  {event.labels[0]}: z = {event.value:.1f}")


if __name__ == "__main__":
    main()
