"""The Gaussian near p(f | y, theta) on which importance densities are based."""

from __future__ import annotations

from ..approximations.base import GaussianApproximation, Sites
from ..approximations.classwise import ClasswiseApproximation, average_sites
from ..model.joint import LatentGP

#: Factor of the precision of averaged sites. With 1 the Gaussian is narrower than p, and rare draws
#: have huge weights; with 0.5 all weights vary more. Measured by `benchmarks/default.py`: chains of
#: a softmax made 0.56 effective draws per evaluation with 0.85, 0.75 with 0.7 and 0.7 with 0.55.
KEPT_PRECISION = 0.7


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
