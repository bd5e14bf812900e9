"""Tables 1 to 6 of "A comparative evaluation of stochastic-based inference methods", made again.

Run as ``python -m benchmarks.papers.comparative [--scale small|full] [--table 2] [--group lrg]
[--method KHR] [--core 0]``, with ``OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1``. The small scale
takes about an hour of one core, a table of it some minutes; the full one (that of the paper: ten
data sets and ten chains of 5000 + 20000 iterations in each cell) many days. Cells that
``results/comparative_SCALE.json`` has already are left out unless ``--again`` is given, so a run
can be stopped and continued.

Set-up of section 4.1: X uniform in the unit hypercube, sigma = exp(2), psi_r = log tau_r uniform in
[-3, -1], the same X, theta and f for all likelihoods; tau_r ~ Gamma(1, rate 1), sigma ~
InvGamma(1, scale 1). Effective sample sizes are those of single chains, the least over the sampled
variables, scaled to 20000 iterations; R-hat is Gelman and Rubin's, without the factor for degrees
of freedom, the largest over the variables. The paper does not state the thresholds of its ordinal
model: here five classes are equally probable under the prior, and the noise has standard deviation
1.

References
----------
Filippone, Zhong & Girolami (2013), Machine Learning 93.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from arviz_stats.base.array import array_stats
from scipy import stats
from threadpoolctl import threadpool_limits

from skgpmcmc._typing import FloatArray
from skgpmcmc.approximations import APPROXIMATIONS
from skgpmcmc.chain import InProcessExecutor, Segment, sample, switch
from skgpmcmc.likelihoods import Likelihood, Logit, OrdinalProbit, Poisson, Volatility
from skgpmcmc.model import (
    GPState,
    HyperPrior,
    LatentGP,
    Observations,
    make_covariance,
    smooth_kernel,
)
from skgpmcmc.parameterizations import AncillaryAugmentation, SufficientAugmentation
from skgpmcmc.samplers import SAMPLERS, Augmented, KnorrHeldRue, PseudoMarginal, Sampler
from skgpmcmc.samplers.within_gibbs import make_hyper_moves, make_latent_moves
from skgpmcmc.setup import PreparedChains, Request
from skgpmcmc.setup.random_walk import set_up_sweep
from skgpmcmc.transitions import HyperUpdate, Sweep, Transition

from ..common import load_binary, load_results, print_table, save, use_core

LOG_SIGMA = 2.0
PSI = (-3.0, -1.0)
MOST_LEAPFROG = 10
#: Iterations to which effective sample sizes are scaled, those of the paper.
ITERATIONS = 20_000
CHECKPOINTS = (1000, 2000, 5000, 10_000, 20_000)
LEVEL = 0.05
#: Thresholds of the ordinal model.
THRESHOLDS = tuple((np.exp(LOG_SIGMA) + 1.0) ** 0.5 * stats.norm.ppf([0.2, 0.4, 0.6, 0.8]))

LIKELIHOODS: dict[str, Likelihood] = {
    "lrg": Logit(),
    "lcx": Poisson(),
    "vlt": Volatility(),
    "ord": OrdinalProbit(THRESHOLDS, fixed=True),
}
#: Files of the data of table 6; SPECT is its training set, of which the paper has the size.
REAL = {
    "Pima": "pima",
    "Wisconsin": "breast_wisconsin",
    "SPECT": "spect_train",
    "Ionosphere": "ionosphere",
}

#: Rows of the tables; the last of table 5 and 6 is the package's own sampler.
LATENT = {
    "MH v1": "mh_v1",
    "MH v2": "mh_v2",
    "SMMALA": "smmala",
    "ELL-SS": "elliptical_slice",
    "HMC v1": "hmc_v1",
    "HMC v2": "hmc_v2",
    "RMHMC": "rmhmc",
}
HYPER = {"MH": "mh", "HMC": "hmc", "SMMALA": "smmala"}
STRATEGIES = {"AA": "aa", "ASIS": "asis", "KHR": "khr", "SA": "sa", "SURR": "surr", "PM": "pm"}


@dataclass(frozen=True)
class Length:
    """How long chains are, and of how many data sets."""

    n_data: int
    n_chains: int
    n_warmup: int
    n_draws: int


@dataclass(frozen=True)
class Scale:
    """What a run covers.

    `others` is for likelihoods other than the logistic one, and `slow` for methods that are slow.
    """

    sizes: tuple[int, ...]
    dims: tuple[int, ...]
    real: tuple[str, ...]
    tables: Mapping[int, Length]
    others: Mapping[int, Length]
    slow: Mapping[str, Length] = field(default_factory=dict)

    def length(self, table: int, group: str, method: str) -> Length:
        """Return the length of chains of a method in a part of a table."""
        if method in self.slow:
            return self.slow[method]
        lengths = self.others if group in LIKELIHOODS and group != "lrg" else self.tables
        return lengths[table]


PAPER = dict.fromkeys(range(2, 7), Length(10, 10, 5000, 20_000))
SCALES = {
    "small": Scale(
        (100,),
        (2, 10),
        ("SPECT",),
        {
            2: Length(2, 4, 5000, 20_000),
            3: Length(2, 2, 2000, 8000),
            4: Length(2, 4, 500, 1000),
            5: Length(2, 4, 5000, 5000),
            6: Length(1, 4, 2000, 4000),
        },
        {2: Length(1, 4, 500, 5000), 4: Length(1, 4, 500, 1000)},
        {"RMHMC": Length(1, 4, 500, 2000)},
    ),
    "full": Scale((100, 400), (2, 10), tuple(REAL), PAPER, PAPER),
}


# --- data and models ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Problem:
    """A data set, and what generated it: NaN and nothing for real data."""

    model: LatentGP
    theta: FloatArray
    f: FloatArray


def simulated(likelihood: str, n: int, d: int, seed: int) -> Problem:
    """Inputs, hyper-parameters and f are the same for all likelihoods."""
    rng = np.random.default_rng([n, d, seed])
    model = _model(rng.uniform(size=(n, d)), np.zeros(n), likelihood)
    theta = np.concatenate([[LOG_SIGMA], rng.uniform(*PSI, size=d)])
    f = model.prior_at(theta).sample(rng)
    y = LIKELIHOODS[likelihood].sample(f, rng)
    return Problem(_model(model.covariance.X, y, likelihood), theta, f)


def real(name: str) -> Problem:
    """One of the data sets of table 6, standardized, with a logistic likelihood."""
    X, y = load_binary(REAL[name])
    model = _model(X, y, "lrg")
    return Problem(model, np.full(len(model.start), np.nan), np.empty(0))


def _model(X: FloatArray, y: FloatArray, likelihood: str) -> LatentGP:
    covariance = make_covariance(smooth_kernel(X.shape[1], ard=True), X)
    sigma, tau = dict.fromkeys(covariance.names)
    prior = HyperPrior(covariance.names, {sigma: stats.invgamma(1.0), tau: stats.gamma(1.0)})
    return LatentGP(covariance, Observations(LIKELIHOODS[likelihood], y), prior)


# --- what a cell of a table runs ------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class GivenTruth(HyperUpdate):
    """A move of theta that begins with the f that generated the data, or with its whitened f."""

    problem: Problem | None = None

    def start(self, model: LatentGP, theta: FloatArray, rng: np.random.Generator) -> GPState | None:
        """Return theta with what stands still."""
        assert self.problem is not None
        prior, f = model.prior_at(theta), self.problem.f
        if isinstance(self.parameterization, AncillaryAugmentation):
            f = prior.unwhiten(model.prior_at(self.problem.theta).whiten(f))
        state = model.state_in(prior, f)
        return state if np.isfinite(state.log_lik) else None


#: What a table sees of a chain.
Draws = Callable[[Segment], FloatArray]


@dataclass(frozen=True)
class Run:
    """Chains of a cell for one data set, and which draws are looked at.

    As in the paper each chain is tuned by itself, and has a set-up of its own. The package's own
    sampler has one for all.
    """

    set_ups: list[PreparedChains]
    model: LatentGP
    draws: Draws


def latent_run(problem: Problem, method: str, length: Length, seed: Sequence[int]) -> Run:
    """Table 2: f given the generating theta."""
    rngs = np.random.default_rng(seed).spawn(length.n_chains)
    move = make_latent_moves(len(problem.f), MOST_LEAPFROG)[LATENT[method]]
    starts = [problem.theta] * length.n_chains
    return _sweep_run(problem, move, starts, rngs, length, lambda segment: segment.f)


def hyper_run(problem: Problem, method: str, length: Length, seed: Sequence[int], kind: Any) -> Run:
    """Tables 3 and 4: psi given the generating sigma, and f or the whitened f."""
    rngs = np.random.default_rng(seed).spawn(length.n_chains)
    free = np.arange(1, len(problem.theta))
    operator = make_hyper_moves(len(free), MOST_LEAPFROG)[HYPER[method]]
    move = GivenTruth(kind(), operator, free=free, problem=problem)
    starts = [_with_psi(problem.theta, rng) for rng in rngs]
    return _sweep_run(problem, move, starts, rngs, length, lambda segment: segment.theta[:, free])


def _sweep_run(
    problem: Problem,
    move: Transition[GPState],
    starts: Sequence[FloatArray],
    rngs: Sequence[np.random.Generator],
    length: Length,
    draws: Draws,
) -> Run:
    sweep, model = Sweep((move,), (1,)), problem.model
    set_ups = [
        set_up_sweep(
            Request(model, APPROXIMATIONS["laplace"](), [theta], [rng], rng, None, length.n_warmup),
            sweep,
            InProcessExecutor(),
            learns_shape=False,
        )
        for theta, rng in zip(starts, rngs, strict=True)
    ]
    return Run(set_ups, model, draws)


def strategy_run(
    problem: Problem, method: str, length: Length, seed: Sequence[int], *, n_latent: int = 1
) -> Run:
    """Tables 5 and 6: f and theta; real data begin with theta from the prior."""
    rng = np.random.default_rng(seed)
    rngs = rng.spawn(length.n_chains)
    starts = [problem.model.hyperprior.sample(chain) for chain in rngs]
    if np.isfinite(problem.theta).all():
        starts = [_with_psi(theta, chain) for theta, chain in zip(starts, rngs, strict=True)]
    sampler = _sampler(STRATEGIES[method], n_latent)
    approximation = APPROXIMATIONS[sampler.best_approximation or "laplace"]()
    each = range(length.n_chains)
    groups = [list(each)] if isinstance(sampler, PseudoMarginal) else [[chain] for chain in each]
    set_ups = [
        sampler.set_up(
            Request(
                problem.model,
                approximation,
                [starts[chain] for chain in group],
                [rngs[chain] for chain in group],
                rng,
                n_importance=None,
                n_warmup=length.n_warmup,
            ),
            InProcessExecutor(),
        )
        for group in groups
    ]
    return Run(set_ups, problem.model, lambda segment: segment.theta)


def _sampler(name: str, n_latent: int) -> Sampler:
    """Return a strategy as the paper has it; sigma is drawn exactly in SA."""
    kind = SAMPLERS[name]
    if not issubclass(kind, Augmented | KnorrHeldRue):
        return PseudoMarginal()
    options: dict[str, Any] = {"learn_shape": False, "n_latent": n_latent}
    if issubclass(kind, KnorrHeldRue):
        options["defensive"] = 0.0
    if name == "sa":
        options["conjugate"] = True
    return kind(latent="hmc_v2", max_leapfrog=MOST_LEAPFROG, **options)


def _with_psi(theta: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return theta with length-scales as chains begin with in the paper."""
    return np.concatenate([theta[:1], rng.uniform(*PSI, size=len(theta) - 1)])


