"""The recipes beside NumPyro's NUTS: same kernel, priors and likelihood, on the same data.

Run as ``python -m benchmarks.recipe_peers [--only NAME ...]``, with ``OMP_NUM_THREADS=1
OPENBLAS_NUM_THREADS=1``; needs ``pip install numpyro``. ``--save`` writes
``results/recipe_peers.json``, where recipes that are not run keep their results. Kernel, priors and
likelihood of the peer are read off the fitted model, and the script first makes sure that the two
log densities differ by a constant. The peer has NumPyro's defaults; its latent function is
whitened, f = L v with v ~ N(0, I), or integrated out for Gaussian noise. Where the data determine f
well, NUTS needs f itself in place of v (``--centered``). A chain that starts at length-scales below
all distances may stay there: ``--start median`` starts at medians of the prior, in place of
NumPyro's uniform starts. Both run on one core, and
seconds are those of the processor, without the compilation of the peer.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from functools import singledispatch
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    ExpSineSquared,
    Kernel,
    Matern,
    Product,
    Sum,
)
from threadpoolctl import threadpool_limits

from skgpmcmc.kernels import Categorical, Linear, On, Tanimoto
from skgpmcmc.likelihoods import Gaussian, Poisson, Probit, PsychometricProbit
from skgpmcmc.likelihoods.binomial import Binomial, RepeatedTrials, decode
from skgpmcmc.model import LatentGP
from skgpmcmc.run import summarize_convergence

from . import nuts
from .common import load_results, plain, print_table, save, seconds_to
from .development import MissingSourceError
from .recipes import RECIPES

#: Effective draws to which seconds are scaled.
EFFECTIVE = 400.0
#: How many latent values are compared.
N_LATENT = 5

Covariance = Callable[[Iterator[Any]], Any]
LogLikelihood = Callable[[Any, Any], Any]

# --- the peer's model -----------------------------------------------------------------------------


@singledispatch
def covariance_of(kernel: Kernel, X: np.ndarray) -> Covariance:
    """Return K (n, n) as a function of an iterator over the hyper-parameters, natural scale.

    Everything that does not depend on them is computed once.
    """
    raise TypeError(f"the peer does not have the kernel {kernel!r}: add a function for it")


@covariance_of.register
def _(kernel: Sum, X: np.ndarray) -> Covariance:
    first, second = covariance_of(kernel.k1, X), covariance_of(kernel.k2, X)
    return lambda values: first(values) + second(values)


@covariance_of.register
def _(kernel: Product, X: np.ndarray) -> Covariance:
    first, second = covariance_of(kernel.k1, X), covariance_of(kernel.k2, X)
    return lambda values: first(values) * second(values)


@covariance_of.register
def _(kernel: On, X: np.ndarray) -> Covariance:
    return covariance_of(kernel.kernel, kernel.select(X))


def value_of(kernel: Kernel, name: str) -> Covariance:
    """Take the next value for a hyper-parameter, or its own value if it is fixed."""
    if not getattr(kernel, f"hyperparameter_{name}").fixed:
        return next
    own = getattr(kernel, name)
    return lambda values: own


@covariance_of.register
def _(kernel: ConstantKernel, X: np.ndarray) -> Covariance:
    return value_of(kernel, "constant_value")


@covariance_of.register
def _(kernel: Linear, X: np.ndarray) -> Covariance:
    Z = kernel.standardize(X)
    products = Z @ Z.T
    variance = value_of(kernel, "slope_variance")
    return lambda values: variance(values) * products


@covariance_of.register
def _(kernel: Categorical, X: np.ndarray) -> Covariance:
    assert kernel.hyperparameter_distance.fixed
    matrix = kernel(X)
    return lambda values: matrix


@covariance_of.register
def _(kernel: Tanimoto, X: np.ndarray) -> Covariance:
    similarities = kernel(X)
    return lambda values: similarities


@covariance_of.register
def _(kernel: RBF, X: np.ndarray) -> Covariance:
    from jax import numpy as jnp

    if not kernel.anisotropic:
        distances = cdist(X, X)
        return lambda values: jnp.exp(-0.5 * (distances / next(values)) ** 2)
    squares = (X[:, None, :] - X) ** 2

    def ard(values: Iterator[Any]) -> Any:
        lengths = jnp.stack([next(values) for _ in range(X.shape[1])])
        return jnp.exp(-0.5 * squares @ lengths**-2.0)

    return ard


@covariance_of.register
def _(kernel: Matern, X: np.ndarray) -> Covariance:
    from jax import numpy as jnp

    distances = np.sqrt(2.0 * kernel.nu) * cdist(X, X)
    if kernel.nu == 0.5:
        return lambda values: jnp.exp(-distances / next(values))
    assert kernel.nu == 1.5

    def matern(values: Iterator[Any]) -> Any:
        scaled = distances / next(values)
        return (1.0 + scaled) * jnp.exp(-scaled)

    return matern


@covariance_of.register
def _(kernel: ExpSineSquared, X: np.ndarray) -> Covariance:
    from jax import numpy as jnp

    assert kernel.hyperparameter_periodicity.fixed
    waves = np.sin(np.pi * cdist(X, X) / kernel.periodicity)
    return lambda values: jnp.exp(-2.0 * (waves / next(values)) ** 2)


def log_likelihood_of(model: LatentGP) -> LogLikelihood:
    """Return log p(y | f) up to a constant, given f at the rows and the likelihood's parameters.

    The parameters are on their natural scale.
    """
    from jax import nn
    from jax import numpy as jnp
    from jax.scipy.special import log_ndtr

    y = jnp.asarray(model.y)
    if isinstance(model.likelihood, Probit):
        return lambda f, values: log_ndtr(y * f).sum()
    if isinstance(model.likelihood, Poisson):
        offset = jnp.asarray(model.observations.offset)
        return lambda f, values: (y * (f + offset) - jnp.exp(f + offset)).sum()
    successes, trials = (jnp.asarray(part) for part in decode(model.y))
    if isinstance(model.likelihood, RepeatedTrials):
        return _log_likelihood_of_observer(model.likelihood.one, successes, trials)
    assert isinstance(model.likelihood, Binomial)
    assert model.likelihood.link == "logit"
    return lambda f, values: (successes * f - trials * nn.softplus(f)).sum()


def _log_likelihood_of_observer(one: Any, successes: Any, trials: Any) -> LogLikelihood:
    """Log likelihood of right answers, given f and the odds of a lapse; guesses are known."""
    from jax import numpy as jnp
    from jax.scipy.stats import norm

    assert isinstance(one, PsychometricProbit)
    assert [parameter.name for parameter in one.parameters] == ["lapse_odds"]

    def log_likelihood(f: Any, values: Any) -> Any:
        (odds,) = values
        rest = (1.0 - one.guess) / (1.0 + odds)
        right = one.guess + rest * norm.cdf(f)
        wrong = rest * (odds + norm.cdf(-f))
        return (successes * jnp.log(right) + (trials - successes) * jnp.log(wrong)).sum()

    return log_likelihood


class Peer:
    """NumPyro's model of a fitted one, with the site ``theta`` (p,) of the package's theta.

    Attributes
    ----------
    latent_site : str or None
        The site of f: ``v`` (n,) if it is whitened, ``f`` (n,) if not, None if it is integrated
        out.
    """

    def __init__(self, model: LatentGP, *, centered: bool = False) -> None:
        self._groups = model.hyperprior._groups
        grouped = [int(j) for at, _ in self._groups for j in at]
        self._dim = len(model.hyperprior.laws)
        self._alone = np.setdiff1d(np.arange(self._dim), grouped)
        laws = [nuts.lognormal_parameters(model.hyperprior.laws[j]) for j in self._alone]
        self._loc, self._scale = np.transpose(laws)
        n_kernel = len(model.covariance.kernel.theta)
        self._of_likelihood = slice(n_kernel, n_kernel + len(model.likelihood.parameters))
        self._n = model.n_inputs
        self._covariance = covariance_of(model.covariance.kernel, model.covariance.X)
        self.latent_site: str | None = "f" if centered else "v"
        if isinstance(model.likelihood, Gaussian):
            self.latent_site = None
        observed = model.observations
        # A row that counts twice is two rows here.
        weight = 1 if observed.weight is None else observed.weight.astype(int)
        self._rows = np.repeat(observed.input_of_row, weight)
        self._y = np.repeat(model.y, weight)
        if self.latent_site:
            self._log_likelihood = log_likelihood_of(model)

    def __call__(self) -> None:
        """Draw from the priors, and add the log likelihood."""
        import numpyro
        import numpyro.distributions as dist
        from jax import numpy as jnp

        if self._groups:
            flat = dist.ImproperUniform(dist.constraints.real_vector, (), (self._dim,))
            theta = numpyro.sample("theta", flat)
            numpyro.factor("prior", self._log_prior(theta))
        else:
            theta = numpyro.sample("theta", dist.Normal(self._loc, self._scale).to_event(1))
        if self.latent_site:
            L = jnp.linalg.cholesky(self._matrix(theta))
            whitened = dist.Normal(0.0, 1.0).expand([self._n]).to_event(1)
            prior = whitened if self.latent_site == "v" else dist.MultivariateNormal(scale_tril=L)
            latent = numpyro.sample(self.latent_site, prior)
            f = L @ latent if self.latent_site == "v" else latent
            values = jnp.exp(theta[self._of_likelihood])
            numpyro.factor("likelihood", self._log_likelihood(f[self._rows], values))
            return
        L, whitened = self._whitened_targets(theta)
        log_evidence = -0.5 * jnp.sum(whitened**2) - jnp.sum(jnp.log(jnp.diagonal(L)))
        numpyro.factor("likelihood", log_evidence)

    def _log_prior(self, theta: Any) -> Any:
        """Log density of theta up to a constant; length-scales may shrink together."""
        from jax import numpy as jnp

        z = (theta[self._alone] - self._loc) / self._scale
        log_density = -0.5 * jnp.sum(z**2)
        for at, group in self._groups:
            lengths, log_tau = theta[at[:-1]], theta[at[-1]]
            own = [-2.0 * (lengths - group.log_width) - log_tau, log_tau[None] - group.start]
            s = jnp.concatenate(own)
            log_density -= jnp.sum(jnp.logaddexp(s, -s))
        return log_density

    def latent(self, z: dict[str, Any]) -> Any:
        """Return f (n,), or its mean given theta where it is integrated out."""
        from jax import numpy as jnp
        from jax.scipy.linalg import solve_triangular

        if self.latent_site == "f":
            return z["f"]
        K = self._matrix(z["theta"])
        if self.latent_site:
            return jnp.linalg.cholesky(K) @ z["v"]
        L, whitened = self._whitened_targets(z["theta"])
        return K[:, self._rows] @ solve_triangular(L, whitened, lower=True, trans=1)

    def _matrix(self, theta: Any) -> Any:
        """K with its jitter, (n, n)."""
        from jax import numpy as jnp

        K = self._covariance(iter(jnp.exp(theta)))
        return K + nuts.DEFAULT_JITTER * jnp.diagonal(K).max() * np.eye(self._n)

    def _whitened_targets(self, theta: Any) -> tuple[Any, Any]:
        """Return the Cholesky factor L of the covariance of y, and L^-1 y."""
        from jax import numpy as jnp
        from jax.scipy.linalg import solve_triangular

        of_rows = self._matrix(theta)[self._rows[:, None], self._rows]
        (log_noise,) = theta[self._of_likelihood]
        L = jnp.linalg.cholesky(of_rows + jnp.exp(2.0 * log_noise) * np.eye(len(self._rows)))
        return L, solve_triangular(L, self._y, lower=True)


def check_density(model: LatentGP, peer: Peer, thetas: np.ndarray) -> None:
    """Both log densities differ by a constant, at some thetas (m, p) and at random v."""
    from numpyro.infer.util import log_density

    from skgpmcmc.approximations import Exact

    nugget = model.with_nugget(nuts.DEFAULT_JITTER)
    rng, gaps = np.random.default_rng(1), []
    for theta in thetas:
        v = rng.standard_normal(model.n_inputs)
        L = np.linalg.cholesky(nugget.prior_at(theta).K)
        f = L @ v
        theirs, _ = log_density(peer, (), {}, {"theta": theta, "v": v, "f": f})
        if peer.latent_site:
            ours = nugget.observations_at(theta).total(f) - 0.5 * float(v @ v)
            if peer.latent_site == "f":
                ours -= np.log(np.diag(L)).sum()
        else:
            ours = Exact().fit(nugget, theta).log_evidence
        gaps.append(ours + model.hyperprior.log_prob(theta) - float(theirs))
    np.testing.assert_allclose(gaps, gaps[0], atol=1e-4)


# --- what is measured -----------------------------------------------------------------------------


def run_peer(peer: Peer, latent: np.ndarray, args: argparse.Namespace) -> dict[str, Any]:
    """Run NUTS; draws are those of theta and of the latent values at some inputs."""
    from jax import numpy as jnp
    from numpyro.infer import init_to_median, init_to_uniform

    init_strategy = {"uniform": init_to_uniform, "median": init_to_median}[args.start]

    def record(z: dict[str, Any]) -> Any:
        return jnp.concatenate([z["theta"], peer.latent(z)[latent]])

    with threadpool_limits(1):
        chains = nuts.Chains(
            peer, args.chains, args.warmup, seed=0, record=record, init_strategy=init_strategy
        )
        start = time.process_time()
        n_warmup, _ = nuts.warm_up(chains, args.warmup, args.max_seconds)
        warmed = time.process_time()
        draws, n_steps, diverging = nuts.sample(chains, args.draws, args.max_seconds)
        end = time.process_time()
    return {
        "draws": draws,
        "start": args.start,
        "latent_site": peer.latent_site,
        "seconds_warmup": warmed - start,
        "seconds_sampling": end - warmed,
        "chains": [len(draws), min(n_warmup), draws.shape[1]],
        "leapfrog_per_draw": float(n_steps.mean()),
        "divergences": int(diverging.sum()),
    }


def summarize(draws: np.ndarray, p: int) -> dict[str, Any]:
    """Means and Monte Carlo errors of draws (n_chains, n_draws, p + n_latent).

    R-hat and the least effective sample size are those of the hyper-parameters.
    """
    found = summarize_convergence(draws)
    return {
        "mean": draws.mean(axis=(0, 1)),
        "sd": draws.std(axis=(0, 1)),
        "error": found.mcse_mean,
        "r_hat": found.r_hat[:p].max(),
        "ess_bulk": found.ess_bulk[:p].min(),
        "ess": min(found.ess_bulk[:p].min(), found.ess_tail[:p].min()),
    }


def measure(name: str, args: argparse.Namespace) -> dict[str, Any]:
    """Run a recipe and its peer, and compare them."""
    start = time.process_time()
    estimator, _ = RECIPES[name]()
    processor = time.process_time() - start
    own = estimator._sampling.run.models[0]
    model, p = own.model, own.draws.theta.shape[2]
    latent = np.linspace(0, model.n_inputs - 1, N_LATENT).astype(int)
    f = own.draws.f.reshape(*own.draws.f.shape[:2], -1)
    ours = summarize(np.concatenate([own.draws.theta, f[:, :, latent]], axis=2), p)
    nuts.import_jax()
    peer = Peer(model, centered=args.centered)
    check_density(model, peer, own.draws.theta[:, 0])
    run = run_peer(peer, latent, args)
    theirs = summarize(run.pop("draws"), p)
    z = (ours["mean"] - theirs["mean"]) / np.hypot(ours["error"], theirs["error"])
    ours_seconds = seconds_to(EFFECTIVE, processor, estimator.diagnostics_)
    their_seconds = run["seconds_warmup"] + run["seconds_sampling"] * EFFECTIVE / theirs["ess"]
    return {
        "rows": len(model.y),
        "names": list(model.hyperprior.names),
        "ours": ours | {"seconds_to_400": ours_seconds},
        "nuts": theirs | run | {"seconds_to_400": their_seconds},
        "z": z,
        "largest_z": np.abs(z[:p]).max(),
        "largest_z_latent": np.abs(z[p:]).max(),
        "ratio": their_seconds / ours_seconds,
    }


def main() -> None:
    """Run what is asked for, print a table, and save it on request."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", choices=list(RECIPES), default=list(RECIPES))
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--warmup", type=int, default=300)
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--centered", action="store_true")
    parser.add_argument("--start", choices=["uniform", "median"], default="uniform")
    parser.add_argument(
        "--max-seconds", type=float, default=1200.0, help="of warm-up, and of sampling"
    )
    parser.add_argument("--save", action="store_true")
    args = parser.parse_args()
    rows = []
    for name in args.only:
        try:
            found = plain(measure(name, args))
        except MissingSourceError as error:
            print(f"{name}: skipped, {error}")
            continue
        print(name, found)
        title = f"{name}, f itself" if args.centered else name
        if args.save:
            import jax
            import numpyro

            versions = {"numpyro": numpyro.__version__, "jax": jax.__version__}
            save("recipe_peers", versions, load_results("recipe_peers") | {title: found})
        cells = [found[part][key] for part in ("ours", "nuts") for key in ("seconds_to_400", "ess")]
        cells += [found["nuts"]["r_hat"], found["largest_z"], found["largest_z_latent"]]
        rows.append([title, *(f"{cell:.3g}" for cell in [*cells, found["ratio"]])])
    head = ["recipe", "seconds to 400", "ESS", "NUTS: seconds to 400", "ESS", "R-hat"]
    print_table([*head, "|z|", "|z|, latent", "ratio"], rows)


if __name__ == "__main__":
    main()
