"""Ancillary augmentation: the whitened latent values are held fixed while theta moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._typing import FloatArray
from ..model.joint import GPState, LatentGP
from ..model.prior import GaussianPrior
from .base import HyperPoint, Parameterization


@dataclass(frozen=True)
class AncillaryAugmentation(Parameterization):
    """v is held fixed, f = R v: theta has the density p(theta) p(y | R(theta) v).

    v has one entry for each input. If K has less than full rank, R v does not depend on some of the
    entries, which are drawn afresh. A priori v is independent of theta. Chains mix well if the data
    have little information about each f_i, and slowly if they have much; then use
    `SufficientAugmentation`.

    References
    ----------
    Yu & Meng (2011); Filippone, Zhong & Girolami (2013), (5) and appendix A.2.
    """

    name: ClassVar[str] = "ancillary"

    def auxiliary(self, model: LatentGP, state: GPState, rng: np.random.Generator) -> FloatArray:
        """Return v."""
        return state.prior.whiten_by_input(state.f, rng)

    def relocate(
        self, model: LatentGP, auxiliary: FloatArray, prior: GaussianPrior
    ) -> AncillaryPoint:
        """Return f = R v under another prior."""
        state = model.state_in(prior, prior.unwhiten(auxiliary[prior.root.pivots]))
        log_density = state.log_lik + model.hyperprior.log_prob(prior.theta)
        return AncillaryPoint(model, auxiliary, state, log_density)


class AncillaryPoint(HyperPoint):
    """A point of theta at fixed v."""

    def _gradient(self) -> tuple[FloatArray, FloatArray]:
        prior = self.state.prior
        slope = self._observed.derivatives(self.state.f).first
        # d log p(y | R v) = slope' dR v
        of_kernel = prior.root_gradient(np.outer(slope, self.auxiliary[prior.root.pivots]))
        return of_kernel, self._parameter_scores.sum(axis=1)

    def _information(self) -> FloatArray:
        """Return ``J'F J`` with F the Fisher information of f and J = df / dtheta."""
        prior = self.state.prior
        v = self.auxiliary[prior.root.pivots]
        moves = [prior.root_change(dK, v) for dK in prior.derivatives()]
        J = np.reshape(moves, (len(moves), -1))
        return np.asarray((J * self._observed.fisher_information(self.state.f)) @ J.T)
