"""Each draw's own f stands alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .._typing import FloatArray
from .strategy import Conditional, Given, Group, LatentStrategy


@dataclass(frozen=True)
class OwnLatent(LatentStrategy):
    """One column for each draw: its own f, as classical samplers leave it."""

    def own(self, group: Group) -> Conditional:
        """See `LatentStrategy`."""
        return Given(group.prior(), group.f.T)

    def averaged(self, group: Group) -> Iterator[tuple[Conditional, FloatArray]]:
        """Give what f is averaged over; see `LatentStrategy`.

        Yields
        ------
        conditional : Conditional
            f* given some f.
        log_weight : ndarray of shape (g,)
            Of its columns.
        """
        prior = group.prior()
        for some in group.some_at_a_time():
            yield Given(prior, some.f.T), np.log(some.weight)
