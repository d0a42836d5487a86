"""Which partition a worker goes on with: one that it holds, or shares a block with, before it reads another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence


class PartAffinity:
    """Remembers which partition each worker was given last, and chooses its next one.

    A partition is *free* when no worker was given it last. A worker that was told what to expect is given that, unless
    it is gone; others are given it only where nothing else is free.

    ``blocks`` are those that each partition is made of. Two share a block where they have the same name in the same
    place; the last ones (the ends of wedges) are held to be the larger ones.
    """

    def __init__(self, blocks: Sequence[tuple[str, ...]]) -> None:
        self._blocks = blocks
        self._last: dict[str, int] = {}
        self._expected: dict[str, int] = {}
        self._holders: Counter[int] = Counter()

    def choose_partition(self, worker: str, left: Mapping[int, int], least_help: int = 0) -> int | None:
        """Return the partition of the next lease of a worker, or None when nothing is left for it.

        The one that it was given last, as long as there is any of it; then a free one that shares a block with that,
        the last block before the others; then a free one whose last block the fewest workers have; then the one of
        which most is left for each worker that has it, and ``least_help`` at least. O(partitions left). ``left`` is the
        work left by partition.
        """
        last = self._last.get(worker)
        if last is not None and last in left:
            return last
        chosen = self._pick(worker, left, least_help)
        self._expected.pop(worker, None)
        if chosen is not None:
            self._release(worker)
            self._last[worker] = chosen
            self._holders[chosen] += 1
        return chosen

    def expect(self, worker: str, left: Mapping[int, int]) -> int | None:
        """Return the partition that a worker will probably be given once its last one is done; None if none is free.

        The worker is given that, unless others have nothing else.
        """
        expected = self._expected.get(worker)
        if expected is None or expected not in left or self._holders[expected]:
            last = self._last.get(worker)
            self._expected.pop(worker, None)
            expected = self._pick(worker, {each: work for each, work in left.items() if each != last})
            if expected is not None and self._holders[expected]:
                expected = None
        if expected is not None:
            self._expected[worker] = expected
        return expected

    def forget(self, worker: str) -> None:
        """Take note that a worker is gone, and with it what it held."""
        self._release(worker)
        self._expected.pop(worker, None)

    def _release(self, worker: str) -> None:
        last = self._last.pop(worker, None)
        if last is not None:
            self._holders[last] -= 1

    def _pick(self, worker: str, left: Mapping[int, int], least_help: int = 0) -> int | None:
        """Return a partition other than the one that the worker was given last, of which nothing is left."""
        if not left:
            return None
        last, expected, holders = self._last.get(worker), self._expected.get(worker), self._holders
        if expected is not None and expected in left and not holders[expected]:
            return expected
        free = [each for each in left if not holders[each]]
        reserved = set(self._expected.values())
        free = [each for each in free if each not in reserved] or free
        if not free:
            most = max(left, key=lambda each: (left[each] / (1 + holders[each]), -each))
            return most if left[most] >= least_help else None
        if last is not None:
            for place in range(-1, -len(self._blocks[last]) - 1, -1):
                name = self._blocks[last][place]
                sharing = [each for each in free if self._block(each, place) == name]
                if sharing:
                    return min(sharing)
        crowd = Counter(self._block(each, -1) for each in self._last.values())
        return min(free, key=lambda each: (crowd[self._block(each, -1)], -left[each], each))

    def _block(self, partition: int, place: int) -> str | None:
        blocks = self._blocks[partition]
        return blocks[place] if -place <= len(blocks) else None
