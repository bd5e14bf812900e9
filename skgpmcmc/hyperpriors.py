"""What we believe about the hyper-parameters before seeing data.

A prior is a frozen ``scipy.stats`` distribution of the hyper-parameter x on its *natural* scale.
Chains move on u = log x, whose density carries the Jacobian: log p(u) = log p_X(e^u) + u.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import differentiate, stats

from ._typing import FloatArray

__all__ = ["HyperPrior", "default_prior"]

#: Beyond this |log x| the density is taken to be zero, so that exp never overflows.
LOG_SCALE_LIMIT = 50.0


def default_prior(name: str, n_features: int) -> Any:
    """Prior of a hyper-parameter that the user left out, by the end of its name.

    Scales (``constant_value``, ``noise_level``, ``sigma_0``) get Gamma(1.1, rate 0.1);
    ``length_scale`` and ``periodicity`` get Gamma(1, rate 1/sqrt(d)); any other name gets the
    log-normal(0, 1). The first two are those of Filippone & Girolami (2014), section 4.4.
    """
    if name.endswith(("constant_value", "noise_level", "sigma_0")):
        return stats.gamma(1.1, scale=10.0)
    if name.endswith(("length_scale", "periodicity")):
        return stats.gamma(1.0, scale=np.sqrt(n_features))
    return stats.lognorm(1.0)


class HyperPrior:
    """Independent priors on positive hyper-parameters, evaluated on the natural-log scale.

    Parameters
    ----------
    names : sequence of str
        One name per component of theta; vector hyper-parameters repeat theirs.
    distributions : mapping of str to frozen scipy distribution
        A univariate continuous distribution on (0, inf) for every name.

    Raises
    ------
    ValueError
        If a distribution is not a frozen continuous one or its support leaves (0, inf).
    """

    def __init__(self, names: Sequence[str], distributions: Mapping[str, Any]) -> None:
        for name in dict.fromkeys(names):
            _check_distribution(name, distributions[name])
        self.names = tuple(names)
        self.distributions = {name: distributions[name] for name in dict.fromkeys(names)}
        self._positions = {
            name: np.flatnonzero([name == other for other in names]) for name in self.distributions
        }

    def log_prob(self, theta: FloatArray) -> float:
        """Log density of theta (natural logs), Jacobian included; -inf outside the support."""
        if not np.all(np.abs(theta) <= LOG_SCALE_LIMIT):  # also catches NaN
            return -np.inf
        total = 0.0
        for name, position in self._positions.items():
            u = theta[position]
            total += float(np.sum(self.distributions[name].logpdf(np.exp(u)) + u))
        return total

    def gradient(self, theta: FloatArray) -> FloatArray:
        """Gradient of `log_prob` with respect to theta, of shape (p,)."""
        gradient = np.empty(len(theta))
        for name, position in self._positions.items():
            gradient[position] = _log_scale_gradient(self.distributions[name], theta[position])
        return gradient

    def sample(self, rng: np.random.Generator) -> FloatArray:
        """One draw of theta, of shape (p,), on the natural-log scale."""
        theta = np.empty(len(self.names))
        for name, position in self._positions.items():
            x = self.distributions[name].rvs(size=len(position), random_state=rng)
            # A gamma with a small shape can underflow to zero, whose log is not a start value.
            theta[position] = np.log(np.maximum(x, np.exp(-LOG_SCALE_LIMIT)))
        return theta


def _check_distribution(name: str, distribution: Any) -> None:
    # "dist" tells a frozen distribution from its family, which has the other two as well.
    if not all(hasattr(distribution, part) for part in ("dist", "logpdf", "support")):
        raise ValueError(
            f"priors[{name!r}] must be a frozen continuous scipy.stats distribution, such as "
            f"scipy.stats.gamma(1.1, scale=10.0); got {distribution!r}."
        )
    lower, upper = distribution.support()
    if not (np.ndim(lower) == 0 and 0.0 <= lower < upper):
        raise ValueError(
            f"priors[{name!r}] has support ({lower}, {upper}), but the hyper-parameter is positive "
            "and the prior is stated on its natural scale: use a distribution on (0, inf), such "
            "as scipy.stats.gamma, scipy.stats.lognorm or scipy.stats.halfnorm."
        )


def _log_scale_gradient(distribution: Any, u: FloatArray) -> FloatArray:
    """Derivative of log p_X(e^u) + u: closed forms where they are short, else numerical."""
    shapes, loc, scale = distribution.dist._parse_args(*distribution.args, **distribution.kwds)
    x = np.exp(u) / scale
    family = distribution.dist.name
    if loc == 0.0 and family == "gamma":
        return np.asarray(shapes[0] - x)
    if loc == 0.0 and family == "invgamma":
        return np.asarray(-shapes[0] + 1.0 / x)
    if loc == 0.0 and family == "lognorm":
        return np.asarray(-np.log(x) / shapes[0] ** 2)
    if loc == 0.0 and family == "halfnorm":
        return np.asarray(1.0 - x**2)

    def log_density(v: FloatArray) -> FloatArray:
        return np.asarray(distribution.logpdf(np.exp(v)) + v)

    return np.asarray(differentiate.derivative(log_density, u, initial_step=0.1).df)
