"""Posterior draws with equal theta, which share one factorization."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .._typing import FloatArray, IntArray
from ..importance.density import Density
from ..importance.interpolated import make_density
from ..model.joint import LatentGP

#: Distinct thetas in a task of a worker. It is fixed, so that sums do not depend on the number of
#: workers.
GROUPS_PER_TASK = 8
#: Draws whose f are handled at once, at most: this bounds the memory for their means at new rows.
_MOST_AT_ONCE = 400


def group_equal_rows(theta: FloatArray) -> list[IntArray]:
    """Return the positions of equal rows, in the order of first appearance."""
    groups: dict[bytes, list[int]] = {}
    for position, row in enumerate(theta):
        groups.setdefault(row.tobytes(), []).append(position)
    return [np.array(positions, dtype=np.intp) for positions in groups.values()]


def make_stream(theta: FloatArray, seed: int, *purpose: int) -> np.random.Generator:
    """Return the stream of random numbers that belongs to a theta and a purpose."""
    return np.random.default_rng([seed, *purpose, *theta.view(np.uint32).tolist()])


class Group(NamedTuple):
    """Draws with equal theta."""

    model: LatentGP
    members: IntArray  # (g,), their indices among all draws
    theta: FloatArray  # (p,)
    f: FloatArray  # (g, n)
    multiplicity: FloatArray  # (g,), how many draws each stands for
    density_arrays: tuple[FloatArray, ...]  # each (n,), see `WeightedDraws`

    def make_density(self) -> Density:
        """Return the density near p(f | y, theta), factored anew at every call."""
        return make_density(self.model, self.model.prior_at(self.theta), *self.density_arrays)

    def split_into_portions(self) -> Iterator[Group]:
        """Give the draws in portions that fit in memory.

        Yields
        ------
        Group
            A portion of the draws.
        """
        for some in np.array_split(np.arange(len(self.f)), -(-len(self.f) // _MOST_AT_ONCE)):
            yield self._replace(
                members=self.members[some], f=self.f[some], multiplicity=self.multiplicity[some]
            )
