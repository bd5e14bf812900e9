"""Chains against a quadrature grid, and control variates from the emulator.

Run as ``python -m benchmarks.grid [--cases sim2 pima ard3] [--controls sim2 pima ard10]``, with
``OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1``. One core.

The grid has 20 nodes per hyper-parameter over 4 posterior standard deviations to each side, along
the axes of the posterior; where those are is told to it for nothing. Its mode search is charged.
At every node p-hat is estimated by the package's own code, once with EP iterated at every node and
once with the frozen reference of the sampler, whose set-up is charged instead of the mode search.
The number of importance draws is the smallest of a few that gives the standard error.

The control variates are of a chain under the exact posterior. Let w = pi*(theta) / (p-hat p(theta))
with the chain's own p-hat. The expectation of w (h(theta) - E*[h]) is then zero for every h, where
E* is the mean under an emulated posterior pi*, which is learned for that: under the extended target
p-hat cancels. For h the gradient of log pi* even E* is known: it is zero. That gradient
without the weight, the plain zero-variance control, has mean zero under pi* only: a small bias.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from skgpmcmc import BayesianGPClassifier
from skgpmcmc.approximations import EP, GaussianApproximation, Sites
from skgpmcmc.hyperposterior import HyperPosterior, find_mode
from skgpmcmc.importance import importance_estimate
from skgpmcmc.model import LatentGP
from skgpmcmc.numerics.linalg import NotPositiveDefiniteError
from skgpmcmc.setup.emulator.cheap import Emulated
from skgpmcmc.transitions.surrogate import run_pool

from .common import CASES, fit_quietly, load_results, print_table, save, simulate_ard, use_core

NODES_PER_AXIS, HALF_WIDTH = 20, 4.0
#: Standard error that is aimed at, in posterior standard deviations.
WANTED_ERROR = 0.03
N_DRAWS = (4, 16, 64, 256)
DEFENSIVE = 0.05

DATA: dict[str, tuple[Callable[[], tuple[np.ndarray, np.ndarray]], bool]] = {
    "sim2": (lambda: CASES["sim2"].load(0), False),
    "pima": (lambda: CASES["pima"].load(0), False),
    "ard3": (lambda: simulate_ard(0, d=3), True),
    "ard10": (lambda: CASES["ard10"].load(0), True),
}

#: q(f) at theta.
At = Callable[[np.ndarray], GaussianApproximation]


# --- the grid -------------------------------------------------------------------------------------


def _search(model: LatentGP) -> float:
    """Seconds of a search for the mode and of the curvature there, from gradients."""
    start = time.perf_counter()
    approximation = EP()
    mode = find_mode(model, approximation, [model.covariance.start], with_hyperprior=True)
    q, posterior = mode.fit.q, HyperPosterior(model, approximation.with_tolerance(1e-4))
    for axis in np.eye(len(q.prior.theta)):
        for sign in (0.1, -0.1):
            posterior.at(q.prior.theta + sign * axis, q.sites)
    return time.perf_counter() - start


def _snake(dim: int) -> Iterable[tuple[int, ...]]:
    """Nodes of the grid, each next to the one before."""
    for outer in itertools.product(range(NODES_PER_AXIS), repeat=dim - 1):
        inner = range(NODES_PER_AXIS)
        for last in inner if sum(outer) % 2 == 0 else reversed(inner):
            yield (*outer, last)


class _FromNeighbor:
    """EP at every node, from the sites of the last one."""

    def __init__(self, model: LatentGP) -> None:
        self.model, self.approximation = model, EP().with_tolerance(1e-4)
        self.sites: Sites | None = None

    def __call__(self, theta: np.ndarray) -> GaussianApproximation:
        q = self.approximation.fit(self.model, theta, self.sites).q
        self.sites = q.sites
        return q


def _evaluate(
    model: LatentGP, at: At, thetas: np.ndarray, n_draws: int
) -> tuple[np.ndarray, np.ndarray]:
    """Log posterior densities and the variances of their noise; -inf where K is singular."""
    rng = np.random.default_rng(n_draws)
    log_density, variance = np.full(len(thetas), -np.inf), np.zeros(len(thetas))
    for i, theta in enumerate(thetas):
        try:
            estimate = importance_estimate(model, at(theta), n_draws, rng, defensive=DEFENSIVE)
        except NotPositiveDefiniteError:
            continue
        log_density[i] = estimate.log_likelihood + model.hyperprior.log_prob(theta)
        relative = np.exp(estimate.log_weights - estimate.log_likelihood)
        variance[i] = relative.var(ddof=1) / n_draws
    return log_density, variance


def _grid(center: np.ndarray, root: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    z = np.linspace(-HALF_WIDTH, HALF_WIDTH, NODES_PER_AXIS)[nodes]
    return center + z @ root.T


def _mean_and_error(
    thetas: np.ndarray, log_density: np.ndarray, variance: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Posterior means, standard deviations, and the standard errors of the means from noise."""
    weight = np.exp(log_density - log_density.max())
    weight /= weight.sum()
    mean = weight @ thetas
    gaps = thetas - mean
    return mean, np.sqrt(weight @ gaps**2), np.sqrt((weight**2 * variance) @ gaps**2)


