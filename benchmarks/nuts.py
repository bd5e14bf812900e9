"""NumPyro's NUTS on the default models, as a peer: same model, priors and data.

Run as ``python -m benchmarks.nuts --data sim2 [--seed 0] [--n-draws 250]``; needs ``pip install
numpyro``. For one core, set ``OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1`` and run under ``taskset -c
1``; XLA's own threads are switched off here if JAX has not been imported before.

The latent function is whitened, f = L v with v ~ N(0, I), and everything else is NumPyro's default:
target acceptance 0.8, tree depth at most 10, diagonal mass matrix, uniform starts. For regression
it is integrated out instead, and the mass matrix of the few hyper-parameters is dense. Chains are
run by the kernel's own transition in compiled blocks, so that a time limit can be kept.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_limits

from skgpmcmc.run import summarize_convergence

from .common import CASES, plain

#: Most iterations in one compiled call, and about how long a call may take.
BLOCK = 25
BLOCK_SECONDS = 2.0

#: Noise on f, relative to its variance, that the peer needs for a Cholesky factor of K.
DEFAULT_JITTER = 1e-8
MAX_RHAT = 1.01
#: Hyper-parameters, in the order of the package; ``theta`` has all of them on the scale of theta.
SITES = ("constant_value", "length_scale", "noise_scale", "theta")


def import_jax() -> Any:
    """Import JAX in double precision on one thread, and NumPyro with it."""
    if "jax" not in sys.modules:
        one_thread = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
        os.environ.setdefault("XLA_FLAGS", one_thread)
    try:
        import jax
        import numpyro  # noqa: F401
    except ImportError as error:
        raise ImportError("this benchmark needs NumPyro: pip install numpyro") from error
    jax.config.update("jax_enable_x64", True)
    return jax


def lognormal_parameters(law: Any) -> tuple[float, float]:
    """Mean and standard deviation of the log under a frozen log-normal distribution."""
    if law.dist.name != "lognorm":
        raise ValueError(f"the peer has log-normal priors alone; got {law.dist.name}")
    (sd,) = law.args
    return float(np.log(law.kwds.get("scale", 1.0))), float(sd)


def make_model(
    X: np.ndarray, y: np.ndarray, *, ard: bool = False, jitter: float = DEFAULT_JITTER
) -> Callable[[], None]:
    """Return the default probit classifier as a NumPyro model; y is -1 or +1."""
    import_jax()
    from jax import numpy as jnp
    from jax.scipy.special import log_ndtr

    targets = jnp.asarray(y, dtype=float)
    return _whitened(X, lambda f: log_ndtr(targets * f), ard=ard, jitter=jitter)


def make_poisson_model(
    X: np.ndarray, y: np.ndarray, offset: np.ndarray, *, jitter: float = DEFAULT_JITTER
) -> Callable[[], None]:
    """Return counts with the mean exp(f + offset) as a NumPyro model."""
    import_jax()
    from jax import numpy as jnp

    counts, shift = jnp.asarray(y, dtype=float), jnp.asarray(offset)
    return _whitened(X, lambda f: counts * (f + shift) - jnp.exp(f + shift), jitter=jitter)


def make_marginal_model(
    X: np.ndarray, y: np.ndarray, *, jitter: float = DEFAULT_JITTER
) -> Callable[[], None]:
    """Return regression with f integrated out, and an unknown ``noise_scale`` (1,)."""
    jax = import_jax()
    import numpyro
    import numpyro.distributions as dist
    from jax import numpy as jnp

    kernel_matrix = _sampled_kernel(X, ard=False, jitter=jitter)
    targets, identity = jnp.asarray(y, dtype=float), jnp.asarray(np.eye(len(y)))

    def model() -> None:
        K = kernel_matrix()
        noise = numpyro.sample("noise_scale", dist.LogNormal(0.0, 1.0).expand([1]).to_event(1))
        L = jnp.linalg.cholesky(K + noise[0] ** 2 * identity)
        whitened = jax.scipy.linalg.solve_triangular(L, targets, lower=True)
        log_evidence = -0.5 * jnp.sum(whitened**2) - jnp.sum(jnp.log(jnp.diagonal(L)))
        numpyro.factor("likelihood", log_evidence)

    return model


def _whitened(
    X: np.ndarray, log_prob: Callable[[Any], Any], *, ard: bool = False, jitter: float
) -> Callable[[], None]:
    """Model of y given f by the logs of p(y_i | f_i); site ``v`` (n,) is the whitened f."""
    import numpyro
    import numpyro.distributions as dist
    from jax import numpy as jnp

    kernel_matrix = _sampled_kernel(X, ard=ard, jitter=jitter)

    def model() -> None:
        K = kernel_matrix()
        v = numpyro.sample("v", dist.Normal(0.0, 1.0).expand([len(X)]).to_event(1))
        numpyro.factor("likelihood", jnp.sum(log_prob(jnp.linalg.cholesky(K) @ v)))

    return model


def _sampled_kernel(X: np.ndarray, *, ard: bool, jitter: float) -> Callable[[], Any]:
    """K with hyper-parameters from the papers' priors.

    Sites ``constant_value`` (1,) and ``length_scale`` (1,) or (d,) are Gamma on the natural scale;
    NumPyro moves them on the natural-log scale.
    """
    import jax
    import numpyro
    import numpyro.distributions as dist
    from jax import numpy as jnp

    n, d = X.shape
    relative_jitter = jnp.asarray(1.0 + jitter * np.eye(n))
    distances = jnp.asarray(cdist(X, X, "sqeuclidean"))
    off_diagonal = jnp.asarray(1.0 - np.eye(n))
    centred = jnp.asarray(X - X.mean(axis=0))

    def scaled_distances(length_scale: Any) -> Any:
        if not ard:
            return distances / length_scale[0] ** 2
        Z = centred / length_scale
        norms = jnp.sum(Z * Z, axis=1)
        return jax.nn.relu(norms[:, None] + norms - 2.0 * Z @ Z.T) * off_diagonal

    def kernel_matrix() -> Any:
        constant = numpyro.sample("constant_value", dist.Gamma(1.1, 0.1).expand([1]).to_event(1))
        prior = dist.Gamma(1.0, 1.0 / np.sqrt(d)).expand([d if ard else 1]).to_event(1)
        length_scale = numpyro.sample("length_scale", prior)
        return constant[0] * jnp.exp(-0.5 * scaled_distances(length_scale)) * relative_jitter

    return kernel_matrix


class Chains:
    """NUTS chains of one model, compiled once and run one after the other in blocks.

    What is kept of each draw is what `record` makes of its sites: log theta, unless it is given.

    Attributes
    ----------
    states : list
        Where each chain stands.
    seconds_compile : float
        Tracing, start values and compilation.
    """

    def __init__(
        self,
        model: Callable[[], None],
        n_chains: int,
        n_warmup: int,
        seed: int,
        *,
        dense_mass: bool = False,
        record: Callable[[dict[str, Any]], Any] | None = None,
        init_strategy: Callable[..., Any] | None = None,
    ) -> None:
        jax = import_jax()
        from numpyro.infer import NUTS, init_to_uniform

        start = time.perf_counter()
        self._record = record or _log_theta
        self._kernel = NUTS(
            model, dense_mass=dense_mass, init_strategy=init_strategy or init_to_uniform
        )
        self._n_warmup = n_warmup
        keys = jax.random.split(jax.random.PRNGKey(seed), n_chains)
        self.states = [self._kernel.init(key, n_warmup, None, (), {}) for key in keys]
        # Compiled ahead of time: a call can only run this code or fail, never compile again.
        self._run = jax.jit(self._block).lower(self.states[0], 1).compile()
        self.seconds_compile = time.perf_counter() - start

    def _block(self, state: Any, count: Any) -> tuple[Any, Any]:
        """`count` transitions, at most BLOCK; record, leapfrog steps and divergence of each."""
        from jax import lax
        from jax import numpy as jnp

        def transition(i: Any, carry: tuple[Any, Any]) -> tuple[Any, Any]:
            state, (kept, n_steps, diverging) = carry
            state = self._kernel.sample(state, (), {})
            kept = kept.at[i].set(self._record(state.z))
            n_steps = n_steps.at[i].set(state.num_steps)
            return state, (kept, n_steps, diverging.at[i].set(state.diverging))

        rows = (
            jnp.zeros((BLOCK, len(self._record(state.z)))),
            jnp.zeros(BLOCK, dtype=int),
            jnp.zeros(BLOCK, dtype=bool),
        )
        return lax.fori_loop(0, count, transition, (state, rows))

    def advance(self, chain: int, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Move one chain by `count` iterations; record, leapfrog steps and divergence."""
        self.states[chain], rows = self._run(self.states[chain], count)
        kept, n_steps, diverging = (np.asarray(row)[:count] for row in rows)  # waits for the end
        return kept, n_steps, diverging

    def stop_adapting(self, chain: int) -> None:
        """End a warm-up early, in the way NumPyro ends a complete one.

        The step size becomes the running average of dual averaging; the mass matrix stays that of
        the last complete adaptation window.
        """
        state = self.states[chain]
        adapt = state.adapt_state
        _, log_average, _, n_updates, _ = adapt.ss_state
        if int(n_updates) > 0:
            adapt = adapt._replace(step_size=np.exp(np.asarray(log_average)))
        i = np.asarray(self._n_warmup, dtype=state.i.dtype)  # the kernel adapts below this
        self.states[chain] = state._replace(i=i, adapt_state=adapt)


