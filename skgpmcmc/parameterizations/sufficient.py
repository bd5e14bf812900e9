"""Sufficient augmentation: f is held fixed while theta moves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from .._typing import FloatArray
from ..model.joint import GPState, LatentGP
from ..model.prior import GaussianPrior
from ..numerics.linalg import add_outer, product
from .base import HyperPoint, Parameterization, half_traces


@dataclass(frozen=True)
class SufficientAugmentation(Parameterization):
    """f is held fixed: theta has the density p(theta) N(f; 0, K) p(y | f, theta).

    Given f, only the parameters of the likelihood depend on the targets. If the data have little
    information about each f_i, chains mix slowly, as f largely determines theta; then use
    `AncillaryAugmentation`.

    References
    ----------
    Yu & Meng (2011); Filippone, Zhong & Girolami (2013), (4) and appendix A.1.
    """

    name: ClassVar[str] = "sufficient"

    def auxiliary(self, model: LatentGP, state: GPState, rng: np.random.Generator) -> FloatArray:
        """Return f."""
        return state.f

    def relocate(
        self, model: LatentGP, auxiliary: FloatArray, prior: GaussianPrior
    ) -> SufficientPoint:
        """Return the same f under another prior."""
        state = model.state_in(prior, auxiliary)
        log_density = (
            prior.log_prob(auxiliary) + state.log_lik + model.hyperprior.log_prob(prior.theta)
        )
        return SufficientPoint(model, auxiliary, state, log_density)


class SufficientPoint(HyperPoint):
    """A point of theta at fixed f."""

    @cached_property
    def _precision(self) -> FloatArray:
        """Lower triangle of K^-1."""
        return self.state.prior.inverse()

    def _gradient(self) -> tuple[FloatArray, FloatArray]:
        # 1/2 a'K_j a - 1/2 tr(K^-1 K_j) by one contraction; a = K^-1 f and K_j = dK / dtheta_j
        prior = self.state.prior
        a = prior.solve(self.state.f)
        folded = self._precision.copy(order="F")
        folded.flat[:: len(a) + 1] *= 0.5
        of_kernel = prior.contract(add_outer(-folded, 0.5 * a, a))
        return of_kernel, self._parameter_scores.sum(axis=1)

    def _information(self) -> FloatArray:
        """Return ``1/2 tr(K^-1 K_j K^-1 K_k)`` with K_j = dK / dtheta_j."""
        prior = self.state.prior
        precision = self._precision + np.tril(self._precision, -1).T
        return half_traces([product(precision, dK) for dK in prior.derivatives()])
