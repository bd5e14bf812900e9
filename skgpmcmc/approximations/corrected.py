"""The log evidence of expectation propagation with its second-order correction."""

from __future__ import annotations

from math import factorial

import numpy as np

from .._typing import FloatArray
from ..model.joint import LatentGP
from ..numerics import linalg
from .base import GaussianApproximation
from .ep import EP


def second_order_log_evidence(model: LatentGP, theta: FloatArray) -> float:
    """Log p(y | theta) by EP, corrected to second order; natural log.

    It is deterministic but not unbiased, so that pseudo-marginal chains must not use it. It costs
    one triangular inverse and two products more than EP with a tight tolerance.

    Parameters
    ----------
    model : LatentGP
        Model with one latent function.
    theta : ndarray of shape (p,)
        Natural logs.

    References
    ----------
    Opper, Paquet & Winther (2013), Perturbative corrections for approximate inference in Gaussian
    latent variable models, Journal of Machine Learning Research 14, (22).
    """
    fit = EP().with_tolerance().fit(model, theta)
    if model.likelihood.quadratic:  # exact, and its tilted densities are Gaussian
        return fit.log_evidence
    return fit.log_evidence + second_order_correction(model, fit.q)


def second_order_correction(model: LatentGP, q: GaussianApproximation) -> float:
    """Return the contribution of pairs of rows to log p(y | theta) - log Z_EP.

    p(y | theta) / Z_EP is the mean under q of the product over rows of F_i(f_i), the ratio of the
    tilted to the marginal density of row i. With z the standardized f and the means eta_li of the
    Hermite polynomials He_l(z_i) under the tilted densities, F_i = sum_l eta_li He_l(z_i) / l!.
    Pairs of rows contribute sum_l r_ij^l eta_li eta_lj / l!, with r the correlations under q. The
    terms with l = 1 and 2 are zero if EP has matched two moments, and are included for other q. The
    series ends at l = 4. If an input has several rows, their product takes the place of a row.
    """
    observed = model.observations_at(q.prior.theta)
    sd = np.sqrt(q.marginal_variance)
    m1, m2, m3, m4 = observed.tilted_powers(q.cavities().moments, q.mean, sd, 4)
    hermite = (m1, m2 - 1.0, m3 - 3.0 * m1, m4 - 6.0 * m2 + 3.0)
    # Correlations from a root of the covariance of f under q do not suffer from cancellation.
    root = q.root / np.linalg.norm(q.root, axis=1)[:, None]
    correlation = linalg.product(root, root.T)
    power = np.ones(())
    total = 0.0
    for degree, eta in enumerate(hermite, start=1):
        power = power * correlation
        total += float(eta @ power @ eta - eta @ eta) / (2.0 * factorial(degree))
    return total