def _log_theta(z: dict[str, Any]) -> Any:
    """Natural logs in scikit-learn's order; NumPyro's unconstrained values are just these."""
    from jax import numpy as jnp

    return jnp.concatenate([z[site] for site in _sites(z)])


def _sites(z: dict[str, Any]) -> list[str]:
    return [site for site in SITES if site in z]


class _BlockLength:
    """How many iterations the next block should have: short enough to keep a time limit.

    It at most doubles, and goes by the slowest block so far: trees are short at the very start.
    """

    def __init__(self) -> None:
        self.count = 1
        self._slowest = 0.0

    def update(self, seconds_per_iteration: float) -> None:
        self._slowest = max(self._slowest, seconds_per_iteration)
        self.count = max(1, min(2 * self.count, BLOCK, int(BLOCK_SECONDS / self._slowest)))


def warm_up(chains: Chains, n_warmup: int, max_seconds: float) -> tuple[list[int], int]:
    """Adapt chain after chain; what was done of each warm-up, and the leapfrog steps it took.

    Every chain gets an equal share of the time that is left. One that uses it up stops adapting
    and goes on to sample as it stands; a block under way is finished first.
    """
    start = time.perf_counter()
    n_chains = len(chains.states)
    n_done, n_leapfrog = [], 0
    for chain in range(n_chains):
        chain_start = time.perf_counter()
        share = (max_seconds - (chain_start - start)) / (n_chains - chain)
        done, length = 0, _BlockLength()
        while done < n_warmup and time.perf_counter() - chain_start < share:
            block_start = time.perf_counter()
            count = min(length.count, n_warmup - done)
            _, n_steps, _ = chains.advance(chain, count)
            n_leapfrog += int(n_steps.sum())
            done += count
            length.update((time.perf_counter() - block_start) / count)
        if done < n_warmup:
            chains.stop_adapting(chain)
        n_done.append(done)
    return n_done, n_leapfrog


