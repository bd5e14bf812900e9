"""Models with several latent functions, one for each class, and their prior."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from scipy.linalg import block_diag

from .._typing import FloatArray
from .joint import LatentGP
from .prior import Conditional, GaussianPrior, SharedKernelConditional, StackedConditional


@dataclass(frozen=True, eq=False)
class ClasswisePrior(GaussianPrior):
    """p(f | theta) of independent latent functions; f is stacked function after function.

    Attributes
    ----------
    priors : tuple of GaussianPrior
        Prior of each function; the same object if functions share their hyper-parameters.
    """

    priors: tuple[GaussianPrior, ...] = ()

    low_rank = False  # `ClasswiseApproximation` has no form for low rank
    by_columns = False

    @property
    def shared(self) -> bool:
        """Whether all functions have the same hyper-parameters."""
        return self.priors[0] is self.priors[-1]

    @property
    def size(self) -> int:
        """Number of latent values of all functions."""
        return sum(prior.size for prior in self.priors)

    def split(self, f: FloatArray) -> FloatArray:
        """Return (C n, ...) as (C, n, ...)."""
        return f.reshape(len(self.priors), -1, *f.shape[1:])

    def factorize(self) -> Self:
        """Compute the roots of all functions, and return itself."""
        for prior in self.priors:
            prior.factorize()
        return self

    @property
    def rank(self) -> int:
        """Length of v of all functions together."""
        return sum(prior.rank for prior in self.priors)

    @cached_property
    def K(self) -> FloatArray:
        """Covariance matrix of all functions, (C n, C n); it is large and block-diagonal."""
        return np.asarray(block_diag(*(prior.K for prior in self.priors)))

    @cached_property
    def variance(self) -> FloatArray:
        """Variances of f; (C n,)."""
        return np.concatenate([prior.variance for prior in self.priors])

    @property
    def half_log_det(self) -> float:
        """``1/2 log |K|``."""
        return sum(prior.half_log_det for prior in self.priors)

    def contract(self, A: FloatArray) -> FloatArray:
        """``sum_ij A_ij dK_ij / dtheta_r`` for A of shape (C, n, n); overwrites A."""
        if self.shared:
            return self.priors[0].contract(np.asfortranarray(A.sum(axis=0)))
        pairs = zip(self.priors, A, strict=True)
        return np.concatenate([prior.contract(np.asfortranarray(own)) for prior, own in pairs])

    def times(self, g: FloatArray) -> FloatArray:
        """``K g``, of the shape of g: (C n,) or (C n, m)."""
        pairs = zip(self.priors, self.split(g), strict=True)
        return np.concatenate([prior.times(own) for prior, own in pairs])

    def whiten(self, f: FloatArray) -> FloatArray:
        """Return v of all functions, for f of shape (C n,) or (C n, m)."""
        pairs = zip(self.priors, self.split(f), strict=True)
        return np.concatenate([prior.whiten(own) for prior, own in pairs])

    def unwhiten(self, v: FloatArray) -> FloatArray:
        """Return f of all functions, (C n,) or (C n, m)."""
        ends = np.cumsum([prior.rank for prior in self.priors])[:-1]
        pairs = zip(self.priors, np.split(v, ends), strict=True)
        return np.concatenate([prior.unwhiten(np.asfortranarray(own)) for prior, own in pairs])

    def condition_on(self, f: FloatArray) -> Conditional:
        """Return f* of all functions at new inputs given f of shape (C n, g)."""
        by_function = self.split(f)
        if self.shared:
            side_by_side = self.priors[0].condition_on(np.concatenate(list(by_function), axis=1))
            return SharedKernelConditional(side_by_side, len(self.priors), f.shape[1])
        pairs = zip(self.priors, by_function, strict=True)
        return StackedConditional([prior.condition_on(own) for prior, own in pairs])


@dataclass(frozen=True, eq=False)
class ClasswiseGP(LatentGP):
    """A model whose likelihood depends on several latent functions with the same kernel.

    Attributes
    ----------
    separate : bool
        Whether every function has its own hyper-parameters, class after class in theta; otherwise
        all functions share them.
    """

    separate: bool = False

    @property
    def n_functions(self) -> int:
        """Number of latent functions."""
        return self.likelihood.n_functions

    def find_small_rank(self) -> None:
        """See `LatentGP`: the approximation of several functions needs K."""

    def latent_shape(self, n_rows: int) -> tuple[int, ...]:
        """Return the shape of the latent values of `n_rows` rows: (C, n_rows)."""
        return (self.n_functions, n_rows)

    @property
    def n_kernels(self) -> int:
        """Number of kernels that have hyper-parameters of their own."""
        return self.n_functions if self.separate else 1

    def prior_at(self, theta: FloatArray) -> ClasswisePrior:
        """p(f | theta)."""
        distinct = [GaussianPrior(self.covariance, own) for own in self.kernel_thetas(theta)]
        priors = distinct * (self.n_functions // len(distinct))
        return ClasswisePrior(self.covariance, theta, priors=tuple(priors))
