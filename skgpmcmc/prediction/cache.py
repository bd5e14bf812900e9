"""Factors that predictions keep, so that later ones of a few rows take milliseconds."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock

from .groups import Group
from .strategy import LatentStrategy, WeightedConditional


class FactorCache:
    """The parts of thetas that predictions have made, as long as there is room.

    It belongs to the draws and the strategy of one predictor: the index of a draw says whose parts
    they are. A copy, or a pickle, is empty. The first that come stay: all predictions go through
    the thetas in the same order, and what was needed last is what will be needed last.

    Parameters
    ----------
    room : int
        Most bytes of all arrays that are kept.
    """

    def __init__(self, room: int) -> None:
        self.room = room
        self.n_bytes = 0  # of all arrays that are kept
        self._parts: dict[int, list[WeightedConditional]] = {}
        self._lock = Lock()  # predictions may run in several threads

    def __reduce__(self) -> tuple[type[FactorCache], tuple[int]]:
        return FactorCache, (self.room,)

    def __len__(self) -> int:
        """Return the number of thetas whose parts are kept."""
        return len(self._parts)

    def parts(self, strategy: LatentStrategy, group: Group) -> Iterator[WeightedConditional]:
        """Give what a strategy makes of draws; keep it at the end, if there is room for all.

        The group is one of `WeightedDraws.groups`: all draws that share a theta.

        Yields
        ------
        WeightedConditional
            A part; those of one theta share its factor, which is held once.
        """
        index = int(group.members[0])
        if index in self._parts:
            yield from self._parts[index]
            return
        some: list[WeightedConditional] = []
        blocks: dict[int, int] = {}  # sizes of arrays by their addresses
        fits = True
        for part in strategy.make_conditionals(group):
            if fits:
                some.append(part)
                arrays = (*part.conditional.arrays(), part.log_weight)
                blocks.update((array.ctypes.data, array.nbytes) for array in arrays)
                fits = self.n_bytes + sum(blocks.values()) <= self.room
            if not fits:
                some.clear()
            yield part
        n_bytes = sum(blocks.values())
        with self._lock:
            if fits and index not in self._parts and self.n_bytes + n_bytes <= self.room:
                self._parts[index] = some
                self.n_bytes += n_bytes