def full_grid(
    model: LatentGP, at: At, center: np.ndarray, root: np.ndarray, before: float
) -> dict[str, Any]:
    """Evaluate the whole grid with more and more draws until the error is small enough."""
    dim = len(center)
    nodes = np.array(list(_snake(dim)))
    thetas = _grid(center, root, nodes)
    for n_draws in N_DRAWS:
        start = time.perf_counter()
        log_density, variance = _evaluate(model, at, thetas, n_draws)
        seconds = time.perf_counter() - start
        mean, sd, error = _mean_and_error(thetas, log_density, variance)
        if (error <= WANTED_ERROR * sd).all():
            break
    return {
        "n_nodes": len(nodes),
        "n_draws": n_draws,
        "seconds_before": before,
        "seconds_nodes": seconds,
        "seconds": before + seconds,
        "mean": mean,
        "error_in_sd": (error / sd).max(),
        "extrapolated": False,
    }


def part_of_grid(
    model: LatentGP, at: At, center: np.ndarray, root: np.ndarray, before: float, n_some: int
) -> dict[str, Any]:
    """Evaluate some nodes of a grid that is too large, and extrapolate the seconds."""
    dim = len(center)
    rng = np.random.default_rng(0)
    nodes = rng.integers(NODES_PER_AXIS, size=(n_some, dim))
    start = time.perf_counter()
    _evaluate(model, at, _grid(center, root, nodes), N_DRAWS[1])
    per_node = (time.perf_counter() - start) / n_some
    n_nodes = NODES_PER_AXIS**dim
    return {
        "n_nodes": n_nodes,
        "n_measured": n_some,
        "n_draws": N_DRAWS[1],
        "seconds_before": before,
        "seconds_nodes": per_node * n_nodes,
        "seconds": before + per_node * n_nodes,
        "mean": None,
        "error_in_sd": None,
        "extrapolated": True,
    }


def against_grid(name: str, n_draws: int, n_some: int) -> dict[str, Any]:
    """Seconds of the sampler and of the grid to the same standard error of posterior means."""
    load, ard = DATA[name]
    X, y = load()
    classifier = BayesianGPClassifier(
        ard=ard, priors="paper", n_draws=n_draws, target_ess=None, random_state=0, n_jobs=1
    )
    fit_quietly(classifier, X, y)
    d, draws = classifier.diagnostics_, classifier.theta_samples_
    run = classifier._sampling.run
    model, reference = run.models[0].model, run.models[0].reference
    flat = draws.reshape(-1, draws.shape[2])
    mean, sd = flat.mean(axis=0), flat.std(axis=0, ddof=1)
    needed = float(((d.mcse_mean / (WANTED_ERROR * sd)) ** 2).max())
    root = np.linalg.cholesky(np.cov(flat, rowvar=False))
    grids = {}
    with threadpool_limits(1):
        searching = _search(model)
        for label, at, before in (
            ("EP at every node", _FromNeighbor(model), searching),
            ("frozen reference", lambda theta: reference.at(model, theta), d.seconds_warmup),
        ):
            if len(mean) == 2:
                grids[label] = full_grid(model, at, mean, root, before)
            else:
                grids[label] = part_of_grid(model, at, mean, root, before, n_some)
    for grid in grids.values():
        if grid["mean"] is not None:
            grid["difference_in_sd"] = np.abs((grid["mean"] - mean) / sd).max()
    return {
        "n": len(y),
        "n_hyperparameters": len(mean),
        "sampler": {
            "seconds_before": d.seconds_warmup,
            "seconds": d.seconds_warmup + needed * d.seconds_sampling,
            "n_draws_made": draws.shape[0] * draws.shape[1],
            "n_draws_needed": needed * draws.shape[0] * draws.shape[1],
            "error_in_sd": (d.mcse_mean / sd).max(),
            "mean": mean,
            "max_r_hat": d.r_hat.max(),
        },
        "grids": grids,
    }