#: A cell of a table: its problems, and the run of a method on one of them.
Make = Callable[[Problem, str, Length, Sequence[int]], Run]


@dataclass(frozen=True)
class Cell:
    """A place in a table, for all its methods."""

    table: int
    group: str  # likelihood or data set
    shape: str  # "n=100, d=2"
    methods: tuple[str, ...]
    load: Callable[[int], Problem]
    make: Make


def cells(scale: Scale) -> Iterator[Cell]:
    """All cells of tables 2 to 6."""
    sa = partial(hyper_run, kind=SufficientAugmentation)
    aa = partial(hyper_run, kind=AncillaryAugmentation)
    five = partial(strategy_run, n_latent=5)
    plan: list[tuple[int, tuple[str, ...], dict[str, str], Make]] = [
        (2, tuple(LIKELIHOODS), LATENT, latent_run),
        (3, ("lrg",), HYPER, sa),
        (4, tuple(LIKELIHOODS), HYPER, aa),
        (5, ("lrg",), STRATEGIES, strategy_run),
    ]
    for table, likelihoods, methods, make in plan:
        for likelihood in likelihoods:
            for n in scale.sizes:
                for d in scale.dims:
                    yield Cell(
                        table,
                        likelihood,
                        f"n={n}, d={d}",
                        tuple(methods),
                        lambda seed, ll=likelihood, n=n, d=d: simulated(ll, n, d, seed),
                        make,
                    )
    for name in scale.real:
        yield Cell(6, name, "", tuple(STRATEGIES), lambda seed, name=name: real(name), five)


