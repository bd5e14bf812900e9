"""Factors that predictions keep, so that later ones of a few rows take milliseconds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from threading import Lock
from typing import NamedTuple

from .groups import Group
from .strategy import LatentStrategy, WeightedConditional


class _Entry(NamedTuple):
    """All parts of one theta, and the memory that they take."""

    parts: tuple[WeightedConditional, ...]
    n_bytes: int


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
        self._entries: dict[int, _Entry] = {}
        self._lock = Lock()  # predictions may run in several threads

    def __reduce__(self) -> tuple[type[FactorCache], tuple[int]]:
        return FactorCache, (self.room,)

    def __len__(self) -> int:
        """Return the number of thetas whose parts are kept."""
        return len(self._entries)

    @property
    def n_bytes(self) -> int:
        """Bytes of all arrays that are kept."""
        entries = list(self._entries.values())  # at once: another thread may add to them
        return sum(entry.n_bytes for entry in entries)

    def parts(self, strategy: LatentStrategy, group: Group) -> Iterable[WeightedConditional]:
        """Return what a strategy makes of draws, or have it made, part by part, and keep it.

        The group is one of `WeightedDraws.groups`: all draws that share a theta.
        """
        index = int(group.members[0])
        entry = self._entries.get(index)
        if entry is not None:
            return entry.parts
        return self._keeping(index, strategy.make_conditionals(group))

    def _keeping(
        self, index: int, parts: Iterable[WeightedConditional]
    ) -> Iterator[WeightedConditional]:
        """Give the parts of a draw's theta; keep them at the end, if there is room for all."""
        some: list[WeightedConditional] = []
        blocks: dict[int, int] = {}
        fits = True
        for part in parts:
            if fits:
                some.append(part)
                # Parts of one theta share its factor, which is held once.
                blocks.update(part.bytes_by_address())
                fits = self._has_room_for(blocks)
            if not fits:
                some.clear()
            yield part
        with self._lock:
            if fits and self._has_room_for(blocks):
                self._entries[index] = _Entry(tuple(some), sum(blocks.values()))

    def _has_room_for(self, blocks: dict[int, int]) -> bool:
        return self.n_bytes + sum(blocks.values()) <= self.room
