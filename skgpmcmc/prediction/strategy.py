"""How f is averaged at a theta, what strategies share, and which draws stand for all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import joblib
import numpy as np

from .._typing import FloatArray, IntArray
from ..approximations import Density, Reference, density_from
from ..model import CrossCovariance, GaussianPrior, LatentGP, LatentMoments
from ..numerics.threads import one_thread

#: Distinct thetas per task of a worker.
GROUPS_PER_TASK = 8
#: Most draws whose f are handled at once.
_MOST_AT_ONCE = 400


class Conditional(Protocol):
    """Something that knows f* at new rows, for one f or for several."""

    def predict(self, X_new: FloatArray | CrossCovariance) -> LatentMoments:
        """Return means (m, g) of f* at each row, or (C, m, g), and variances (m,) or (C, m)."""

    def predict_jointly(self, X_new: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean (m, g) and covariance (m, m) of f* at all rows."""


class Given(NamedTuple):
    """f* given f at the training rows."""

    prior: GaussianPrior
    f: FloatArray  # (n, g)

    def predict(self, X_new: FloatArray | CrossCovariance) -> LatentMoments:
        """See `Conditional`."""
        return self.prior.condition(self.f, X_new)

    def predict_jointly(self, X_new: FloatArray) -> tuple[FloatArray, FloatArray]:
        """See `Conditional`."""
        return self.prior.condition_jointly(self.f, X_new)


class Group(NamedTuple):
    """Draws with equal theta."""

    model: LatentGP
    theta: FloatArray  # (p,)
    f: FloatArray  # (g, n)
    weight: FloatArray  # (g,), how many draws each stands for
    parts: tuple[FloatArray, ...]  # each (n,), what the density near p(f | y, theta) is made of

    def prior(self) -> GaussianPrior:
        """Return the prior of f there; it is factored anew at every call."""
        return self.model.prior_at(self.theta)

    def some_at_a_time(self) -> Iterator[Group]:
        """Give the draws, as many at a time as fit in memory.

        Yields
        ------
        Group
            Some of them.
        """
        for some in np.array_split(np.arange(len(self.f)), -(-len(self.f) // _MOST_AT_ONCE)):
            yield self._replace(f=self.f[some], weight=self.weight[some])

    def density(self) -> Density:
        """Return the density near p(f | y, theta), factored anew at every call."""
        return density_from(self.prior(), self.parts)


@dataclass(frozen=True)
class LatentStrategy(ABC):
    """How f is averaged at the theta of some draws.

    Attributes
    ----------
    seed : int
        Of the random numbers that belong to a theta: the same whenever they are needed.
    """

    seed: int = 0

    @abstractmethod
    def own(self, group: Group) -> Conditional:
        """f* given what the draws themselves say of f, one column for each that tells."""

    @abstractmethod
    def averaged(self, group: Group) -> Iterator[tuple[Conditional, FloatArray]]:
        """Give f* given all that f is averaged over, some at a time, and log weights (g,).

        Together the weights add up to those of the draws.
        """


def equal_rows(theta: FloatArray) -> list[IntArray]:
    """Return the positions of equal rows, in the order of first appearance."""
    groups: dict[bytes, list[int]] = {}
    for position, row in enumerate(theta):
        groups.setdefault(row.tobytes(), []).append(position)
    return [np.array(positions, dtype=np.intp) for positions in groups.values()]


def stream_of(theta: FloatArray, seed: int, *purpose: int) -> np.random.Generator:
    """Return the random numbers that belong to a theta, others for another purpose."""
    return np.random.default_rng([seed, *purpose, *theta.view(np.uint32).tolist()])


def parts_of(
    model: LatentGP, reference: Reference | None, theta: FloatArray, n_jobs: int | None = None
) -> tuple[FloatArray, ...]:
    """Find what the reference's densities are made of at each row of theta (S, p); each (S, n).

    Equal rows share one evaluation. Without a reference there are none.
    """
    if reference is None:
        return ()
    groups = equal_rows(theta)
    distinct = theta[[group[0] for group in groups]]
    rows = [distinct[i : i + GROUPS_PER_TASK] for i in range(0, len(groups), GROUPS_PER_TASK)]
    done = joblib.Parallel(n_jobs=n_jobs)(
        joblib.delayed(_parts_of)(model, reference, some) for some in rows
    )
    which = np.empty(len(theta), dtype=np.intp)
    for position, group in enumerate(groups):
        which[group] = position
    parts = zip(*(p for task in done for p in task), strict=True)
    return tuple(np.array(part)[which] for part in parts)


def _parts_of(
    model: LatentGP, reference: Reference, theta: FloatArray
) -> list[tuple[FloatArray, ...]]:
    with one_thread():
        return [reference.at(model, row).parts for row in theta]


class Subset(NamedTuple):
    """Some of many draws, each standing for its neighborhood."""

    rows: IntArray  # (S,)
    weight: FloatArray  # (S,), how many draws each stands for


def spread_subset(theta: FloatArray, n_wanted: int | None, rng: np.random.Generator) -> Subset:
    """Choose `n_wanted` of the draws theta (n, p) so that they cover all; every one for None.

    Draws are parted into cells of nearly equal size, by medians along the widest direction, and one
    of each cell is taken at random: a stratified sample, whose averages over theta vary far less
    than those of draws taken anywhere.
    """
    if n_wanted is None or n_wanted >= len(theta):
        return Subset(np.arange(len(theta)), np.ones(len(theta)))
    spread = theta.std(axis=0)
    z = theta / np.where(spread > 0.0, spread, 1.0)
    cells = _cells(z, np.arange(len(theta)), n_wanted)
    chosen = np.array([rng.choice(cell) for cell in cells], dtype=np.intp)
    order = np.argsort(chosen)
    return Subset(chosen[order], np.array([len(cell) for cell in cells], dtype=float)[order])


def _cells(z: FloatArray, members: IntArray, n_cells: int) -> list[IntArray]:
    if n_cells == 1:
        return [members]
    left = n_cells // 2
    if z.shape[1]:
        widest = int(np.argmax(z[members].std(axis=0)))
        members = members[np.argsort(z[members, widest], kind="stable")]
    cut = round(len(members) * left / n_cells)
    return _cells(z, members[:cut], left) + _cells(z, members[cut:], n_cells - left)