# --- running and measuring ------------------------------------------------------------------------


def measure(cell: Cell, method: str, length: Length) -> dict[str, Any]:
    """Run all chains of a method on all data sets of a cell."""
    sets = []
    for seed in range(length.n_data):
        problem = cell.load(seed)
        clock = time.perf_counter()
        # One stream for every cell; methods of one cell share none.
        key = [seed, cell.table, len(problem.model.y), *map(ord, cell.group + method)]
        run = cell.make(problem, method, length, key)
        chains = [
            sample_chain(run.model, prepared, chain, length.n_draws)
            for prepared in run.set_ups
            for chain in range(len(prepared.thetas))
        ]
        draws = np.stack([run.draws(segment) for segment in chains])
        seconds = time.perf_counter() - clock
        counts = cost(chains, length.n_draws, run.model.n_inputs)
        found = {**convergence(draws, ITERATIONS), **counts}
        sets.append({**found, "seconds": seconds})
    return {"length": asdict(length), "sets": sets}


def sample_chain(model: LatentGP, prepared: PreparedChains, chain: int, n_draws: int) -> Segment:
    """Let one chain settle, then draw."""
    settled = switch(
        model,
        prepared.transition,
        prepared.thetas[chain],
        prepared.rngs[chain],
        prepared.n_burn_in,
        None if prepared.states is None else prepared.states[chain],
    )
    return sample(model, prepared.transition, settled.state, settled.rng, n_draws)


