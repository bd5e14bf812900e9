"""Cheap posteriors of theta, for proposals that the exact posterior corrects.

The log density of a cheap posterior pi* is the approximate log evidence in a cheaper model, plus
log p(theta). Only proposals use it, so that its errors make sampling slower but not wrong. For this
it must be one fixed function of theta during the whole run.

References
----------
Wang & Neal (2013), *MCMC methods for Gaussian process models using fast approximations for the
likelihood*, section 5.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import numpy as np

from .._params import Configuration, check_choice, check_in, check_integer
from .._typing import FloatArray, IntArray
from ..approximations.base import Approximation
from ..approximations.ep import EP
from ..approximations.exact import Exact
from ..approximations.laplace import Laplace
from ..likelihoods.base import Likelihood
from ..model.joint import LatentGP
from ..model.low_rank import EigenGP, NystromGP
from .posterior import HyperPosterior
from .rows import ROW_CHOICES, choose_rows

#: Default share of the rows in a cheap posterior: a factorization costs 1 % of that of all rows.
_ROW_SHARE = 0.2
#: Most rows in a cheap posterior by default: limits the cost with very many rows.
_MOST_ROWS = 1000
#: Shares of the rows among which pilot runs choose: each doubles the one before.
_CANDIDATE_SHARES = (0.1, 0.2, 0.4)
#: Factorizations in an iterative fit: steps of Newton's method, or sweeps of EP with inverses.
_N_FACTORIZATIONS = 10.0
#: Operations that take as long as filling one entry of a matrix.
_ENTRY_COST = 50.0
#: Operations that take as long as the function calls of one iteration.
CALL_COST = 4e6

#: Inner approximations by the name that `inner` gives them.
_INNER_APPROXIMATIONS: dict[str, type[Approximation]] = {"ep": EP, "laplace": Laplace}


class CheapPosterior(Protocol):
    """An unnormalized density of theta that operators can move on."""

    @property
    def cost(self) -> float:
        """Floating-point operations of one `at` by formula, so that draws depend on no timing."""

    def at(self, position: FloatArray) -> Any:
        """Return the `DensityPoint` at a position; None where the density is zero or undefined."""


def evidence_cost(model: LatentGP, approximation: Approximation) -> float:
    """Approximate number of floating-point operations of one log evidence, by formula.

    Other work, such as function calls, counts as the number of operations that take as long.
    """
    n = float(model.n_inputs)
    of_function = entry_cost(model) * n**2 + iteration_cost(approximation, n**2, n**3 / 3.0)
    return of_function * model.n_latent / n


def entry_cost(model: LatentGP) -> float:
    """Return the cost of an entry of K: a distance, and 100 operations for the correlation."""
    return 2.0 * model.covariance.X.shape[1] + 100.0


def iteration_cost(approximation: Approximation, n_entries: float, factor_cost: float) -> float:
    """Return the cost of all iterations; each of them fills and factorizes a matrix."""
    count = 1.0 if isinstance(approximation, Exact) else _N_FACTORIZATIONS
    return count * (CALL_COST + _ENTRY_COST * n_entries + factor_cost)


@dataclass(eq=False)
class CheapApproximation(Configuration, ABC):
    """Base class of cheap approximations to the posterior of theta.

    Parameters
    ----------
    inner : {"auto", "ep", "laplace"}, default="auto"
        Approximation of the evidence in the cheaper model. "auto" is the closed form for a Gaussian
        likelihood, Laplace for a likelihood of several latent functions, and EP otherwise.
    """

    inner: str = field(default="auto", kw_only=True)

    @abstractmethod
    def posterior(self, model: LatentGP, rng: np.random.Generator) -> CheapPosterior:
        """Return the cheap posterior of theta; random parts such as rows are drawn only here."""

    def candidates(self, n: int) -> list[Self]:
        """Return the candidates among which pilot runs choose for n rows; by default itself."""
        return [self]

    def check(self) -> None:
        """Raise a ValueError that names a field with an impossible value."""
        check_choice("approximation: inner", self.inner, ("auto", *_INNER_APPROXIMATIONS))

    def check_likelihood(self, likelihood: Likelihood) -> None:
        """Raise a ValueError if the inner approximation cannot work with the likelihood."""
        self.approximation(likelihood).check_likelihood(likelihood)

    def approximation(self, likelihood: Likelihood) -> Approximation:
        """Return the approximation that `inner` stands for."""
        if self.inner != "auto":
            return _INNER_APPROXIMATIONS[self.inner]()
        if likelihood.quadratic:
            return Exact()
        return EP() if likelihood.n_functions == 1 else Laplace()


@dataclass(eq=False)
class _SizedApproximation(CheapApproximation):
    """A cheap approximation whose matrices have the size m."""

    m: int | float | str = "auto"

    def check(self) -> None:
        """Raise a ValueError that names a field with an impossible value."""
        super().check()
        if isinstance(self.m, str):
            check_choice("approximation: m", self.m, ("auto",))
        elif isinstance(self.m, float):
            remedy = ' Use an integer for a number of rows, or "auto".'
            check_in("approximation: m", self.m, "(0, 1)", remedy)
        else:
            check_integer("approximation: m", self.m, 1, ' Use a share such as 0.2, or "auto".')

    def candidates(self, n: int) -> list[Self]:
        """Return itself, or with m="auto" one copy for each of some increasing sizes."""
        if not isinstance(self.m, str):
            return [self]
        sizes = {min(int(np.ceil(share * n)), _MOST_ROWS) for share in _CANDIDATE_SHARES}
        return [replace(self, m=size) for size in sorted(sizes)]

    def size(self, n: int) -> int:
        """Return m as a number, at most n."""
        if isinstance(self.m, str):
            return min(int(np.ceil(_ROW_SHARE * n)), _MOST_ROWS)
        return int(np.ceil(self.m * n)) if isinstance(self.m, float) else min(self.m, n)


@dataclass(eq=False)
class _RowsApproximation(_SizedApproximation):
    """A cheap approximation that is based on a subset of the rows."""

    rows: str = field(default="random", kw_only=True)

    def check(self) -> None:
        """Raise a ValueError that names a field with an impossible value."""
        super().check()
        check_choice("approximation: rows", self.rows, ROW_CHOICES)

    def choose(self, model: LatentGP, rng: np.random.Generator) -> IntArray:
        """Choose the rows of the subset."""
        X = model.covariance.X
        return choose_rows(X, self.size(len(X)), self.rows, rng)


@dataclass(eq=False)
class SubsetOfData(_RowsApproximation):
    """Posterior of theta given a subset of the rows.

    Parameters
    ----------
    m : int, float in (0, 1) or "auto", default="auto"
        Number or fraction of the rows. "auto": samplers choose it by pilot runs; without these it
        is a fifth of the rows, at most 1000.
    inner : {"auto", "ep", "laplace"}, default="auto"
        See `CheapApproximation`.
    rows : {"random", "kmeans++", "maximin"}, default="random"
        How the rows are chosen; see `choose_rows`.

    References
    ----------
    Wang & Neal (2013), section 5.1.
    """

    def posterior(self, model: LatentGP, rng: np.random.Generator) -> HyperPosterior:
        """Return the posterior given a subset of the rows, drawn by `rng`."""
        some = model.of_inputs(self.choose(model, rng))
        approximation = self.approximation(model.likelihood).with_few_sweeps()
        return HyperPosterior(some, approximation, cost=evidence_cost(some, approximation))


class _LowRankApproximation(_SizedApproximation):
    """A cheap approximation whose prior covariance has the rank m."""

    def check_likelihood(self, likelihood: Likelihood) -> None:
        """Raise a ValueError for several latent functions, or if `inner` does not suit."""
        likelihood.check_single(f"approximation={type(self).__name__}", 'approximation="sod"')
        super().check_likelihood(likelihood)

    def _posterior(self, model: LatentGP, m: int, root_cost: float) -> HyperPosterior:
        """Return the posterior under a prior of rank m."""
        approximation = self.approximation(model.likelihood).with_few_sweeps()
        n = model.n_inputs
        # Each iteration computes C = I + R W R' and its Cholesky factor.
        of_iterations = iteration_cost(approximation, m * n, m**2 * (n + m / 3.0))
        return HyperPosterior(model, approximation, cost=root_cost + of_iterations)


@dataclass(eq=False)
class Nystrom(_LowRankApproximation, _RowsApproximation):
    """Posterior of theta under the Nystrom approximation of the prior covariance, of low rank.

    The covariances of all rows are approximated by their covariances with a subset of the rows. A
    variance of single rows, such as that of a `WhiteKernel`, is lost for the rows outside the
    subset. The approximation is good for long length-scales.

    Parameters
    ----------
    m : int, float in (0, 1) or "auto", default="auto"
        Number or fraction of the rows in the subset; see `SubsetOfData`.
    inner : {"auto", "ep", "laplace"}, default="auto"
        See `CheapApproximation`.
    rows : {"random", "kmeans++", "maximin"}, default="random"
        How the rows are chosen; see `choose_rows`.

    References
    ----------
    Wang & Neal (2013), section 5.2: "Nystrom-Cholesky".
    """

    def posterior(self, model: LatentGP, rng: np.random.Generator) -> HyperPosterior:
        """Return the posterior with a subset of the rows drawn by `rng`."""
        rows = self.choose(model, rng)
        m = len(rows)
        n = model.n_inputs
        root_cost = entry_cost(model) * m * n + m**2 * (n - m) + m**3 / 3.0
        cheap = NystromGP(model.covariance, model.observations, model.hyperprior, rows)
        return self._posterior(cheap, m, root_cost)


@dataclass(eq=False)
class EigenExact(_LowRankApproximation):
    """Posterior of theta under the best approximation of low rank to the prior covariance.

    It keeps the largest eigenvalues. It is slower than the exact posterior and meant as a reference
    for comparisons. The density has jumps where eigenvalues cross.

    Parameters
    ----------
    m : int, float in (0, 1) or "auto", default="auto"
        Number or fraction of the eigenvalues that are kept; see `SubsetOfData`.
    inner : {"auto", "ep", "laplace"}, default="auto"
        See `CheapApproximation`.

    References
    ----------
    Wang & Neal (2013), section 5.2: "eigen-exact".
    """

    def posterior(self, model: LatentGP, rng: np.random.Generator) -> HyperPosterior:
        """Return the posterior, which has no random parts; `rng` is not used."""
        n = model.n_inputs
        m = self.size(n)
        kept = EigenGP(model.covariance, model.observations, model.hyperprior, m)
        # The operations of the tridiagonal form are few but wait for memory: hence the factor 5.
        root_cost = entry_cost(model) * n**2 + 5.0 * n**3 + 2.0 * m * n**2
        return self._posterior(kept, m, root_cost)


#: The cheap posteriors of theta that have a name in the estimators.
CHEAP_APPROXIMATIONS: dict[str, type[CheapApproximation]] = {
    "sod": SubsetOfData,
    "nystrom": Nystrom,
    "eigen": EigenExact,
}
