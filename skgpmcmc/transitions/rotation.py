"""Proposals by a rotation of the torus on which a cheap density is uniform.

With few hyper-parameters a density can be evaluated on a grid, from which its conditional
distribution functions and independent draws follow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
from scipy import linalg, ndimage

from .._caches import ForgetsCaches
from .._typing import BoolArray, FloatArray
from .surrogate import CheapDensity

#: Step of a rotation along each axis, as a share of the torus. Averages have about half of the
#: variance of those with a low-discrepancy step (powers of the inverse root of x^(p + 1) = x + 1).
_STEP_LENGTHS = (0.382, 0.445, 0.3)
#: Standard deviation of a step, as a share of the torus: chains must not become periodic.
_STEP_SD = 0.02
#: Most hyper-parameters of a rotation: grids grow with their power.
MOST_ROTATED = len(_STEP_LENGTHS)
#: Points of an axis of a grid, halved p times for p axes: bounds its size; fine grids have twice.
_N_GRID_POINTS = 144


@dataclass(frozen=True, eq=False)
class GridDensity(ForgetsCaches):
    """A density on a grid, multilinear between its points and zero beyond it.

    Its conditional distribution functions map the grid to the unit cube and the density to the
    uniform one (Rosenblatt, 1952). In each cell they are quadratic, so that the map and its inverse
    are exact but for rounding.

    Attributes
    ----------
    center : ndarray of shape (p,)
        Natural logs.
    root : ndarray of shape (p, p)
        Lower factor C; the grid is one of z in theta = center + C z.
    low, step : ndarray of shape (p,)
        First point of each axis of the grid, and distance of neighboring points.
    values : ndarray of shape (m, ..., m)
        Density of z, not normalized; positive somewhere. Single precision suffices, because these
        values define the density.

    References
    ----------
    Rosenblatt (1952), *Remarks on a multivariate transformation*.
    """

    center: FloatArray
    root: FloatArray
    low: FloatArray
    step: FloatArray
    values: FloatArray

    @classmethod
    def of(
        cls,
        target: CheapDensity,
        seeds: FloatArray,
        root: FloatArray,
        depth: float,
        *,
        grows: bool = True,
        fine: bool = False,
    ) -> Self:
        """Find the region around some seeds in which a density is not negligible, and evaluate it.

        The region consists of the points that are connected to a seed: elsewhere an emulator may
        have any value. The grid begins around the seeds, in the coordinates of a root. It is then
        fitted to the region, and grows if the density is not small at its edge.

        Parameters
        ----------
        target : CheapDensity
            Density that is evaluated on the grid.
        seeds : ndarray of shape (k, p)
            Points with much of the density, such as modes.
        root : ndarray of shape (p, p)
            Scale of the density around them.
        depth : float
            Nats below the log density of the best seed at which the grid may end.
        grows : bool, default=True
            Whether the grid may grow beyond its first box, at whose edge a normal density of this
            scale has fallen by the depth.
        fine : bool, default=False
            Whether the grid is fine enough for rotations.
        """
        center = seeds.mean(axis=0)
        p = seeds.shape[1]
        z = _whiten(root, seeds - center)
        limit = float(target.log_prob(seeds).max()) - depth
        reach = math.sqrt(2.0 * depth)

        def evaluate_on(axes: FloatArray) -> tuple[FloatArray, BoolArray]:
            """Evaluate the log density on a grid, layer by layer; returns it with the region."""
            m = axes.shape[1]
            mesh = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, p)
            layers = np.split(center + mesh @ root.T, m)
            log_prob = np.stack([target.log_prob(layer) for layer in layers]).reshape([m] * p)
            # The region consists of the parts with density that are connected to a seed.
            matters = log_prob > limit
            places = np.rint((z - axes[:, 0]) / (axes[:, 1] - axes[:, 0])).astype(int)
            at = tuple(np.clip(places, 0, m - 1).T)
            matters[at] = True
            parts, _ = ndimage.label(matters)
            return log_prob, np.isin(parts, parts[at])

        ends = z.min(axis=0) - reach, z.max(axis=0) + reach
        for _ in range(_N_GRID_POINTS >> p):  # fewer, as priors have little mass outside of a box
            axes = np.linspace(*ends, _N_GRID_POINTS >> p).T
            log_prob, found = evaluate_on(axes)
            wanted = _fit_grid_ends(found, axes)
            if not grows:
                wanted = np.maximum(wanted[0], ends[0]), np.minimum(wanted[1], ends[1])
            grown = (wanted[0] < ends[0]).any() or (wanted[1] > ends[1]).any()
            if not grown and (wanted[1] - wanted[0] > 0.5 * (ends[1] - ends[0])).all():
                break
            ends = wanted
        if fine:
            axes = np.linspace(*ends, 2 * _N_GRID_POINTS >> p).T
            log_prob, found = evaluate_on(axes)
        log_prob = np.where(found & np.isfinite(log_prob), log_prob, -np.inf)
        top = log_prob.max()
        # If no point has a density, the chains will report that they cannot start.
        values = np.exp(log_prob - top) if np.isfinite(top) else found.astype(float)
        step = axes[:, 1] - axes[:, 0]
        return cls(center, root, axes[:, 0], step, values.astype(np.float32))

    def temper(self, temperature: float) -> GridDensity:
        """Return the density to the power of one over a temperature, on the same grid."""
        return replace(self, values=self.values ** (1.0 / temperature))

    def sample(self, rng: np.random.Generator, size: int) -> FloatArray:
        """Independent draws (size, p), uniform within a cell."""
        mass = self.values.astype(float)
        for axis in range(mass.ndim):
            below = [slice(None)] * mass.ndim
            above = [slice(None)] * mass.ndim
            below[axis] = slice(None, -1)
            above[axis] = slice(1, None)
            mass = 0.5 * (mass[tuple(below)] + mass[tuple(above)])
        edges = np.cumsum(mass)
        index = np.searchsorted(edges, rng.uniform(size=size) * edges[-1], side="right")
        cells = np.stack(np.unravel_index(index, mass.shape), axis=-1)
        z = self.low + self.step * (cells + rng.uniform(size=cells.shape))
        return self.center + z @ self.root.T

    def to_cube(self, theta: FloatArray) -> tuple[FloatArray, float] | None:
        """Map theta (p,) to the unit cube; returns u and the log density; None without density."""
        place = (self._inverse_root @ (theta - self.center) - self.low) / self.step
        u = np.empty(len(theta))
        margins = self._margins
        for r, (x, size) in enumerate(zip(place.tolist(), self.values.shape, strict=True)):
            density, mass = margins[0]
            if not 0.0 <= x < size - 1 or mass[-1] <= 0.0:
                return None
            i = int(x)
            t = x - i
            a = float(density[i])
            b = float(density[i + 1])
            u[r] = (mass[i] + t * (a + 0.5 * t * (b - a))) / mass[-1]
            margins = _slice_margins(margins, i, t)
        value = a + t * (b - a)
        return (u, math.log(value)) if value > 0.0 else None

    def from_cube(self, u: FloatArray) -> tuple[FloatArray, float]:
        """Map u (p,) of the unit cube to theta; returns theta and its log density."""
        place = np.empty(len(u))
        margins = self._margins
        for r, share in enumerate(u.tolist()):
            density, mass = margins[0]
            wanted = share * float(mass[-1])
            i = min(int(mass.searchsorted(wanted, side="right")), len(mass) - 1) - 1
            a = float(density[i])
            b = float(density[i + 1])
            rest = wanted - float(mass[i])
            # The root of a t + (b - a) t^2 / 2 = rest, without a difference of near numbers.
            denominator = a + math.sqrt(max(a * a + 2.0 * (b - a) * rest, 0.0))
            t = min(2.0 * rest / denominator, 1.0) if denominator > 0.0 else 0.0
            place[r] = i + t
            margins = _slice_margins(margins, i, t)
        value = a + t * (b - a)
        theta = self.center + self.root @ (self.low + self.step * place)
        return theta, math.log(value) if value > 0.0 else -math.inf

    @cached_property
    def _inverse_root(self) -> FloatArray:
        return _whiten(self.root, np.eye(len(self.root))).T

    @cached_property
    def _margins(self) -> list[tuple[FloatArray, FloatArray]]:
        """Marginal densities of the first coordinates, and their integrals over the last of these.

        The shapes are (m,), (m, m), ...; the unit is the cell.
        """
        found: list[tuple[FloatArray, FloatArray]] = []
        density = self.values.astype(float)
        while density.ndim:
            mass = np.zeros(density.shape)
            np.cumsum(0.5 * (density[..., 1:] + density[..., :-1]), axis=-1, out=mass[..., 1:])
            found.insert(0, (density, mass))
            density = mass[..., -1]
        return found


def _whiten(root: FloatArray, theta: FloatArray) -> FloatArray:
    return np.asarray(linalg.solve_triangular(root, theta.T, lower=True, check_finite=False).T)


def _fit_grid_ends(found: BoolArray, axes: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the ends of a grid around a region; at an edge it grows by half of the region."""
    low = np.empty(len(axes))
    high = np.empty(len(axes))
    for r, axis in enumerate(axes):
        others = tuple(k for k in range(len(axes)) if k != r)
        (inside,) = np.nonzero(found.any(axis=others))
        step = axis[1] - axis[0]
        last = len(axis) - 1
        beyond = 0.5 * (axis[inside[-1]] - axis[inside[0]]) + step
        low[r] = axis[inside[0]] - (beyond if inside[0] == 0 else step)
        high[r] = axis[inside[-1]] + (beyond if inside[-1] == last else step)
    return low, high


