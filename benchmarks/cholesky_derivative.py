"""Seconds of the derivative of a Cholesky factorization, beside those of the factorization.

Run as ``python -m benchmarks.cholesky_derivative``. One reverse pass gives the derivatives in all
entries of K, and so those in any number of hyper-parameters. The fastest of many calls is taken, in
turns, as other processes disturb single ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from threadpoolctl import threadpool_limits

from skgpmcmc.model import make_covariance, smooth_kernel
from skgpmcmc.numerics.linalg import cholesky, cholesky_pullback

from .common import save

SIZES = (100, 200, 400, 800)
N_CALLS = 200


def seconds_of(call: Callable[[], object]) -> float:
    """Wall time of one call."""
    clock = time.perf_counter()
    call()
    return time.perf_counter() - clock


def measured(n: int) -> dict[str, float]:
    """Fastest calls for the default kernel at n points of the unit square."""
    rng = np.random.default_rng(0)
    covariance = make_covariance(smooth_kernel(2), rng.uniform(size=(n, 2)))
    K = covariance.matrix(np.array([2.0, -1.5])) + 1e-6 * np.eye(n)  # not singular
    L, bar = cholesky(K), np.outer(rng.standard_normal(n), rng.standard_normal(n))
    forward, reverse = np.inf, np.inf
    for _ in range(N_CALLS):
        forward = min(forward, seconds_of(lambda: cholesky(K)))
        reverse = min(reverse, seconds_of(lambda: cholesky_pullback(L, bar)))
    return {"n": n, "cholesky": forward, "derivative": reverse, "ratio": reverse / forward}


def main() -> None:
    with threadpool_limits(1):
        results = [measured(n) for n in SIZES]
    for row in results:
        print(
            f"n = {row['n']:4d}: factorization {1e3 * row['cholesky']:7.3f} ms, derivative "
            f"{1e3 * row['derivative']:7.3f} ms, {row['ratio']:.1f} times"
        )
    save("cholesky_derivative", {"n_calls": N_CALLS}, results)


if __name__ == "__main__":
    main()
