"""Posterior of two hyper-parameters by grid quadrature: what chains are compared with.

log p-hat is taken at the nodes of a lattice by importance sampling from converged EP, in batches
that are independent, so that the error of every summary is known from their spread. The lattice
covers at least 5 posterior standard deviations to each side and grows until the density at its
edges is negligible.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from arviz_stats.base.array import array_stats
from scipy.interpolate import RectBivariateSpline
from scipy.special import logsumexp
from threadpoolctl import threadpool_limits

from skgpmcmc.approximations import EP, GaussianApproximation, Sites
from skgpmcmc.importance import Density, importance_estimate
from skgpmcmc.importance.sequential import SequentialApproximation, choose_sequential_rows
from skgpmcmc.model import LatentGP
from skgpmcmc.numerics.linalg import NotPositiveDefiniteError

#: Lattice spacing and first half width, in standard deviations along the axes.
STEP, HALF_WIDTH = 0.5, 5.0
#: Farthest that the lattice goes.
MAX_HALF_WIDTH = 12.0
#: Log density at the edges, below the top, at which the lattice is wide enough.
EDGE = 10.0
#: Nodes that EP puts so much below the top are not examined by importance sampling.
NEGLIGIBLE = 20.0
#: No log density counts as lower than this below the top.
LOWEST = 60.0
#: The spline is read so many times per lattice cell.
REFINEMENT = 10

#: Noise of an estimate from which sequential rows follow.
NOISE = 0.1
N_BATCHES = 10
DEFENSIVE = 0.05
SUMMARIES = ("mean", "sd", "q05", "q95")
PROBABILITIES = {"q05": 0.05, "q95": 0.95}

Node = tuple[int, int]


@dataclass(frozen=True)
class Lattice:
    """Log p-hat + log p(theta) on ``theta = center + root z``; values (n_batches, k0, k1)."""

    center: np.ndarray
    root: np.ndarray
    low: Node  # in units of STEP
    values: np.ndarray


class _Nodes:
    """What is known at the nodes so far."""

    def __init__(
        self, model: LatentGP, center: np.ndarray, root: np.ndarray, n_draws: int, seed: int
    ) -> None:
        self.model, self.center, self.root, self.n_draws = model, center, root, n_draws
        self.approximation = EP().with_tolerance(1e-5)
        self.rng = np.random.default_rng(seed)
        self.sites: dict[Node, Sites] = {}
        self.values: dict[Node, np.ndarray] = {}  # (n_batches,)
        self.top = -np.inf

    def add(self, node: Node) -> None:
        theta = self.center + STEP * self.root @ np.array(node)
        log_prior = self.model.hyperprior.log_prob(theta)
        inward = (node[0] - np.sign(node[0]), node[1] - np.sign(node[1]))
        try:
            fit = self.approximation.fit(self.model, theta, self.sites.get(inward))
            self.sites[node] = fit.q.sites
            log_density = fit.log_evidence + log_prior
            values = np.full(N_BATCHES, log_density)
            self.top = max(self.top, log_density)
            if log_density > self.top - NEGLIGIBLE:
                density = self.density(fit.q)
                values = log_prior + np.array(
                    [
                        importance_estimate(
                            self.model, density, self.n_draws, self.rng, defensive=DEFENSIVE
                        ).log_likelihood
                        for _ in range(N_BATCHES)
                    ]
                )
        except NotPositiveDefiniteError:
            values = np.full(N_BATCHES, -np.inf)
        self.values[node] = values

    def density(self, q: GaussianApproximation) -> Density:
        """Return q with its most skewed rows drawn sequentially.

        Where the latent variance is large, few of the draws from q have most of the weight. The
        estimates of most batches are then too small, and so are their differences.
        """
        skewness = q.skewness(self.model)
        rows = (
            np.empty(0, dtype=int)
            if skewness is None
            else choose_sequential_rows(skewness[None], NOISE)
        )
        if len(rows) == 0:
            return q
        return SequentialApproximation(q, self.model.observations_at(q.prior.theta), rows)

    def too_high(self, nodes: list[Node]) -> bool:
        return max(float(self.values[node].max()) for node in nodes) > self.top - EDGE


def _outwards(low: Node, high: Node) -> Iterator[Node]:
    nodes = [(i, j) for i in range(low[0], high[0] + 1) for j in range(low[1], high[1] + 1)]
    return iter(sorted(nodes, key=lambda node: (max(map(abs, node)), node)))


def evaluate_lattice(
    model: LatentGP, center: np.ndarray, root: np.ndarray, n_draws: int, seed: int
) -> Lattice:
    """Evaluate the posterior on a lattice around `center` (2,), with axes `root` (2, 2)."""
    half, most = round(HALF_WIDTH / STEP), round(MAX_HALF_WIDTH / STEP)
    low, high = [-half, -half], [half, half]
    known = _Nodes(model, center, root, n_draws, seed)
    growing = True
    with threadpool_limits(1):
        while growing:
            for node in _outwards((low[0], low[1]), (high[0], high[1])):
                if node not in known.values:
                    known.add(node)
            growing = False
            for axis in (0, 1):
                for limits, sign in ((low, -1), (high, 1)):
                    edge = [node for node in known.values if node[axis] == limits[axis]]
                    if abs(limits[axis]) < most and known.too_high(edge):
                        limits[axis] += 2 * sign
                        growing = True
    values = np.array(
        [
            [known.values[i, j] for j in range(low[1], high[1] + 1)]
            for i in range(low[0], high[0] + 1)
        ]
    )
    return Lattice(center, root, (low[0], low[1]), np.moveaxis(values, 2, 0))


def _summaries(lattice: Lattice, log_density: np.ndarray) -> np.ndarray:
    """Summaries of both components for values (k0, k1) on the lattice; (4, 2)."""
    values = np.maximum(log_density - log_density.max(), -LOWEST)
    z = [STEP * (low + np.arange(k)) for low, k in zip(lattice.low, values.shape, strict=True)]
    spline = RectBivariateSpline(z[0], z[1], values)
    fine = [np.linspace(a[0], a[-1], REFINEMENT * (len(a) - 1) + 1) for a in z]
    weight = np.exp(spline(fine[0], fine[1])).ravel()
    weight /= weight.sum()
    points = np.stack(np.meshgrid(*fine, indexing="ij"), axis=-1).reshape(-1, 2)
    theta = lattice.center + points @ lattice.root.T
    mean = weight @ theta
    sd = np.sqrt(weight @ (theta - mean) ** 2)
    quantiles = [
        [_quantile(theta[:, r], weight, probability) for r in range(2)]
        for probability in PROBABILITIES.values()
    ]
    return np.stack([mean, sd, *np.array(quantiles)])


def _quantile(values: np.ndarray, weight: np.ndarray, probability: float) -> float:
    places, index = np.unique(values, return_inverse=True)
    mass = np.bincount(index, weight)
    return float(np.interp(probability, np.cumsum(mass) - 0.5 * mass, places))


def reference(
    model: LatentGP, draws: np.ndarray, n_draws: int | None = None, seed: int = 20140901
) -> dict[str, Any]:
    """Summaries of p(theta | y), their errors, and how deep the edges of the lattice are.

    `draws` (m, 2) only say where the posterior is; `n_draws` is per node and batch, 2 n by default.
    """
    center = draws.mean(axis=0)
    root = np.linalg.cholesky(np.cov(draws, rowvar=False))
    n_draws = 2 * len(model.y) if n_draws is None else n_draws
    lattice = evaluate_lattice(model, center, root, n_draws, seed)
    pooled = logsumexp(lattice.values, axis=0) - np.log(N_BATCHES)
    value = _summaries(lattice, pooled)
    batches = np.array([_summaries(lattice, batch) for batch in lattice.values])
    error = batches.std(axis=0, ddof=1) / np.sqrt(N_BATCHES)
    edges = np.concatenate([pooled[0], pooled[-1], pooled[:, 0], pooled[:, -1]])
    return {
        "value": dict(zip(SUMMARIES, value.tolist(), strict=True)),
        "error": dict(zip(SUMMARIES, error.tolist(), strict=True)),
        "n_nodes": int(pooled.size),
        "n_draws_per_node": n_draws * N_BATCHES,
        "edge_depth": float(pooled.max() - edges.max()),
    }


def compare(theta: np.ndarray, exact: dict[str, Any]) -> dict[str, Any]:
    """z-scores and differences in posterior standard deviations of draws (n_chains, m, 2)."""
    flat = theta.reshape(-1, theta.shape[2])
    axes: dict[str, Any] = {"chain_axis": 0, "draw_axis": 1}
    z, difference = {}, {}
    for name in SUMMARIES:
        probability = PROBABILITIES.get(name)
        if probability is None:
            value = flat.mean(axis=0) if name == "mean" else flat.std(axis=0, ddof=1)
            mcse = array_stats.mcse(theta, method=name, **axes)
        else:
            value = np.quantile(flat, probability, axis=0)
            mcse = array_stats.mcse(theta, method="quantile", prob=probability, **axes)
        gap = value - np.array(exact["value"][name])
        z[name] = (gap / np.hypot(mcse, exact["error"][name])).tolist()
        difference[name] = (gap / np.array(exact["value"]["sd"])).tolist()
    return {
        "z": z,
        "difference_in_sd": difference,
        "largest_z": float(max(np.abs(list(z.values())).ravel())),
        "largest_difference_in_sd": float(max(np.abs(list(difference.values())).ravel())),
    }
