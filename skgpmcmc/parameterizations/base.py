"""The base class of parameterizations, and the points and conditional distributions they define.

While theta moves, certain auxiliary variables are held fixed, and f changes with theta. `auxiliary`
computes these variables from a state; `relocate` returns f at another theta, with the density of
theta. Operators only see the conditional distribution of some coordinates: theta, some of its
components, or v.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np

from .._typing import FloatArray, IntArray
from ..model.joint import GPState, LatentGP
from ..model.observations import Observations
from ..model.prior import GaussianPrior
from ..numerics.dynamics import DenseRoot, DensityPoint, SquareRoot
from ..numerics.linalg import NotPositiveDefiniteError

#: Added to the diagonal of a metric of theta, so that it has a factor even without information.
_RIDGE = 1e-6


class Point(DensityPoint, Protocol):
    """A position with its conditional density; derivatives are computed on demand."""

    @property
    def log_density(self) -> float:
        """Log of the conditional density, up to a constant."""

    @property
    def state(self) -> GPState:
        """The state (theta, f) at the position."""

    @property
    def metric_root(self) -> SquareRoot:
        """Root of the inverse metric tensor, which is close to minus the expected Hessian."""


class ConditionalDensity(Protocol):
    """The distribution of some coordinates given the variables that are held fixed."""

    def at(self, position: FloatArray) -> Point | None:
        """Return the point at a position; None if the density is zero or K has no factor."""


@dataclass(frozen=True, eq=False)
class HyperPoint(ABC):
    """A point of theta under a parameterization.

    Attributes
    ----------
    model : LatentGP
    auxiliary : object
        The variables that are held fixed.
    state : GPState
        theta, and f at this theta.
    log_density : float
        Log density of theta given y and the auxiliary variables, up to a constant.
    free : ndarray of int of shape (q,) or None
        Positions of the components of theta that are coordinates; None means all of them.
    """

    model: LatentGP
    auxiliary: Any
    state: GPState
    log_density: float
    free: IntArray | None = field(default=None, kw_only=True)

    @property
    def position(self) -> FloatArray:
        """theta, natural logs; (q,)."""
        return np.asarray(self.state.theta[self._coordinates])

    @cached_property
    def gradient(self) -> FloatArray:
        """Gradient of `log_density` in theta; (q,)."""
        of_kernel, of_likelihood = self._gradient()
        of_prior = self.model.hyperprior.gradient(self.state.theta)
        whole = self.model.pad(np.concatenate([of_kernel, of_likelihood])) + of_prior
        return np.asarray(whole[self._coordinates])

    @cached_property
    def metric(self) -> FloatArray:
        """Fisher information minus the second derivatives of the log prior; (q, q).

        For parameters of the likelihood, whose Fisher information has no closed form, the squared
        scores of the rows take its place.
        """
        metric = np.diag(self.model.hyperprior.curvature(self.state.theta) + _RIDGE)
        scores = self._parameter_scores
        information = self._information()
        begin = self.model.n_kernel_hyperparameters
        of_likelihood = slice(begin, begin + len(scores))
        metric[of_likelihood, of_likelihood] += scores @ scores.T
        leading = slice(len(information))
        metric[leading, leading] += information
        return metric[self._coordinates][:, self._coordinates]

    @cached_property
    def metric_root(self) -> DenseRoot:
        """Root of the inverse of `metric`; the identity if it is not finite or has no factor.

        This is correct because any function of the point is a valid metric.
        """
        identity = DenseRoot(np.eye(len(self.metric)))
        if not np.isfinite(self.metric).all():
            return identity
        try:
            root = DenseRoot.of_precision(self.metric)
        except np.linalg.LinAlgError:
            return identity
        return root if np.isfinite(root.matrix).all() else identity

    @property
    def _coordinates(self) -> IntArray | slice:
        return slice(None) if self.free is None else self.free

    @cached_property
    def _observed(self) -> Observations:
        """p(y | f) at this theta."""
        return self.model.observations_at(self.state.theta)

    @cached_property
    def _parameter_scores(self) -> FloatArray:
        """Derivatives of each row's log p(y | f) in the likelihood's parameters; (k, n)."""
        return self._observed.parameter_derivatives(self.state.f).log_prob

    @abstractmethod
    def _gradient(self) -> tuple[FloatArray, FloatArray]:
        """Return the gradients in the kernel's and the likelihood's parameters, without prior."""

    @abstractmethod
    def _information(self) -> FloatArray:
        """Return the Fisher information of the leading components of theta."""


class Parameterization(ABC):
    """Base class: the choice of the variables that are held fixed while theta moves.

    Attributes
    ----------
    name : str
        Name in diagnostics.
    """

    name: ClassVar[str]

    @abstractmethod
    def auxiliary(self, model: LatentGP, state: GPState, rng: np.random.Generator) -> Any:
        """Return the variables to hold fixed: a function of the state, or a draw given it."""

    @abstractmethod
    def relocate(self, model: LatentGP, auxiliary: Any, prior: GaussianPrior) -> HyperPoint:
        """Return the point at the theta of a prior.

        Raises
        ------
        NotPositiveDefiniteError
            If K has no Cholesky factor there.
        """


@dataclass(frozen=True, eq=False)
class HyperConditional:
    """Distribution of theta, or some of its components, given y and the variables held fixed.

    Attributes
    ----------
    model : LatentGP
    parameterization : Parameterization
    auxiliary : object
        The variables that are held fixed.
    prior : GaussianPrior
        Prior of f at the current theta.
    free : ndarray of int or None
        Positions of the components that move; None means all of them.
    """

    model: LatentGP
    parameterization: Parameterization
    auxiliary: Any
    prior: GaussianPrior
    free: IntArray | None = None

    @classmethod
    def of(
        cls,
        model: LatentGP,
        parameterization: Parameterization,
        state: GPState,
        rng: np.random.Generator,
        free: IntArray | None = None,
    ) -> HyperConditional:
        """Return the conditional distribution that contains a state."""
        auxiliary = parameterization.auxiliary(model, state, rng)
        return cls(model, parameterization, auxiliary, state.prior, free)

    @property
    def begin(self) -> Point:
        """The current point."""
        return self._relocate(self.prior)

    def at(self, position: FloatArray) -> Point | None:
        """Return the point at a position; None if the prior is zero or K has no factor."""
        theta = self.theta_at(position)
        if not np.isfinite(self.model.hyperprior.log_prob(theta)):
            return None
        try:
            return self._relocate(self.model.prior_at(theta))
        except NotPositiveDefiniteError:
            return None

    def theta_at(self, position: FloatArray) -> FloatArray:
        """Return all of theta, including the components that do not move; (p,)."""
        if self.free is None:
            return position
        theta = self.prior.theta.copy()
        theta[self.free] = position
        return theta

    def _relocate(self, prior: GaussianPrior) -> Point:
        point = self.parameterization.relocate(self.model, self.auxiliary, prior)
        return point if self.free is None else replace(point, free=self.free)


def half_traces(matrices: Sequence[FloatArray]) -> FloatArray:
    """Return ``1/2 tr(A B)`` for all pairs: the Fisher information of a Gaussian covariance."""
    traces = [[np.einsum("ij,ji->", one, other) for other in matrices] for one in matrices]
    return 0.5 * np.reshape(traces, (len(matrices), len(matrices)))