def convergence(draws: FloatArray, iterations: int) -> dict[str, Any]:
    """ESS of each chain in so many iterations, and R-hat of each variable at checkpoints.

    Draws have the shape (chains, draws, p).
    """
    n_draws = draws.shape[1]
    least, smooth = (
        [_least(chain, ess) * iterations / n_draws for chain in draws]
        for ess in (_geyer, _autoregressive)
    )
    checkpoints = sorted({*(c for c in CHECKPOINTS if c < n_draws), n_draws})
    return {
        "ess": least,
        "ess_autoregressive": smooth,
        "r_hat": {c: r_hat(draws[:, :c]).max() for c in checkpoints},
        "r_hat_of_each": r_hat(draws),
    }


def _least(chain: FloatArray, ess: Callable[[FloatArray], FloatArray]) -> float:
    """Smallest effective sample size over the variables of a chain (draws, p); 0 if stuck."""
    if (np.ptp(chain, axis=0) == 0.0).any():
        return 0.0
    return float(ess(chain).min())


def _geyer(chain: FloatArray) -> FloatArray:
    """Effective sample sizes of a chain (draws, p) by Geyer's monotone sequence; (p,)."""
    return np.asarray(array_stats.ess(chain[None], chain_axis=0, draw_axis=1, method="mean"))


def _autoregressive(chain: FloatArray) -> FloatArray:
    """Effective sample sizes by autoregressions fitted to a chain (draws, p); (p,).

    The spectral density at zero is that of the autoregression, of the order that Akaike's criterion
    picks, as in R's coda (Heidelberger & Welch, 1981). Where variables are many and chains slow,
    this varies less from one variable to the next than sums of estimated autocorrelations do, and
    the least of them is not as far below all others.
    """
    n = len(chain)
    centered = chain - chain.mean(axis=0)
    power = np.abs(np.fft.rfft(centered, 2 * n, axis=0)) ** 2
    covariances = np.fft.irfft(power, axis=0)[:n] / n
    return np.array([n * c[0] / _density_at_zero(c, n) for c in covariances.T])


def _density_at_zero(covariances: FloatArray, n: int) -> float:
    """Spectral density of the best autoregression, by the recursion of Levinson and Durbin."""
    coefficients, noise = np.zeros(0), covariances[0]
    best, density = n * np.log(noise), noise
    for lag in range(1, int(10.0 * np.log10(n)) + 1):
        left = covariances[lag] - coefficients @ covariances[lag - 1 : 0 : -1]
        reflection = left / noise
        coefficients = np.append(coefficients - reflection * coefficients[::-1], reflection)
        noise *= 1.0 - reflection**2
        criterion = n * np.log(noise) + 2 * lag
        if criterion < best:
            best, density = criterion, noise / (1.0 - coefficients.sum()) ** 2
    return float(density)


