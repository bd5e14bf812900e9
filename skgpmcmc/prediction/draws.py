"""Posterior draws with weights, and the conditionals of f* that they give, theta by theta."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from .._typing import FloatArray, IntArray
from ..importance.density import ReferenceDensity
from ..model.joint import LatentGP
from .cache import FactorCache
from .densities import find_density_arrays
from .groups import Group, group_equal_rows
from .strategy import LatentStrategy, WeightedConditional


@dataclass(frozen=True, eq=False)
class WeightedDraws:
    """S posterior draws, each of which stands for a number of draws.

    Draws with equal theta share one factorization, which is kept from one prediction to the next.

    Attributes
    ----------
    model : LatentGP
    theta : ndarray of shape (S, p)
        Natural logs.
    f : ndarray of shape (S, n)
    multiplicity : ndarray of shape (S,)
        How many draws each stands for.
    density_arrays : tuple of ndarray of shape (S, n), or None
        What the densities of f near p(f | y, theta) are made of, such as the sites of EP; functions
        of theta. With None the first prediction finds these arrays.
    strategy : LatentStrategy
        How f is averaged at each theta.
    reference : ReferenceDensity or None
        What finds `density_arrays` where there are none.
    cache_bytes : int
        Largest memory of the factors that are kept.
    cache : FactorCache
        The factors that are kept; they change no result.
    """

    model: LatentGP
    theta: FloatArray
    f: FloatArray
    multiplicity: FloatArray
    density_arrays: tuple[FloatArray, ...] | None
    strategy: LatentStrategy
    reference: ReferenceDensity | None = None
    cache_bytes: int = 0
    cache: FactorCache = field(init=False)

    def __post_init__(self) -> None:
        # Other draws, or another strategy, have a cache of their own.
        object.__setattr__(self, "cache", FactorCache(self.cache_bytes))

    @property
    def total(self) -> float:
        """How many draws all of them stand for."""
        return float(self.multiplicity.sum())

    def groups(self) -> Iterator[Group]:
        """Give all draws, those with equal theta together, in the order of first appearance."""
        return map(self.group, group_equal_rows(self.theta))

    def group(self, members: IntArray) -> Group:
        """Return the draws at these positions, which are all that share a theta."""
        first = members[0]
        density_arrays = tuple(array[first] for array in self._known_arrays)
        return Group(
            self.model,
            members,
            self.theta[first],
            self.f[members],
            self.multiplicity[members],
            density_arrays,
        )

    def parts(self, group: Group) -> Iterator[WeightedConditional]:
        """Return what f is averaged over at the theta of a group, some at a time."""
        return self.cache.parts(self.strategy, group)

    @property
    def _known_arrays(self) -> tuple[FloatArray, ...]:
        return self._arrays_found_late if self.density_arrays is None else self.density_arrays

    @cached_property
    def _arrays_found_late(self) -> tuple[FloatArray, ...]:
        return find_density_arrays(self.model, self.reference, self.theta)
