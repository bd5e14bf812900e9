"""Cheap posteriors of theta, for moves that an exact one corrects.

A cheap posterior pi* is the log evidence of an approximation in a model that costs less, plus log
p(theta). It takes part in proposals only, so that its errors cost time and not correctness; for
that it must be one fixed function of theta for the whole run.

References
----------
Wang & Neal (2013), *MCMC methods for Gaussian process models using fast approximations for the
likelihood*, section 5.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from .._params import Configuration, check_choice, check_in, check_integer
from .._typing import FloatArray
from ..likelihoods import Likelihood
from ..model import LatentGP
from ..numerics.linalg import NotPositiveDefiniteError
from .base import Approximation, ApproximationFit
from .ep import EP
from .exact import Exact
from .laplace import Laplace
from .rows import WAYS, choose_rows

#: Share of the rows, and most of them, where nobody has chosen.
_SHARE, _MOST = 0.2, 1000

_INNER: dict[str, type[Approximation]] = {"ep": EP, "laplace": Laplace}


class CheapPosterior(Protocol):
    """An unnormalized density of theta that operators can move on."""

    @property
    def cost(self) -> float:
        """Floating-point operations of one `at`, by formula: draws must not depend on a clock."""

    def at(self, position: FloatArray) -> Any:
        """Return the point there, a `DensityPoint`; None without a density."""


@dataclass(frozen=True, eq=False)
class EvidencePoint:
    """A theta with its approximate posterior density.

    Attributes
    ----------
    posterior : EvidencePosterior
    fit : ApproximationFit
        Of its model at this theta.
    log_density : float
        Log evidence plus log p(theta).
    """

    posterior: EvidencePosterior
    fit: ApproximationFit
    log_density: float

    @property
    def position(self) -> FloatArray:
        """theta, natural logs; (p,)."""
        return self.fit.q.prior.theta

    @cached_property
    def gradient(self) -> FloatArray:
        """Gradient of `log_density`, up to the tolerance of the approximation; (p,)."""
        model, approximation = self.posterior.model, self.posterior.approximation
        of_evidence = approximation.gradient(model, self.fit)
        return np.asarray(of_evidence + model.hyperprior.gradient(self.position))


@dataclass(frozen=True, eq=False)
class EvidencePosterior:
    """``q(y | theta) p(theta)``, with the evidence of an approximation in a model.

    Attributes
    ----------
    model : LatentGP
        Cheaper than the one that chains are about, with the same theta.
    approximation : Approximation
    cost : float
        Floating-point operations of one evaluation, about.
    """

    model: LatentGP
    approximation: Approximation
    cost: float

    def at(self, position: FloatArray) -> EvidencePoint | None:
        """Return the point at theta; None outside the prior's support, or where K is singular."""
        log_hyperprior = self.model.hyperprior.log_prob(position)
        if not np.isfinite(log_hyperprior):
            return None
        try:
            fit = self.approximation.fit(self.model, position)
        except NotPositiveDefiniteError:
            return None
        log_density = float(fit.log_evidence + log_hyperprior)
        return EvidencePoint(self, fit, log_density) if np.isfinite(log_density) else None


def evidence_cost(model: LatentGP, approximation: Approximation) -> float:
    """Floating-point operations of one approximate log evidence, by formula; about.

    The matrix K, and the Cholesky factorizations that the approximation takes.
    """
    n = float(len(model.y))
    functions = model.n_latent / n
    return functions * (entry_cost(model) * n**2 + approximation.n_cubic * n**3 / 3.0)


def entry_cost(model: LatentGP) -> float:
    """Operations of an entry of K: a distance, and a correlation that costs as much as twenty."""
    return 2.0 * model.covariance.X.shape[1] + 20.0


@dataclass(eq=False)
class CheapApproximation(Configuration, ABC):
    """A way to make a cheap posterior of theta out of a model."""

    @abstractmethod
    def posterior(self, model: LatentGP, rng: np.random.Generator) -> CheapPosterior:
        """Return the cheap posterior of theta; what is random about it is drawn here, once."""

    @abstractmethod
    def check(self) -> None:
        """Raise a ValueError that names a field with an impossible value."""

    def check_likelihood(self, likelihood: Likelihood) -> None:
        """Raise a ValueError if it cannot work with the likelihood."""


@dataclass(eq=False)
class _Sized(CheapApproximation):
    """One with a size m, and an approximation of the evidence in the model of that size."""

    m: int | float | str = "auto"
    rows: str = "random"
    inner: str = "auto"

    def check(self) -> None:
        """Raise a ValueError that names a field with an impossible value."""
        if isinstance(self.m, str):
            check_choice("approximation: m", self.m, ("auto",))
        elif isinstance(self.m, float):
            remedy = ' Use an integer for a number of rows, or "auto".'
            check_in("approximation: m", self.m, "(0, 1)", remedy)
        else:
            check_integer("approximation: m", self.m, 1, ' Use a share such as 0.2, or "auto".')
        check_choice("approximation: rows", self.rows, WAYS)
        check_choice("approximation: inner", self.inner, ("auto", *_INNER))

    def check_likelihood(self, likelihood: Likelihood) -> None:
        """Raise a ValueError if the inner approximation cannot work with the likelihood."""
        self.approximation(likelihood).check_likelihood(likelihood)

    def size(self, n: int) -> int:
        """Return m as a number, at most n."""
        if isinstance(self.m, str):
            return min(int(np.ceil(_SHARE * n)), _MOST)
        return int(np.ceil(self.m * n)) if isinstance(self.m, float) else min(self.m, n)

    def approximation(self, likelihood: Likelihood) -> Approximation:
        """Return the approximation that `inner` stands for."""
        if self.inner != "auto":
            return _INNER[self.inner]()
        if likelihood.quadratic:
            return Exact()
        return EP() if likelihood.n_functions == 1 else Laplace()


@dataclass(eq=False)
class SubsetOfData(_Sized):
    """The posterior given some of the rows alone.

    Parameters
    ----------
    m : int, float in (0, 1) or "auto", default="auto"
        Number or share of the rows. "auto": samplers choose it by pilot runs; by itself it is a
        fifth of the rows, and a thousand at most.
    rows : {"random", "kmeans++", "maximin"}, default="random"
        How they are chosen; see `choose_rows`.
    inner : {"auto", "ep", "laplace"}, default="auto"
        How the evidence of these rows is found: "auto" is the closed form for a Gaussian
        likelihood, else EP, and Laplace for a likelihood of several functions.

    References
    ----------
    Wang & Neal (2013), section 5.1.
    """

    def posterior(self, model: LatentGP, rng: np.random.Generator) -> EvidencePosterior:
        """Return the posterior given rows that are drawn now."""
        X = model.covariance.X
        some = model.of_rows(choose_rows(X, self.size(len(X)), self.rows, rng))
        approximation = self.approximation(model.likelihood)
        return EvidencePosterior(some, approximation, evidence_cost(some, approximation))
