"""The sizes of misfit and coefficients of a fitted quadratic."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import linalg, stats

from skgpmcmc.numerics.quadratic import _most_likely_variances


@pytest.mark.parametrize("noise", [0.0, 0.2])
def test_variances_maximize_the_evidence_of_contrasts(noise):
    """The constant is free: the evidence is that of differences of the values."""
    rng = np.random.default_rng(0)
    terms = rng.standard_normal((25, 5))
    shares = rng.uniform(0.2, 1.0, size=25)
    values = 3.0 + terms @ (0.5 * rng.standard_normal(5)) + 0.3 * rng.standard_normal(25)
    contrasts = linalg.null_space(np.ones((1, 25))).T

    def log_evidence(misfit, term_variance):
        covariance = term_variance * terms @ terms.T + np.diag((noise**2 + misfit) / shares)
        covariance = contrasts @ covariance @ contrasts.T
        return stats.multivariate_normal.logpdf(contrasts @ values, cov=covariance)

    found = _most_likely_variances(terms, values, np.full(25, noise**2), shares)
    best = log_evidence(*found)
    for factors in [(1.3, 1.0), (0.75, 1.0), (1.0, 1.5), (1.0, 0.6), (1.2, 0.8), (0.8, 1.3)]:
        assert log_evidence(*(found * factors)) < best
