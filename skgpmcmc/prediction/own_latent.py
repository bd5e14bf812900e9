"""Each draw's own f stands alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .._typing import FloatArray
from .strategy import Conditional, Given, Group, LatentStrategy

__all__ = ["OwnLatent", "some_at_a_time"]

#: Most draws whose f are handled at once.
_MOST_AT_ONCE = 400


def some_at_a_time(group: Group) -> Iterator[Group]:
    """Give the draws of a group, as many at a time as fit in memory."""
    for some in np.array_split(np.arange(len(group.f)), -(-len(group.f) // _MOST_AT_ONCE)):
        yield group._replace(f=group.f[some], weight=group.weight[some])


@dataclass(frozen=True)
class OwnLatent(LatentStrategy):
    """One column for each draw: its own f, as classical samplers leave it."""

    def own(self, group: Group) -> Conditional:
        """See `LatentStrategy`."""
        return Given(group.prior(), group.f.T)

    def averaged(self, group: Group) -> Iterator[tuple[Conditional, FloatArray]]:
        """See `LatentStrategy`."""
        prior = group.prior()
        for some in some_at_a_time(group):
            yield Given(prior, some.f.T), np.log(some.weight)
