"""Posterior draws with equal theta, which share one factorization."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .._typing import FloatArray, IntArray
from ..importance.density import Density
from ..importance.interpolated import density_from
from ..model.joint import LatentGP
from ..model.prior import GaussianPrior

#: Most draws whose f are handled at once; bounds the memory for particles at new rows.
_MOST_AT_ONCE = 400


def equal_rows(theta: FloatArray) -> list[IntArray]:
    """Return the positions of equal rows, in the order of first appearance."""
    groups: dict[bytes, list[int]] = {}
    for position, row in enumerate(theta):
        groups.setdefault(row.tobytes(), []).append(position)
    return [np.array(positions, dtype=np.intp) for positions in groups.values()]


def stream_of(theta: FloatArray, seed: int, *purpose: int) -> np.random.Generator:
    """Return the random numbers that belong to a theta, others for another purpose."""
    return np.random.default_rng([seed, *purpose, *theta.view(np.uint32).tolist()])


class Group(NamedTuple):
    """Draws with equal theta."""

    model: LatentGP
    members: IntArray  # (g,), their indices among all draws
    theta: FloatArray  # (p,)
    f: FloatArray  # (g, n)
    multiplicity: FloatArray  # (g,), how many draws each stands for
    density_arrays: tuple[FloatArray, ...]  # each (n,), see `WeightedDraws`

    def prior(self) -> GaussianPrior:
        """Return the prior of f there; it is factored anew at every call."""
        return self.model.prior_at(self.theta)

    def density(self) -> Density:
        """Return the density near p(f | y, theta), factored anew at every call."""
        return density_from(self.model, self.prior(), *self.density_arrays)

    def some_at_a_time(self) -> Iterator[Group]:
        """Give the draws, as many at a time as fit in memory.

        Yields
        ------
        Group
            Some of them.
        """
        for some in np.array_split(np.arange(len(self.f)), -(-len(self.f) // _MOST_AT_ONCE)):
            yield self._replace(
                members=self.members[some], f=self.f[some], multiplicity=self.multiplicity[some]
            )