def sample(
    chains: Chains, n_draws: int, max_seconds: float | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw in rounds, so that all chains stay equally long; each (n_chains, n_draws, ...)."""
    start = time.perf_counter()
    n_chains = len(chains.states)
    rounds: list[list[np.ndarray]] = []
    done, length = 0, _BlockLength()
    while done < n_draws and (max_seconds is None or time.perf_counter() - start < max_seconds):
        round_start = time.perf_counter()
        count = min(length.count, n_draws - done)
        blocks = [chains.advance(chain, count) for chain in range(n_chains)]
        rounds.append([np.stack(parts) for parts in zip(*blocks, strict=True)])
        done += count
        length.update((time.perf_counter() - round_start) / (count * n_chains))
    theta, n_steps, diverging = (np.concatenate(p, axis=1) for p in zip(*rounds, strict=True))
    return theta, n_steps, diverging


def run_nuts(
    model: Callable[[], None],
    *,
    dense_mass: bool = False,
    n_chains: int = 4,
    n_warmup: int = 1000,
    n_draws: int = 1000,
    seed: int = 0,
    max_warmup_seconds: float = 2400.0,
    max_sampling_seconds: float | None = None,
) -> dict[str, Any]:
    """Run NUTS, and report cost and convergence of the hyper-parameters on the log scale.

    Parameters
    ----------
    model : callable
        NumPyro model, of one of the functions above.
    dense_mass : bool
        Adapt a full mass matrix and not a diagonal one.
    n_chains, n_warmup, n_draws : int
        Chains run one after the other; `n_warmup` and `n_draws` are per chain.
    seed : int
    max_warmup_seconds : float
        For all chains together. A warm-up cut short is reported by ``"warmup_complete": False``.
    max_sampling_seconds : float, optional
        Sampling ends after the round of blocks in which this time has passed.

    Returns
    -------
    dict
        Ready for JSON, except that infinite values are possible if too little was drawn.
        ``seconds_to_1000`` is warm-up time plus sampling time scaled to an effective sample size of
        1000, the least over hyper-parameters of bulk and tail; ``lower_bound`` says that the
        chains had not converged, so that this time is one.
    """
    with threadpool_limits(1):
        chains = Chains(model, n_chains, n_warmup, seed, dense_mass=dense_mass)
        start, processor = time.perf_counter(), time.process_time()
        n_done, n_leapfrog_warmup = warm_up(chains, n_warmup, max_warmup_seconds)
        seconds_warmup = time.perf_counter() - start
        start = time.perf_counter()
        theta, n_steps, diverging = sample(chains, n_draws, max_sampling_seconds)
        seconds_sampling = time.perf_counter() - start
        processor = time.process_time() - processor
    summary = summarize_convergence(theta)
    min_ess = float(min(summary.ess_bulk.min(), summary.ess_tail.min()))
    scaled = seconds_sampling * 1000.0 / min_ess if min_ess > 0.0 else np.inf
    converged = bool(np.all(summary.r_hat <= MAX_RHAT))
    draws = theta.reshape(-1, theta.shape[2])
    n_leapfrog = n_leapfrog_warmup + int(n_steps.sum())
    z = chains.states[0].z
    return {
        "n_chains": n_chains,
        "n_warmup": n_done,
        "warmup_complete": min(n_done) == n_warmup,
        "n_draws": theta.shape[1],
        "dense_mass": dense_mass,
        "seconds_compile": chains.seconds_compile,
        "seconds_warmup": seconds_warmup,
        "seconds_sampling": seconds_sampling,
        "seconds_processor": processor,
        "seconds_per_leapfrog": (seconds_warmup + seconds_sampling) / n_leapfrog,
        "leapfrog_per_warmup": n_leapfrog_warmup / max(sum(n_done), 1),
        "leapfrog_per_draw": float(n_steps.mean()),
        "step_size": [float(state.adapt_state.step_size) for state in chains.states],
        "divergences": int(diverging.sum()),
        "hyperparameters": [site for site in _sites(z) for _ in z[site]],
        "posterior_mean_log": draws.mean(axis=0).tolist(),
        "posterior_sd_log": draws.std(axis=0, ddof=1).tolist(),
        "mcse_mean_log": summary.mcse_mean.tolist(),
        "r_hat": summary.r_hat.tolist(),
        "ess_bulk": summary.ess_bulk.tolist(),
        "ess_tail": summary.ess_tail.tolist(),
        "min_ess": min_ess,
        "seconds_to_1000": float(seconds_warmup + scaled),
        "converged": converged,
        "lower_bound": not converged,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", choices=CASES, default="sim2")
    parser.add_argument("--seed", type=int, default=0, help="of simulated data and of the chains")
    parser.add_argument("--n-chains", type=int, default=4)
    parser.add_argument("--n-warmup", type=int, default=1000)
    parser.add_argument("--n-draws", type=int, default=1000)
    parser.add_argument("--max-warmup-seconds", type=float, default=2400.0)
    parser.add_argument("--max-sampling-seconds", type=float, default=None)
    parser.add_argument("--jitter", type=float, default=DEFAULT_JITTER)
    settings = vars(parser.parse_args())
    case, jitter = CASES[settings.pop("data")], settings.pop("jitter")
    model = make_model(*case.load(settings["seed"]), ard=case.ard, jitter=jitter)
    print(json.dumps(plain(run_nuts(model, **settings)), indent=1, allow_nan=False))


if __name__ == "__main__":
    main()
