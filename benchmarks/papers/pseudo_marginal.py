"""Section 4 of "Pseudo-marginal Bayesian inference for Gaussian processes", made again.

Run as ``python -m benchmarks.papers.pseudo_marginal [--scale small|full] [--part 1|3|figure2|real]
[--core 0]``, with ``OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1``. The small scale takes about two
hours of one core, the full one (that of the paper: ten chains of 5000 + 10000 iterations) days,
Abalone most of them. What ``results/pseudo_marginal_SCALE.json`` has already is not measured again,
so that a run can be stopped and continued. ``--draw`` makes the figures from what there is.

Inputs are uniform in the unit hypercube; f has variance 2.08 and length-scale 0.35 sqrt(d / 2),
which the paper states for its figure 2 alone, where d = 2; of more rows than are wanted, as many of
each class are kept. Priors are the paper's. All pseudo-marginal schemes of a cell have the same
random walk, tuned with EP. AA and SURR move f by ten elliptical slices. Chains begin at draws from
the prior. Effective sample sizes are those of single chains, the least over hyper-parameters, in
10000 iterations.

References
----------
Filippone & Girolami (2014), IEEE Transactions on Pattern Analysis and Machine Intelligence 36(11).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from arviz_stats.base.array import array_stats
from scipy import stats
from threadpoolctl import threadpool_limits

from skgpmcmc._typing import FloatArray
from skgpmcmc.approximations import APPROXIMATIONS, Approximation
from skgpmcmc.chain import InProcessExecutor, Segment
from skgpmcmc.importance import importance_estimate
from skgpmcmc.likelihoods import Probit
from skgpmcmc.model import (
    GaussianPrior,
    HyperPrior,
    LatentGP,
    Observations,
    make_covariance,
    smooth_kernel,
)
from skgpmcmc.samplers import Ancillary, PseudoMarginal, Sampler, Surrogate
from skgpmcmc.setup import PreparedChains, Request
from skgpmcmc.transitions import Sweep, Transition
from skgpmcmc.transitions.pseudo_marginal import PseudoMarginalMetropolis

from ..common import RESULTS, load_binary, load_results, print_table, save, use_core
from .comparative import convergence, cost, r_hat, sample_chain

SIGMA, TAU = 2.08, 0.35
ITERATIONS = 10_000
#: Approximation and importance draws of the schemes of table 1.
PM = {
    f"PM {short} ({n})": (name, n)
    for short, name in (("LA", "laplace"), ("EP", "ep"))
    for n in (1, 16, 64)
}
AUGMENTED = {"AA": Ancillary, "SURR": Surrogate}
DEFAULT = "default"
#: Of table 3, where every update is repeated.
REPEATED, N_REPEATS = {"PM": "PM EP (64)", "AA": "AA", "SURR": "SURR"}, 20
REAL = {"Breast": "breast_wisconsin", "Pima": "pima", "Abalone": "abalone_mf"}
#: Traces are thinned by this.
THINNING = 10


@dataclass(frozen=True)
class Length:
    """How long chains are."""

    n_chains: int
    n_warmup: int
    n_draws: int


@dataclass(frozen=True)
class Scale:
    """What a run covers."""

    table_1: Length
    table_3: Length
    real: Length
    data: tuple[str, ...]
    n_estimates: int  # of figure 2


SCALES = {
    "small": Scale(
        Length(4, 500, 2000), Length(4, 50, 200), Length(4, 500, 1000), ("Breast", "Pima"), 100
    ),
    "full": Scale(
        Length(10, 5000, 10_000), Length(10, 5000, 10_000), Length(10, 2000, 10_000),
        tuple(REAL), 500,
    ),
}  # fmt: skip


# --- models ---------------------------------------------------------------------------------------


def simulated(n: int, d: int, *, ard: bool, shape: float = 1.2, rate: float = 0.2) -> LatentGP:
    """As many rows of each class, and the priors of section 4.2."""
    rng = np.random.default_rng([n, d])
    theta = np.log([SIGMA, TAU * np.sqrt(d / 2.0)])
    while True:
        X = rng.uniform(size=(2 * n, d))
        prior = GaussianPrior(make_covariance(smooth_kernel(d, ard=False), X), theta)
        y = Probit().sample(prior.sample(rng), rng)
        rows = [np.flatnonzero(y == label)[: n // 2] for label in (-1.0, 1.0)]
        if min(map(len, rows)) == n // 2:
            chosen = np.concatenate(rows)
            return model_of(X[chosen], y[chosen], ard=ard, shape=shape, rate=rate)


def model_of(X: FloatArray, y: FloatArray, *, ard: bool, shape: float, rate: float) -> LatentGP:
    """A probit classifier: sigma ~ Gamma(shape, rate), tau ~ Gamma(1, rate 1 / sqrt(d))."""
    covariance = make_covariance(smooth_kernel(X.shape[1], ard=ard), X)
    sigma, tau = dict.fromkeys(covariance.names)
    laws = {sigma: stats.gamma(shape, scale=1.0 / rate), tau: prior_of_tau(X.shape[1])}
    return LatentGP(covariance, Observations(Probit(), y), HyperPrior(covariance.names, laws))


def prior_of_tau(d: int) -> Any:
    """Law of a length-scale: Gamma with shape 1 and rate 1 / sqrt(d)."""
    return stats.gamma(1.0, scale=d**0.5)


# --- schemes --------------------------------------------------------------------------------------


def _request(model: LatentGP, approximation: Approximation, length: Length, key: int) -> Request:
    rng = np.random.default_rng([len(model.y), len(model.start), key])
    rngs = rng.spawn(length.n_chains)
    starts = [model.hyperprior.sample(chain) for chain in rngs]
    return Request(model, approximation, starts, rngs, rng, None, length.n_warmup)


def _walking(
    model: LatentGP, name: str, n_importance: int, tuned: PreparedChains
) -> Transition[Any]:
    """A pseudo-marginal scheme with the walk of another, as in the paper."""
    walk = tuned.transition.proposal  # type: ignore[attr-defined]
    return PseudoMarginalMetropolis(APPROXIMATIONS[name](), walk, n_importance)


def prepared_of(model: LatentGP, scheme: str, length: Length) -> PreparedChains:
    """Tuned chains of a scheme, which begin at draws from the prior where nothing else is said."""
    if scheme in PM:
        sampler: Sampler = PseudoMarginal(moves="random_walk", defensive=0.0)
        request = _request(model, APPROXIMATIONS["ep"](), length, 0)
        tuned = sampler.set_up(request, InProcessExecutor())
        transition = _walking(model, *PM[scheme], tuned)
        again = _request(model, APPROXIMATIONS["ep"](), length, 1)
        return tuned._replace(
            transition=transition, thetas=again.starts, rngs=again.rngs, n_burn_in=length.n_warmup
        )
    if scheme == DEFAULT:
        sampler, name = PseudoMarginal(), "ep"
    else:
        sampler, name = AUGMENTED[scheme](latent="elliptical_slice", n_latent=10), "laplace"
    request = _request(model, APPROXIMATIONS[name](), length, 0)
    return sampler.set_up(request, InProcessExecutor())


def run(model: LatentGP, prepared: PreparedChains, n_draws: int) -> list[Segment]:
    """All chains."""
    each = range(len(prepared.thetas))
    return [sample_chain(model, prepared, chain, n_draws) for chain in each]


def measure(
    model: LatentGP, scheme: str, length: Length, *, repeated: bool = False
) -> tuple[dict[str, Any], FloatArray]:
    """Convergence and cost of a scheme; its draws of theta."""
    clock = time.perf_counter()
    prepared = prepared_of(model, scheme, length)
    if repeated:
        moves = getattr(prepared.transition, "moves", (prepared.transition,))
        prepared = prepared._replace(transition=Sweep(moves, (N_REPEATS,) * len(moves)))
    chains = run(model, prepared, length.n_draws)
    theta = np.stack([segment.theta for segment in chains])
    found = {**convergence(theta, ITERATIONS), **cost(chains, length.n_draws, model.n_inputs)}
    return {**found, "seconds": time.perf_counter() - clock}, theta


def real(name: str, scheme: str, length: Length) -> dict[str, Any]:
    """Figures 3 and 4: log tau of one chain, thinned, and R-hat of log tau as draws are made."""
    X, y = load_binary(REAL[name])
    found, theta = measure(model_of(X, y, ard=False, shape=1.1, rate=0.1), scheme, length)
    log_tau = theta[..., 1]
    ends = np.unique(np.geomspace(20, log_tau.shape[1], 30).astype(int))
    correlations = array_stats.autocorr(log_tau[0, ::THINNING], axis=-1)
    return {
        **found,
        "trace": log_tau[0, ::THINNING],
        "autocorrelations": correlations[:30],
        "ends": ends,
        "r_hat_at": [float(r_hat(log_tau[:, :end, None])[0]) for end in ends],
    }


def estimates(n: int, name: str, n_importance: int, n_estimates: int) -> dict[str, Any]:
    """Figure 2: the posterior of tau on a grid, from estimates of p(y | tau), again and again."""
    model = simulated(n, 2, ard=False)
    rng = np.random.default_rng([n, n_importance])
    log_tau = np.log(np.geomspace(0.05, 2.0, 25))
    approximation = APPROXIMATIONS[name]()
    log_p = np.empty((n_estimates, len(log_tau)))
    for j, at in enumerate(log_tau):
        theta = np.array([np.log(SIGMA), at])
        density = approximation.at(model, theta)
        for i in range(n_estimates):
            log_p[i, j] = importance_estimate(model, density, n_importance, rng).log_likelihood
        log_p[:, j] += model.hyperprior.log_prob(theta) - at  # of tau, and not of its log
    p = np.exp(log_p - log_p.max())
    p /= np.trapezoid(p.mean(axis=0), np.exp(log_tau))
    low, high = np.quantile(p, [0.025, 0.975], axis=0)
    return {"tau": np.exp(log_tau), "mean": p.mean(axis=0), "low": low, "high": high}


# --- what is to be measured -----------------------------------------------------------------------


def tasks(scale: Scale) -> Iterator[tuple[tuple[str, str, str], Callable[[], dict[str, Any]]]]:
    """All measurements: part, place and row, and what makes it.

    Yields
    ------
    tuple
        The three names, and a function without arguments.
    """
    for n in (50, 200):
        for approximation in ("laplace", "ep"):
            for count in (1, 64):
                row = f"{approximation} ({count})"
                make = partial(estimates, n, approximation, count, scale.n_estimates)
                yield ("figure2", f"n={n}", row), make
    places = [(n, d, ard) for n in (50, 200) for d in (2, 10) for ard in (False, True)]
    for part, length, rows in (
        ("1", scale.table_1, {scheme: scheme for scheme in (*PM, *AUGMENTED, DEFAULT)}),
        ("3", scale.table_3, REPEATED),
    ):
        for n, d, ard in places:
            place = f"n={n}, d={d}, {'ARD' if ard else 'isotropic'}"
            for row, scheme in rows.items():
                yield (part, place, row), lambda a=(n, d, ard), s=scheme, p=part, k=length: measure(
                    simulated(a[0], a[1], ard=a[2]), s, k, repeated=p == "3"
                )[0]  # fmt: skip
    for name in scale.data:
        for row, scheme in (("PM", "PM LA (1)"), ("AA", "AA"), ("SURR", "SURR"), (DEFAULT,) * 2):
            yield ("real", name, row), partial(real, name, scheme, scale.real)


def print_cells(results: dict[str, Any]) -> None:
    """Print tables 1 to 3 and what was measured of real data."""
    for part in ("1", "3", "real"):
        for place, rows in results.get(part, {}).items():
            print(f"\ntable {part}: {place}" if part != "real" else f"\n{place}")
            body = []
            for name, one in rows.items():
                operations = sum(one["operations"].values())
                operations /= N_REPEATS if part == "3" else 1  # as the paper does
                ess = np.mean(one["ess"])
                rates = ", ".join(f"{move} {r:.3f}" for move, r in one["acceptance"].items())
                body.append([
                    name, f"{ess:.0f} ({np.std(one['ess']):.0f})",
                    " ".join(f"{v or np.inf:.2f}" for v in one["r_hat"].values()),
                    f"{operations:.1f}", f"{ess / operations:.1f}", f"{one['seconds']:.0f}", rates,
                ])  # fmt: skip
            print_table(["scheme", "ESS", "R-hat", "ops", "ESS/ops", "s", "acceptance"], body)


# --- figures --------------------------------------------------------------------------------------


def draw_estimates(results: dict[str, Any], path: str) -> None:
    """Figure 2, with the density of the prior."""
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(2, 2, figsize=(9, 6), layout="constrained", sharex=True)
    for line, (place, rows) in zip(axes, results.items(), strict=True):
        for ax, name in zip(line, ("laplace", "ep"), strict=True):
            for count, color, label in ((1, "C1", "1 draw"), (64, "C0", "64 draws")):
                one = rows[f"{name} ({count})"]
                ax.plot(one["tau"], one["mean"], color=color, label=f"{label}: mean")
                for end in ("low", "high"):
                    ax.plot(one["tau"], one[end], "--", color=color, lw=0.8)
            ax.plot(one["tau"], prior_of_tau(2).pdf(one["tau"]), color="C3", label="prior")
            ax.set(title=f"{'EP' if name == 'ep' else 'Laplace'}, {place}", xscale="log")
    axes[0, 0].legend()
    fig.supxlabel("length-scale (dashed: 2.5 % and 97.5 % of the estimates)")
    fig.supylabel("density")
    fig.savefig(RESULTS / f"{path}_estimates.png", dpi=100)


def draw_real(results: dict[str, Any], path: str) -> None:
    """Figures 3 and 4."""
    import matplotlib.pyplot as plt

    lines = [(name, row) for name, rows in results.items() for row in rows]
    fig, axes = plt.subplots(
        len(lines), 3, figsize=(11, 1.7 * len(lines)), layout="constrained", squeeze=False
    )
    for line, (name, row) in zip(axes, lines, strict=True):
        one = results[name][row]
        line[0].plot(one["trace"], lw=0.7)
        line[0].set_title(f"{name}, {row}: log length-scale", fontsize=9)
        line[1].bar(range(len(one["autocorrelations"])), one["autocorrelations"])
        line[1].set(ylim=(-0.2, 1.0))
        line[1].set_title(f"autocorrelations, thinned by {THINNING}", fontsize=9)
        line[2].semilogx(one["ends"], [v or np.nan for v in one["r_hat_at"]])
        line[2].set(ylim=(0.99, 1.5))
        line[2].set_title("R-hat after so many iterations", fontsize=9)
    fig.savefig(RESULTS / f"{path}_real.png", dpi=80)


def draw(results: dict[str, Any], path: str) -> None:
    """Draw what there is."""
    if len(results.get("figure2", {})) == 2:
        draw_estimates(results["figure2"], path)
    if results.get("real"):
        draw_real(results["real"], path)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", choices=SCALES, default="small")
    parser.add_argument("--part", choices=("1", "3", "figure2", "real"), default=None)
    parser.add_argument("--draw", action="store_true", help="draw and print, measure nothing")
    parser.add_argument("--core", type=int, default=None, help="run on this core only")
    args = parser.parse_args(arguments)
    use_core(args.core)
    file = f"pseudo_marginal_{args.scale}"
    for (part, place, row), make in () if args.draw else tasks(SCALES[args.scale]):
        results = load_results(file)
        rows = results.setdefault(part, {}).setdefault(place, {})
        if args.part in (None, part) and row not in rows:
            with threadpool_limits(1):
                rows[row] = make()
            save(file, {"iterations": ITERATIONS, "repeats": N_REPEATS}, results)
    results = load_results(file)
    print_cells(results)
    draw(results, file)


if __name__ == "__main__":
    main()
