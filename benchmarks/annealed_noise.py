"""Noise of estimates of p(y | theta): importance sampling against annealing at its cost.

Run as ``python -m benchmarks.annealed_noise``, with ``OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1``;
results go to ``results/annealed_noise.json``. An estimate that is too noisy makes pseudo-marginal
chains stay. The cases are those in which that has happened: a softmax, nearly separable classes
under Laplace, labels without a signal under EP, each at variances of the latent function that are
large and that the data do not rule out. Annealing begins at the density that importance sampling
draws from, with 64 draws and temperatures that keep 90 % of a pilot batch's effective sample size.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_digits, load_wine
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from skgpmcmc.approximations import EP, Laplace
from skgpmcmc.importance import Density, importance_estimate
from skgpmcmc.importance.annealed import (
    EllipticalKernel,
    PathKernel,
    annealed_evidence,
    find_schedule,
)
from skgpmcmc.importance.gaussian import importance_gaussian
from skgpmcmc.likelihoods import Likelihood, Probit, Softmax
from skgpmcmc.model import ClasswiseGP, HyperPrior, LatentGP, Observations, make_covariance
from skgpmcmc.transitions import Trajectory
from skgpmcmc.transitions.annealed import TrajectoryKernel

from .common import print_table, save

#: Estimates at each theta, and draws of one by importance sampling.
N_ESTIMATES, N_DRAWS = 20, (64, 512, 4096)
DEFENSIVE = 0.05
KERNELS: dict[str, tuple[PathKernel, int]] = {
    "elliptical slices": (EllipticalKernel(), 1),
    "elliptical slices, three moves": (EllipticalKernel(), 3),
    "HMC": (TrajectoryKernel(Trajectory(max_steps=3)), 1),
}


def classes(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs and classes, 0.0, 1.0, ... for a softmax, and else -1.0 and +1.0."""
    rng = np.random.default_rng(0)
    if name == "alternating":
        return np.linspace(-1.7, 1.7, 30)[:, None], np.where(np.arange(30) % 2, 1.0, -1.0)
    if name == "random":
        return rng.standard_normal((60, 2)), rng.choice([-1.0, 1.0], size=60)
    load, n, kept = {
        "wine": (load_wine, 100, (0, 1, 2)),
        "digits": (load_digits, 80, (0, 1, 2, 3)),
        "3 v 5": (load_digits, 100, (3, 5)),
    }[name]
    X, y = load(return_X_y=True)
    rows = rng.permutation(np.flatnonzero(np.isin(y, kept)))[:n]
    X = X[rows][:, np.ptp(X[rows], axis=0) > 0.0]
    y = np.searchsorted(kept, y[rows]).astype(float)
    return StandardScaler().fit_transform(X), y if len(kept) > 2 else 2.0 * y - 1.0


def model_of(name: str) -> LatentGP:
    """Return the model of a case, without priors of theta."""
    X, y = classes(name)
    n_classes = len(np.unique(y))
    likelihood: Likelihood = Softmax(n_classes) if n_classes > 2 else Probit()
    kind = ClasswiseGP if n_classes > 2 else LatentGP
    covariance = make_covariance(ConstantKernel() * RBF(), X)
    return kind(covariance, Observations(likelihood, y), HyperPrior((), {}))


#: What draws f, and log variances and log length-scales, for each case.
CASES = {
    "softmax, wine": ("wine", "laplace", ((4.0, 1.0), (6.0, 1.0), (8.0, 1.0))),
    "softmax, digits": ("digits", "laplace", ((4.0, 2.0), (6.0, 2.0), (8.0, 2.0))),
    "Laplace, digits 3 v 5": ("3 v 5", "laplace", ((4.0, 2.0), (6.0, 2.0), (8.0, 2.0))),
    "EP, random labels": ("random", "ep", ((2.0, -2.0), (4.0, -2.0), (6.0, -2.0))),
    "EP, alternating labels": ("alternating", "ep", ((2.0, -2.0), (4.0, -2.0), (6.0, -2.0))),
}


def density_of(model: LatentGP, approximation: str, theta: np.ndarray) -> Density:
    """Return what importance sampling draws from."""
    q = (Laplace() if approximation == "laplace" else EP()).fit(model, theta).q
    return importance_gaussian(q, model)


def noise(estimate: Callable[[], float]) -> dict[str, float]:
    """Return mean and standard deviation of a log estimate, and seconds for each."""
    begun = time.process_time()
    values = np.array([estimate() for _ in range(N_ESTIMATES)])
    seconds = (time.process_time() - begun) / N_ESTIMATES
    return {"mean": float(values.mean()), "sd": float(values.std(ddof=1)), "seconds": seconds}


def measure(model: LatentGP, approximation: str, theta: np.ndarray) -> dict[str, Any]:
    """Return what each method makes of p(y | theta)."""
    density = density_of(model, approximation, theta)
    rng = np.random.default_rng(1)
    found: dict[str, Any] = {}
    for n in N_DRAWS:
        found[f"importance, {n}"] = noise(
            lambda n=n: (
                importance_estimate(model, density, n, rng, defensive=DEFENSIVE).log_likelihood
            )
        )
    for name, (kernel, n_moves) in KERNELS.items():
        if name == "HMC" and model.likelihood.n_functions > 1:
            continue
        settings: dict[str, Any] = {"kernel": kernel, "n_moves": n_moves}
        schedule = find_schedule(model, density.q, None, rng, **settings)
        found[name] = noise(
            lambda schedule=schedule, settings=settings: (
                annealed_evidence(model, density.q, schedule, 64, rng, **settings).log_evidence
            )
        )
        found[name]["temperatures"] = len(schedule.temperatures)
    return found


def main() -> None:
    """Measure all cases, save and print them."""
    results: dict[str, Any] = {}
    with threadpool_limits(1):
        for case, (name, approximation, thetas) in CASES.items():
            model = model_of(name)
            results[case] = {
                f"{theta[0]:g}, {theta[1]:g}": measure(model, approximation, np.array(theta))
                for theta in thetas
            }
            for theta, cells in results[case].items():
                print(f"{case}: log variance and log length-scale {theta}")
                rows = [
                    [name, f"{c['mean']:.2f}", f"{c['sd']:.2f}", f"{1e3 * c['seconds']:.1f}"]
                    for name, c in cells.items()
                ]
                print_table(["method", "log p(y)", "sd", "ms"], rows)
    settings = {"n_estimates": N_ESTIMATES, "defensive": DEFENSIVE, "n_annealed": 64}
    save("annealed_noise", settings, results)


if __name__ == "__main__":
    main()