def r_hat(draws: FloatArray) -> FloatArray:
    """R-hat of each variable, of whole chains and without ranks; infinite where none has moved."""
    if (np.ptp(draws, axis=1) == 0.0).all():
        return np.full(draws.shape[2], np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        r_hat = array_stats.rhat(draws, chain_axis=0, draw_axis=1, method="identity")
    return np.nan_to_num(np.atleast_1d(r_hat), nan=np.inf)


def cost(chains: Sequence[Segment], n_draws: int, n: int) -> dict[str, Any]:
    """Operations of one iteration by kind, in units of n^3, and acceptance rates."""
    n_iterations = n_draws * len(chains)
    operations: dict[str, float] = {}
    steps: dict[str, int] = {}
    accepted: dict[str, int] = {}
    for segment in chains:
        for kind, amount in asdict(segment.counts.operations.per(n)).items():
            operations[kind] = operations.get(kind, 0.0) + amount / n_iterations
        for move, count in segment.counts.n_steps.items():
            steps[move] = steps.get(move, 0) + count
            accepted[move] = accepted.get(move, 0) + segment.counts.n_accepted.get(move, 0)
    return {
        "operations": operations,
        "acceptance": {move: accepted[move] / count for move, count in steps.items()},
    }


def order(methods: Mapping[str, Mapping[str, Any]]) -> str:
    """Methods from the fastest to the slowest, as the paper writes it: "6 5|3, 4".

    Neighbors in the order of the median R-hat at the end are divided by a bar where the first has
    converged significantly faster, by a one-sided Mann-Whitney test at 0.05 over all data sets and
    variables. Methods whose chains are shorter than others' are left out.
    """
    names = list(methods)
    longest = max(methods[name]["length"]["n_draws"] for name in names)
    final = {
        name: np.concatenate([_finite(one["r_hat_of_each"]) for one in methods[name]["sets"]])
        for name in names
        if methods[name]["length"]["n_draws"] == longest
    }
    ranked = sorted(final, key=lambda name: float(np.median(final[name])))
    text = str(names.index(ranked[0]) + 1)
    for first, second in pairwise(ranked):
        test = stats.mannwhitneyu(final[first], final[second], alternative="less")
        text += ("|" if test.pvalue < LEVEL else ", ") + str(names.index(second) + 1)
    return text


def _finite(values: Iterable[float | None]) -> list[float]:
    """Numbers; files hold those that are infinite as null."""
    return [np.inf if value is None else value for value in values]


# --- what is printed and saved --------------------------------------------------------------------


def print_cell(cell: Cell, methods: Mapping[str, Mapping[str, Any]]) -> None:
    """Print a part of a table."""
    rows = []
    for name, result in methods.items():
        ess = np.concatenate([one["ess"] for one in result["sets"]])
        r_hat = np.median([_finite(one["r_hat"].values()) for one in result["sets"]], axis=0)
        operations = np.mean([sum(one["operations"].values()) for one in result["sets"]])
        rows.append(
            [
                name,
                f"{ess.mean():.0f} ({ess.std():.0f})",
                " ".join(f"{value:.2f}" for value in r_hat),
                f"{operations:.2f}",
                f"{sum(one['seconds'] for one in result['sets']):.0f}",
            ]
        )
    print(f"table {cell.table}, {cell.group} {cell.shape}: {order(methods)}")
    print_table(["method", "ESS", "R-hat", "operations", "seconds"], rows)


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", choices=SCALES, default="small")
    parser.add_argument("--table", type=int, choices=range(2, 7), default=None)
    parser.add_argument("--group", default=None, help="a likelihood, or a data set of table 6")
    parser.add_argument("--method", default=None, help="a row, such as KHR")
    parser.add_argument("--again", action="store_true", help="also what has been measured")
    parser.add_argument("--core", type=int, default=None, help="run on this core only")
    args = parser.parse_args()
    use_core(args.core)
    scale = SCALES[args.scale]
    for cell in cells(scale):
        if args.table not in (None, cell.table) or args.group not in (None, cell.group):
            continue
        name = f"comparative_{args.scale}"
        for method in cell.methods:
            results = load_results(name)
            place = results.setdefault(str(cell.table), {}).setdefault(cell.group, {})
            place = place.setdefault(cell.shape, {"order": "", "methods": {}})
            methods = place["methods"]
            if args.method not in (None, method) or (method in methods and not args.again):
                continue
            length = scale.length(cell.table, cell.group, method)
            with threadpool_limits(1):
                methods[method] = measure(cell, method, length)
            place["order"] = order(methods)
            save(name, {"iterations": ITERATIONS, "most_leapfrog": MOST_LEAPFROG}, results)
        if methods:
            print_cell(cell, methods)


if __name__ == "__main__":
    main()
