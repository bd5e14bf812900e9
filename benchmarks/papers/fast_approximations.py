"""Section 6 of "MCMC methods for Gaussian process models using fast approximations", made again.

Run as ``python -m benchmarks.papers.fast_approximations [--scale small|full] [--data 1 5]
[--method sod] [--core 0]``, with ``OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1``. Cells that
``results/fast_approximations_SCALE.json`` has already are left out unless ``--again`` is given, so
that a run can be stopped and continued. ``--time`` then measures all iterations anew, in turn and
alone; ``--picture`` draws figure 2. The full scale is the paper's, 2000 iterations of ten data
sets, and takes hours; the small one has shorter chains where n = 900.

X is uniform in the unit hypercube, and y comes from the model: a constant, a squared exponential
with eta = 5, noise. Not stated in the paper, and chosen here: the constant c = 10, the standard
deviation of the noise 0.5, and the priors, independent normal distributions with mean 0 and
standard deviation 1.5 on log eta, log rho and log sigma. Chains begin at the values that generated
the data. The autocorrelation time is that of the log-likelihood over the last two thirds; it is
multiplied by the processor time of an iteration. Two of the package's own samplers stand in the
same table, without their set-up: "collapsed", the default, and "discretizing" with the size of pi*
left to it.

References
----------
Wang & Neal (2013), arXiv:1305.2235, section 6.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from arviz_stats.base.array import array_stats
from scipy import stats
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from threadpoolctl import threadpool_limits

from skgpmcmc._typing import FloatArray
from skgpmcmc.approximations import Exact, Nystrom, SubsetOfData
from skgpmcmc.chain import InProcessExecutor, switch
from skgpmcmc.hyperposterior import CheapPosterior, HyperPosterior, evidence_cost
from skgpmcmc.likelihoods import Gaussian
from skgpmcmc.model import HyperPrior, LatentGP, Observations, make_covariance
from skgpmcmc.samplers import Collapsed, DiscretizingChain, Sampler
from skgpmcmc.setup import Request
from skgpmcmc.setup.mapped import by_coordinate
from skgpmcmc.transitions import Operator, Sweep, Transition, UnivariateSlice
from skgpmcmc.transitions.mapping import CheapUpdate, DiscretizingMap, Layer, TemperedProposal
from skgpmcmc.transitions.metropolis import MarginalMetropolis

from ..common import RESULTS, load_results, print_table, save, use_core

#: Not stated in the paper.
CONSTANT, NOISE, PRIOR_SD = 10.0, 0.5, 1.5
ETA = 5.0
#: Iterations that find the widths of slices, and those of a timing.
N_PILOT, N_TIMED = 100, 20
#: Iterations by scale and n.
LENGTHS = {"small": {300: 2000, 900: 600}, "full": {300: 2000, 900: 2000}}
N_LAGS = 50


@dataclass(frozen=True)
class DataSet:
    """A row of tables 2 and 3, with the paper's own sizes of pi* and results.

    Attributes
    ----------
    n, p : int
        Rows and covariates.
    ard, long : bool
        One length-scale per covariate; length-scales of 2 (or 2 i) instead of 0.1 (or 0.1 i).
    sod : int
        Rows of pi* in the paper.
    nystrom : int or None
        Columns of pi* in the paper; None where it has no result.
    tempered : tuple of int or None
        Rows of its layers.
    """

    n: int
    p: int
    ard: bool
    long: bool
    sod: int
    nystrom: int | None
    tempered: tuple[int, int] | None

    @property
    def lengths(self) -> FloatArray:
        """Table 1: the length-scales that generate the data; (1,) or (p,)."""
        unit = 2.0 if self.long else 0.1
        return unit * np.arange(1.0, self.p + 1.0) if self.ard else np.array([unit])

    @property
    def title(self) -> str:
        """What tables call it."""
        kind = f"{'long' if self.long else 'short'} {'ARD' if self.ard else 'isotropic'}"
        return f"n = {self.n}, p = {self.p}, {kind}"


DATA = {
    1: DataSet(300, 1, False, False, 40, 30, (40, 20)),
    2: DataSet(300, 5, False, False, 150, None, (100, 50)),
    3: DataSet(300, 5, True, False, 100, None, (90, 45)),
    4: DataSet(300, 5, False, True, 150, 120, (130, 65)),
    5: DataSet(300, 5, True, True, 90, 80, (100, 50)),
    6: DataSet(900, 1, False, False, 60, 90, (60, 30)),
    7: DataSet(900, 5, False, False, 300, None, None),
    8: DataSet(900, 5, True, False, 100, None, None),
    9: DataSet(900, 5, False, True, 100, 110, None),
    10: DataSet(900, 5, True, True, 300, 90, None),
}

# --- data and model -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Problem:
    """A data set, and the theta that generated it."""

    model: LatentGP
    theta: FloatArray


def simulated(number: int) -> Problem:
    """Draw a data set; its random stream has its number."""
    data = DATA[number]
    rng = np.random.default_rng([number, 1305])
    X = rng.uniform(size=(data.n, data.p))
    model = _model(X, np.zeros(data.n), data)
    theta = np.log([ETA**2, *data.lengths / np.sqrt(2.0), NOISE])
    y = Gaussian(NOISE).sample(model.prior_at(theta).sample(rng), rng)
    return Problem(_model(X, y, data), theta)


def _model(X: FloatArray, y: FloatArray, data: DataSet) -> LatentGP:
    """The paper's (23) and (24): a rho is the square root of two length-scales of scikit-learn."""
    start = np.ones(len(data.lengths)) if data.ard else 1.0
    kernel = ConstantKernel(CONSTANT**2, "fixed") + ConstantKernel() * RBF(start)
    covariance = make_covariance(kernel, X)
    observations = Observations(Gaussian(), y)
    names = (*covariance.names, "noise_scale")
    eta, *rhos, noise = names
    priors = {
        eta: stats.lognorm(2.0 * PRIOR_SD),
        **dict.fromkeys(rhos, stats.lognorm(PRIOR_SD, scale=np.sqrt(0.5))),
        noise: stats.lognorm(PRIOR_SD),
    }
    return LatentGP(covariance, observations, HyperPrior(names, priors))