# --- control variates -----------------------------------------------------------------------------


def _controls(theta: np.ndarray, center: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """First and second powers of standardized coordinates; (m, k)."""
    z = (theta - center) / scale
    p = z.shape[1]
    squares = [z[:, i] * z[:, j] for i in range(p) for j in range(i, p)] if p <= 3 else [*(z * z).T]
    return np.column_stack([z, *squares])


def _corrected(theta: np.ndarray, controls: np.ndarray) -> np.ndarray:
    """Means of theta after regression on controls whose expectation is zero."""
    design = np.column_stack([np.ones(len(theta)), controls])
    coefficients, *_ = np.linalg.lstsq(design, theta, rcond=None)
    return coefficients[0]


class _Recorded:
    """Further iterations of a fit's own chains, with what control variates need."""

    def __init__(
        self, classifier: BayesianGPClassifier, target: Any, n_batches: int, length: int
    ) -> None:
        run = classifier._sampling.run
        shape = (len(run.models[0].chains), n_batches * length)
        self.theta = np.empty((*shape, len(run.models[0].chains[0].state.theta)))
        log_w = np.empty(shape)
        start = time.perf_counter()
        with threadpool_limits(1):
            for c, (transition, state, rng) in enumerate(run.models[0].chains):
                for i in range(shape[1]):
                    state, _ = transition.step(run.models[0].model, state, rng)
                    self.theta[c, i] = state.theta
                    log_w[c, i] = -state.estimate.log_likelihood - state.log_hyperprior
        self.seconds = time.perf_counter() - start
        flat = self.theta.reshape(-1, self.theta.shape[2])  # as the prior wants it
        log_star, gradient = target.value_and_gradient(flat)
        self.gradient = gradient.reshape(self.theta.shape)
        log_w += log_star.reshape(shape)
        self.w = np.exp(log_w - log_w.mean())
        self.batches = np.split(np.arange(shape[1]), n_batches)


def control_variates(name: str, n_batches: int, length: int) -> dict[str, Any]:
    """Variance of posterior means over batches of chains, with and without control variates."""
    load, ard = DATA[name]
    X, y = load()
    classifier = BayesianGPClassifier(
        ard=ard, priors="paper", n_draws=100, target_ess=None, random_state=0, n_jobs=1
    )
    fit_quietly(classifier, X, y)
    model, rng = classifier._sampling.run.models[0].model, np.random.default_rng(0)
    draws = classifier.theta_samples_.reshape(-1, classifier.theta_samples_.shape[2])
    center, scale = draws.mean(axis=0), draws.std(axis=0, ddof=1)
    root = np.linalg.cholesky(np.cov(draws, rowvar=False))
    start = time.perf_counter()
    with threadpool_limits(1):
        target = Emulated().posterior(model, rng)
        pool = run_pool(target, draws[rng.integers(len(draws), size=256)], root, 400, rng, 0.9)
    star = pool.reshape(-1, len(center))
    moments = _controls(star, center, scale).mean(axis=0)
    seconds_moments = time.perf_counter() - start
    recorded = _Recorded(classifier, target, n_batches, length)
    estimates: dict[str, list[np.ndarray]] = {}
    for batch in recorded.batches:
        theta = recorded.theta[:, batch].reshape(-1, len(center))
        w = recorded.w[:, batch].reshape(-1, 1)
        gradient = recorded.gradient[:, batch].reshape(-1, len(center)) * scale
        powers = _controls(theta, center, scale) - moments
        for label, value in (
            ("none", theta.mean(axis=0)),
            ("weighted moments, first powers", _corrected(theta, w * powers[:, : len(center)])),
            ("weighted moments, second powers too", _corrected(theta, w * powers)),
            ("weighted gradient", _corrected(theta, w * gradient)),
            ("gradient, unweighted", _corrected(theta, gradient)),
        ):
            estimates.setdefault(label, []).append(value)
    plain_means = np.array(estimates["none"])
    d = classifier.diagnostics_
    exact, error = plain_means.mean(axis=0), plain_means.std(axis=0, ddof=1) / np.sqrt(n_batches)
    rows = {}
    for label, of_batches in estimates.items():
        values = np.array(of_batches)
        variance = values.var(axis=0, ddof=1)
        ratio = plain_means.var(axis=0, ddof=1) / variance
        n_needed = float((variance / (WANTED_ERROR * scale) ** 2).max())  # batches, at least one
        rows[label] = {
            "variance_reduction": ratio,
            "least_variance_reduction": ratio.min(),
            "median_variance_reduction": np.median(ratio),
            "largest_gap_in_sd": np.abs((values.mean(axis=0) - exact) / scale).max(),
            "error_of_plain_mean_in_sd": (error / scale).max(),
            "seconds": d.seconds_warmup
            + (0.0 if label == "none" else seconds_moments)
            + max(1.0, n_needed) * recorded.seconds / n_batches,
        }
    sd_log_w = float(np.log(recorded.w).std())
    return {
        "n": len(y),
        "n_hyperparameters": len(center),
        "n_batches": n_batches,
        "draws_per_batch": length * recorded.theta.shape[0],
        "seconds_per_batch": recorded.seconds / n_batches,
        "seconds_moments": seconds_moments,
        "sd_log_weight": sd_log_w,
        "emulated_mean_gap_in_sd": np.abs((star.mean(axis=0) - exact) / scale).max(),
        "controls": rows,
    }


# --- command --------------------------------------------------------------------------------------


def show(results: dict[str, Any]) -> None:
    rows = []
    for name, r in results["grid"].items():
        s = r["sampler"]
        rows.append([name, r["n_hyperparameters"], "sampler", "-", f"{s['seconds']:.1f}", "-"])
        for label, g in r["grids"].items():
            note = "extrapolated" if g["extrapolated"] else f"{g['difference_in_sd']:.3f}"
            rows.append([name, g["n_nodes"], label, g["n_draws"], f"{g['seconds']:.1f}", note])
    if rows:
        print(f"seconds to a standard error of {WANTED_ERROR} sd on all means")
        print_table(["data", "p or nodes", "method", "N", "seconds", "gap to chains, sd"], rows)
    rows = [
        [
            name,
            label,
            f"{c['least_variance_reduction']:.1f}",
            f"{c['median_variance_reduction']:.1f}",
            f"{c['largest_gap_in_sd']:.3f}",
            f"{c['error_of_plain_mean_in_sd']:.3f}",
            f"{c['seconds']:.1f}",
        ]
        for name, r in results["controls"].items()
        for label, c in r["controls"].items()
    ]
    if rows:
        head = [
            "data",
            "control",
            "variance / least",
            "median",
            "gap, sd",
            "error of gap, sd",
            "seconds",
        ]
        print_table(head, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="*", choices=DATA, default=["sim2", "pima", "ard3"])
    parser.add_argument("--controls", nargs="*", choices=DATA, default=["sim2", "pima", "ard10"])
    parser.add_argument("--n-draws", type=int, default=300, help="per chain, of four")
    parser.add_argument("--n-some", type=int, default=400, help="nodes of a grid too large")
    parser.add_argument("--n-batches", type=int, default=24)
    parser.add_argument("--batch-length", type=int, default=100, help="per chain, of four")
    parser.add_argument("--core", type=int, default=None, help="run on this core only")
    args = parser.parse_args()
    use_core(args.core)
    stored = load_results("grid")
    results: dict[str, dict[str, Any]] = {
        kind: stored.get(kind, {}) for kind in ("grid", "controls")
    }
    settings = {
        key: getattr(args, key) for key in ("n_draws", "n_some", "n_batches", "batch_length")
    }
    for name in args.cases:
        results["grid"][name] = against_grid(name, args.n_draws, args.n_some)
        save("grid", settings, results)
    for name in args.controls:
        results["controls"][name] = control_variates(name, args.n_batches, args.batch_length)
        save("grid", settings, results)
    show(results)


if __name__ == "__main__":
    main()