def _slice_margins(
    margins: list[tuple[FloatArray, FloatArray]], i: int, t: float
) -> list[tuple[FloatArray, FloatArray]]:
    """Fix the first coordinate at a share t of cell i, and drop its own margin."""
    return [(d[i] + t * (d[i + 1] - d[i]), m[i] + t * (m[i + 1] - m[i])) for d, m in margins[1:]]


@dataclass(frozen=True, eq=False)
class Rotation:
    """Proposal of a nearly fixed step in the unit cube on which a cheap density pi* is uniform.

    The unit cube is regarded as a torus. A chain of such steps visits the torus evenly, as a
    low-discrepancy sequence does, and its averages have less error than those of independent draws.
    `DirectedPair` makes a chain whose direction a rejection reverses.

    The Hastings ratio with respect to the opposite step is pi*(theta) / pi*(theta').

    Attributes
    ----------
    density : GridDensity
        pi*. The proposal stays at a theta without density.
    sign : float
        1 for steps ahead, -1 for steps back.
    spread : float
        Standard deviation of a step about its length, the same ahead and back; shares of the torus.
    """

    density: GridDensity
    sign: float = 1.0
    spread: float = _STEP_SD

    def propose(self, theta: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, float]:
        """Return theta' and ``log pi*(theta) - log pi*(theta')``."""
        place = self.density.to_cube(theta)
        if place is None:
            return theta, -np.inf
        u, log_density = place
        step = np.array(_STEP_LENGTHS[: len(u)]) + self.spread * rng.standard_normal(len(u))
        moved, log_moved = self.density.from_cube((u + self.sign * step) % 1.0)
        if log_moved == -np.inf:  # on the edge of the grid, by rounding
            return theta, -np.inf
        return moved, log_density - log_moved

    def reverse(self) -> Rotation:
        """Return the proposal of steps in the opposite direction."""
        return replace(self, sign=-self.sign)