# --- chains ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Chain:
    """A transition, and where it begins."""

    transition: Transition[Any]
    state: Any
    rng: np.random.Generator
    note: str = ""


def exact_posterior(model: LatentGP) -> HyperPosterior:
    """The posterior of theta in closed form, as something that operators can move on."""
    cost = evidence_cost(model, Exact())
    return HyperPosterior(model, Exact(), with_gradient=False, cost=cost)


def standard(problem: Problem, data: DataSet, rng: np.random.Generator) -> Chain:
    """Univariate slices on the posterior itself."""
    target = exact_posterior(problem.model)
    return _begun(CheapUpdate(target, _slices(problem, target, rng)), problem, rng)


def sod(problem: Problem, data: DataSet, rng: np.random.Generator) -> Chain:
    """The mark on a chain that is made on some of the rows, of the paper's number."""
    return _discretizing(problem, SubsetOfData(data.sod).posterior(problem.model, rng), rng)


def nystrom(problem: Problem, data: DataSet, rng: np.random.Generator) -> Chain:
    """The mark on a chain that is made under a prior of the paper's rank."""
    assert data.nystrom is not None
    return _discretizing(problem, Nystrom(data.nystrom).posterior(problem.model, rng), rng)


def tempered(problem: Problem, data: DataSet, rng: np.random.Generator) -> Chain:
    """Two layers of some rows each, of the paper's numbers."""
    assert data.tempered is not None
    targets = [SubsetOfData(m).posterior(problem.model, rng) for m in data.tempered]
    layers = [Layer(target, _slices(problem, target, rng)) for target in targets]

    def make(layers: Sequence[Layer]) -> MarginalMetropolis:
        return MarginalMetropolis(Exact(), TemperedProposal(layers), with_latent=False)

    return _begun(by_coordinate(make, layers, len(problem.theta)), problem, rng)


def collapsed(problem: Problem, data: DataSet, rng: np.random.Generator) -> Chain:
    """The default sampler of the package."""
    return _packaged(problem, Collapsed(), None, rng)


def chosen_sod(problem: Problem, data: DataSet, rng: np.random.Generator) -> Chain:
    """What the package makes of a subset of the rows, choosing their number."""
    return _packaged(problem, DiscretizingChain(), SubsetOfData(), rng)


def chosen_nystrom(problem: Problem, data: DataSet, rng: np.random.Generator) -> Chain:
    """What the package makes of a prior of low rank, choosing the rank."""
    return _packaged(problem, DiscretizingChain(), Nystrom(), rng)


METHODS: dict[str, Callable[[Problem, DataSet, np.random.Generator], Chain]] = {
    "standard": standard,
    "sod": sod,
    "nystrom": nystrom,
    "tempered": tempered,
    "collapsed": collapsed,
    "chosen sod": chosen_sod,
    "chosen nystrom": chosen_nystrom,
}


def applies(method: str, data: DataSet) -> bool:
    """Whether the paper has a result, or the method is the package's own."""
    return getattr(data, method, method) is not None


