"""The Gaussian near p(f | y, theta) on which importance densities are based."""

from __future__ import annotations

from ..approximations.base import GaussianApproximation, Sites
from ..approximations.classwise import ClasswiseApproximation, average_sites
from ..model.joint import LatentGP

#: Factor of the precision of averaged sites. The Gaussian that minimizes KL(q || p) is narrower
#: than p, which is skewed: rare draws had weights a thousand times the mean, and chains stayed for
#: up to 242 iterations with 0.7 or 0.85. With half of the precision they stayed for at most 15.
KEPT_PRECISION = 0.5


def importance_gaussian(
    q: GaussianApproximation, model: LatentGP, start: Sites | None = None
) -> GaussianApproximation:
    """Return the Gaussian of an importance density: q itself, except for a softmax.

    For a softmax the Gaussian at the mode is a poor importance density. Its sites are averaged,
    beginning at the sites `start` if given. The Gaussian with averaged sites minimizes KL(q || p),
    and is therefore too narrow: it is widened.
    """
    if not isinstance(q, ClasswiseApproximation):
        return q
    if start is not None:
        q = ClasswiseApproximation(q.prior, start)
    return average_sites(q, model.observations_at(q.prior.theta)).widen(KEPT_PRECISION)
