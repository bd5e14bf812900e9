"""f is integrated out under the Gaussian, as in the chains that were run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .._typing import FloatArray
from .strategy import Conditional, Group, LatentStrategy


@dataclass(frozen=True)
class Integrated(LatentStrategy):
    """One column: f* under the Gaussian approximation of p(f | y, theta), or the exact one."""

    def own(self, group: Group) -> Conditional:
        """See `LatentStrategy`."""
        return group.density().q

    def averaged(self, group: Group) -> Iterator[tuple[Conditional, FloatArray]]:
        """Give what f is averaged over; see `LatentStrategy`.

        Yields
        ------
        conditional : Conditional
            f* given some f.
        log_weight : ndarray of shape (g,)
            Of its columns.
        """
        yield group.density().q, np.log(group.weight.sum(keepdims=True))