def _discretizing(problem: Problem, target: CheapPosterior, rng: np.random.Generator) -> Chain:
    """One move of the mark to a neighbor for each coordinate, r = s = 1."""
    exact = MarginalMetropolis(Exact(), TemperedProposal(()), with_latent=False)

    def make(layers: Sequence[Layer]) -> DiscretizingMap[Any]:
        return DiscretizingMap(exact, layers[0])

    layer = Layer(target, _slices(problem, target, rng))
    return _begun(by_coordinate(make, [layer], len(problem.theta)), problem, rng)


def _slices(problem: Problem, target: CheapPosterior, rng: np.random.Generator) -> Operator:
    """Widths from the standard deviations of a short chain on the target."""
    update = CheapUpdate(target, UnivariateSlice())
    chain = _begun(update, problem, rng)
    thetas, *_ = run(problem.model, chain, N_PILOT)
    return update.with_covariance(np.cov(thetas[N_PILOT // 4 :], rowvar=False)).operator


def _begun(transition: Transition[Any], problem: Problem, rng: np.random.Generator) -> Chain:
    return Chain(transition, transition.start(problem.model, problem.theta, rng), rng)


def _packaged(problem: Problem, sampler: Sampler, cheap: Any, rng: np.random.Generator) -> Chain:
    """One of four chains that a sampler of the package prepares, settled."""
    rngs = rng.spawn(4)
    starts = [problem.theta + 0.5 * chain.standard_normal(len(problem.theta)) for chain in rngs]
    n_warmup = sampler.n_warmup(None)
    request = Request(problem.model, Exact(), starts, rngs, rng, None, n_warmup, cheap)
    prepared = sampler.set_up(request, InProcessExecutor())
    settled = switch(
        problem.model,
        prepared.transition,
        prepared.thetas[0],
        prepared.rngs[0],
        prepared.n_burn_in,
        None if prepared.states is None else prepared.states[0],
    )
    return Chain(prepared.transition, settled.state, settled.rng, _chosen(prepared.transition))


def _chosen(transition: Transition[Any]) -> str:
    """How many rows pilot runs have chosen."""
    whole = True
    while hasattr(transition, "moves"):
        whole = not isinstance(transition, Sweep)
        transition = transition.moves[0]
    if not isinstance(transition, DiscretizingMap):
        return ""
    posterior: Any = transition.layer.target
    m = len(getattr(posterior.model, "rows", posterior.model.y))
    return f"m = {m}" + (", whole sweeps" if whole else "")


def run(model: LatentGP, chain: Chain, n_steps: int) -> tuple[FloatArray, float, float, float]:
    """Return theta (n_steps, p), evaluations of the target and seconds per iteration, acceptance.

    Seconds are those of this process, on its processor.
    """
    state, thetas, n_evaluations, n_moved = chain.state, [], 0.0, 0
    clock = time.process_time()
    for _ in range(n_steps):
        state, info = chain.transition.step(model, state, chain.rng)
        thetas.append(state.theta)
        n_evaluations += info.n_evaluations
        n_moved += info.accepted
    seconds = time.process_time() - clock
    return np.array(thetas), n_evaluations / n_steps, seconds / n_steps, n_moved / n_steps


def log_likelihoods(model: LatentGP, thetas: FloatArray) -> FloatArray:
    """Log evidence at each theta; neighbors that are equal are evaluated once."""
    target, values = exact_posterior(model), np.empty(len(thetas))
    for i, theta in enumerate(thetas):
        if i and np.array_equal(theta, thetas[i - 1]):
            values[i] = values[i - 1]
            continue
        point = target.at(theta)
        assert point is not None  # the chain was there
        values[i] = point.log_density - model.hyperprior.log_prob(theta)
    return values


# --- measuring ------------------------------------------------------------------------------------


def made(number: int, method: str) -> tuple[Problem, Chain]:
    """A data set and a chain; the random stream is the same whenever it is made."""
    problem = simulated(number)
    rng = np.random.default_rng([number, list(METHODS).index(method), 2013])
    return problem, METHODS[method](problem, DATA[number], rng)


def measure(number: int, method: str, n_iterations: int) -> dict[str, Any]:
    """Run one chain, and find its autocorrelation time."""
    clock = time.process_time()
    problem, chain = made(number, method)
    seconds_before = time.process_time() - clock
    thetas, n_evaluations, seconds, acceptance = run(problem.model, chain, n_iterations)
    kept = log_likelihoods(problem.model, thetas[n_iterations // 3 :])
    ess = float(array_stats.ess(kept[None], chain_axis=0, draw_axis=1, method="mean"))
    ess = ess if np.ptp(kept) > 0.0 else np.nan  # a chain that stands still
    return {
        "title": DATA[number].title,
        "n_iterations": n_iterations,
        "autocorrelation_time": len(kept) / ess,
        "ess": ess,
        "evaluations": n_evaluations,
        "seconds": seconds,
        "seconds_before": seconds_before,
        "acceptance": acceptance,
        "note": chain.note,
        "autocorrelations": autocorrelations(kept),
    }


def autocorrelations(values: FloatArray) -> FloatArray:
    """Sample autocorrelations at lags 0 to 50; (51,)."""
    centered = values - values.mean()
    n = len(values)
    products = [centered[: n - lag] @ centered[lag:] for lag in range(N_LAGS + 1)]
    return np.array(products) / max(products[0], np.finfo(float).tiny)


def time_again(results: dict[str, Any], number: int) -> None:
    """Time some iterations of all methods of a data set in turn, five times; medians are kept."""
    methods = results[str(number)]
    chains = {method: made(number, method) for method in methods}
    seconds: dict[str, list[float]] = {method: [] for method in methods}
    for _ in range(5):
        for method, (problem, chain) in chains.items():
            seconds[method].append(run(problem.model, chain, N_TIMED)[2])
    for method, found in seconds.items():
        methods[method]["seconds"] = float(np.median(found))
        methods[method]["timed_alone"] = True


def show(number: int, methods: dict[str, Any]) -> None:
    """Print a row of table 2 and table 3."""
    rows, base = [], _product(methods["standard"]) if "standard" in methods else np.nan
    for name, cell in methods.items():
        ratio = _product(cell) / base
        rows.append(
            [
                name + (f", {cell['note']}" if cell["note"] else ""),
                f"{cell['autocorrelation_time']:.2f}",
                f"{1e3 * cell['seconds']:.1f}",
                f"{ratio:.2f}",
                f"{cell['evaluations'] * cell['autocorrelation_time']:.1f}",
                f"{cell['acceptance']:.2f}",
            ]
        )
    print(f"data set {number}: {DATA[number].title}")
    print_table(["method", "time", "ms", "ratio", "evaluations", "acceptance"], rows)


def _product(cell: dict[str, Any]) -> float:
    return float(cell["autocorrelation_time"] * cell["seconds"])


def draw(methods: dict[str, Any], path: Any) -> None:
    """Draw figure 2: autocorrelations of the log-likelihood on the second data set."""
    from matplotlib import pyplot as plt  # an extra, needed for this alone

    shown = {"sod": "Mapping to a discretizing chain", "tempered": "Tempered transitions"}
    figure, axes = plt.subplots(1, 2, figsize=(8.0, 3.0), sharey=True, layout="constrained")
    for axis, (name, title) in zip(axes, shown.items(), strict=True):
        values = methods[name]["autocorrelations"]
        axis.bar(range(len(values)), values, width=0.5)
        axis.axhline(0.0, color="black", linewidth=0.8)
        axis.set(title=title, xlabel="lag")
    axes[0].set_ylabel("autocorrelation of the log-likelihood")
    figure.savefig(path, dpi=120)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", choices=LENGTHS, default="small")
    parser.add_argument("--data", type=int, nargs="+", choices=DATA, default=list(DATA))
    parser.add_argument("--method", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--again", action="store_true", help="also what has been measured")
    parser.add_argument("--time", action="store_true", help="only time what has been measured")
    parser.add_argument("--picture", action="store_true", help="only draw figure 2")
    parser.add_argument("--core", type=int, default=None, help="run on this core only")
    args = parser.parse_args(arguments)
    use_core(args.core)
    name = f"fast_approximations_{args.scale}"
    settings = {"constant": CONSTANT, "noise": NOISE, "prior_sd": PRIOR_SD, "eta": ETA}
    if args.picture:
        draw(load_results(name)["2"], RESULTS / f"{name}.png")
        return
    for number in args.data:
        length = LENGTHS[args.scale][DATA[number].n]
        for method in args.method:
            results = load_results(name)  # again, as two runs may share the file
            methods = results.setdefault(str(number), {})
            if (
                args.time
                or not applies(method, DATA[number])
                or (method in methods and not args.again)
            ):
                continue
            with threadpool_limits(1):
                methods[method] = measure(number, method, length)
            save(name, settings, results)
        results = load_results(name)
        if args.time and str(number) in results:
            with threadpool_limits(1):
                time_again(results, number)
            save(name, settings, results)
        if str(number) in results:
            show(number, results[str(number)])


if __name__ == "__main__":
    main()
