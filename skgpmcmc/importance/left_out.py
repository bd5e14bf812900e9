"""Log densities at theta of targets that are not among the data, with f integrated out.

A Gaussian approximation q(f) represents the data by one Gaussian site for each input. The margin of
q at an input without its site is the cavity distribution: f given all other inputs. Under the
cavity, the likelihood of the rows of the input is an integral over one latent value, so that a row
can be left out, or a target added, while the sites of the other inputs are held fixed. With
Gaussian noise this is exact. EP would find other sites if it was fitted to the changed data.
Because its log evidence is stationary in the sites, a ratio of two evidences at the same sites is
correct to first order: it is the density under the cavity, times the changes of the terms of the
other inputs. Where these changes are large, EP is fitted again. The Laplace approximation is not
stationary in this way, and its densities are those under its cavities.

References
----------
Vehtari, Mononen, Tolvanen, Sivula & Winther (2016), Bayesian leave-one-out cross-validation
approximations for Gaussian latent variable models, Journal of Machine Learning Research 17(103).
Rasmussen & Williams (2006), (5.10) to (5.12) for Gaussian noise, (3.65) for the evidence of EP.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from .._typing import FloatArray, IntArray
from ..approximations.base import (
    Approximation,
    Cavities,
    GaussianApproximation,
    Sites,
)
from ..approximations.classwise import ClasswiseApproximation, average_sites, normal_points
from ..approximations.ep import EP
from ..approximations.exact import Exact
from ..approximations.laplace import Laplace
from ..model.joint import LatentGP
from ..model.observations import ExtraTargets, Observations
from ..numerics.linalg import log_sum, split_entries
from .density import ReferenceDensity
from .interpolated import InterpolatedSites

#: Largest site tolerance of EP and Laplace: errors of sites enter the cavities to first order.
_LARGEST_TOLERANCE = 1e-3
#: Least change of a margin, in its sd, to which an input responds: < 0.001 nats for 173 counts.
_LEAST_CHANGE = 0.1
#: Response of the other inputs, in nats, above which EP is fitted again: first order fails.
_STRONG_RESPONSE = 0.15
#: Log2 of the number of quadrature points (512) over the classes of a softmax.
_LOG2_SOFTMAX_POINTS = 9


class DensityQuery(NamedTuple):
    """Targets whose densities are wanted at the inputs of rows, given the remaining data."""

    rows: IntArray  # (m,), positions of rows of the model; positions may repeat
    kept: FloatArray  # (m,), the weight that each row keeps among the data
    further: ExtraTargets  # the targets, one for each of the rows


class FittedPosterior(NamedTuple):
    """A converged Gaussian approximation of f given all data, at one theta."""

    model: LatentGP
    q: GaussianApproximation
    log_evidence: float  # natural log
    refit_by: EP | None  # EP for changed data, starting at the sites of q; None if q is not EP's

    @classmethod
    def at(
        cls, model: LatentGP, theta: FloatArray, reference: ReferenceDensity | None
    ) -> FittedPosterior:
        """Fit q(f) at theta, iterated until it converges.

        With Gaussian noise q is the exact posterior; for a softmax it is the Gaussian of
        `average_sites`. For any other likelihood it comes from the approximation of the chains, or
        from EP if the chains use none.

        Parameters
        ----------
        model : LatentGP
            Model with any likelihood.
        theta : ndarray of shape (p,)
            Natural logs.
        reference : ReferenceDensity or None
            Importance density of the chains. Iterations start from its sites if it has any.
        """
        if model.likelihood.quadratic:
            q, log_evidence, _, _ = Exact().fit(model, theta)
            return cls(model, q, log_evidence, None)
        if model.likelihood.n_functions > 1:
            q, log_evidence, _, _ = Laplace().fit(model, theta)
            assert isinstance(q, ClasswiseApproximation)
            return cls(model, average_sites(q, model.observations), log_evidence, None)
        approximation: Approximation = EP()
        start = None
        if isinstance(reference, InterpolatedSites):
            approximation = reference.approximation
            start = reference.sites_at(theta)
        elif isinstance(reference, Approximation):
            approximation = reference
        q, log_evidence, converged, _ = approximation.with_tolerance(_LARGEST_TOLERANCE).fit(
            model, theta, start
        )
        refit_by = approximation if isinstance(approximation, EP) and converged else None
        return cls(model, q, log_evidence, refit_by)

    @property
    def observed(self) -> Observations:
        """The data, with the likelihood at theta."""
        return self.model.observations_at(self.q.prior.theta)

    def log_density_given(self, query: DensityQuery) -> FloatArray:
        """Log density of further targets, given the data with the kept weights of their rows.

        Returns
        -------
        ndarray of shape (m,)
            Natural logs; a target of weight w counts as its density to the power w.
        """
        if isinstance(self.q, ClasswiseApproximation):
            return _log_density_of_classes(self.q, self.observed, query)
        return self._log_normalizer(query, query.further) - self._log_normalizer(query, None)

    def _log_normalizer(self, query: DensityQuery, further: ExtraTargets | None) -> FloatArray:
        """Log p(remaining rows, further targets) relative to the data without the inputs; (m,)."""
        q = self.q
        observed = self.observed
        inputs = observed.input_of_row[query.rows]
        cavity_mean, cavity_var = (part[inputs] for part in q.cavities().moments)
        # The changed margins of f are tilted where the input has rows left, else cavities.
        changed, places = observed.reduce_each_weight(query.rows, query.kept, further)
        log_z = np.zeros(len(inputs))
        mean = cavity_mean.copy()
        var = cavity_var.copy()
        if len(places):
            own_var = var[places]
            log_z[places], alpha, beta = changed.tilted_moments(mean[places], own_var)
            mean[places] += own_var * alpha
            var[places] = own_var * np.maximum(1.0 - own_var * beta, np.finfo(float).eps)
        if self.refit_by is None:
            return log_z
        response = _compute_response(q, observed, inputs, mean, var)
        weak = np.abs(response) <= _STRONG_RESPONSE  # false for NaN
        log_z += np.where(np.isfinite(response), response, 0.0)
        for i in np.flatnonzero(~weak):
            row = int(query.rows[i])
            kept = float(query.kept[i])
            own = None if further is None else ExtraTargets(*(part[i : i + 1] for part in further))
            changed_data, at = observed.reduce_weight(row, kept, own)
            model = replace(self.model.of_inputs(at), observations=changed_data)
            sites = Sites(*(part[at] for part in q.sites))
            fit = self.refit_by.fit(model, q.prior.theta, sites)
            if fit.converged:
                there = observed.of_inputs(inputs[i : i + 1])
                log_z[i] = fit.log_evidence - self.log_evidence
                log_z[i] += there.log_normalizers(cavity_mean[i : i + 1], cavity_var[i : i + 1])[0]
        return log_z


def _compute_response(
    q: GaussianApproximation,
    observed: Observations,
    inputs: IntArray,
    changed_mean: FloatArray,
    changed_var: FloatArray,
) -> FloatArray:
    """Compute the change of log p of all other inputs when the rows of one input change; (m,).

    `changed_mean` and `changed_var` are the moments of f at each input after its change.

    The sites are held fixed. Log Z_EP is stationary in the sites, so that the sites of a new fit
    would change the result to second order only.
    """
    n = len(q.mean)
    before = None
    response = np.zeros(len(inputs))
    for some in split_entries(len(inputs), n):
        own = inputs[some]
        covariance = q.root[own] @ q.root.T
        var = q.marginal_variance
        slope = covariance / var[own][:, None]  # slope of E f given f at the input
        shift = slope * (changed_mean[some] - q.mean[own])[:, None]
        spread = slope**2 * (changed_var[some] - var[own])[:, None]
        change = np.maximum(np.abs(shift) / np.sqrt(var), np.abs(spread) / var)
        change[np.arange(len(own)), own] = 0.0
        which, others = np.nonzero(change > _LEAST_CHANGE)
        if not len(which):
            continue
        if before is None:
            before = _log_site_ratio(q, observed, np.arange(n), (q.mean, var))
        shifted = q.mean[others] + shift[which, others], var[others] + spread[which, others]
        after = _log_site_ratio(q, observed, others, shifted)
        response[some] = np.bincount(which, after - before[others], len(own))
    return response


def _log_site_ratio(
    q: GaussianApproximation,
    observed: Observations,
    inputs: IntArray,
    margins: tuple[FloatArray, FloatArray],
) -> FloatArray:
    """Log of the mean of (likelihood / site) at some inputs, under given margins of f."""
    sites = Sites(*(part[inputs] for part in q.sites))
    cavities = Cavities.of(margins, sites, q.prior.variance[inputs])
    mean, var = cavities.moments
    of_site = 0.5 * (sites.shift + cavities.shift) ** 2 / (sites.precision + cavities.precision)
    of_site -= 0.5 * cavities.shift * mean + 0.5 * np.log1p(sites.precision * var)
    return observed.of_inputs(inputs).log_normalizers(mean, var) - of_site


def _log_density_of_classes(
    q: ClasswiseApproximation, observed: Observations, query: DensityQuery
) -> FloatArray:
    """Average over fixed quadrature points of q without the removed share of the site.

    The points are weighted by the likelihood of the remaining rows, over the remaining share of the
    site. If no row remains at an input, the points belong to the cavity and have equal weights.
    """
    rows, kept, further = query
    inputs = observed.input_of_row[rows]
    weight = np.ones(len(observed)) if observed.weight is None else observed.weight
    total = np.bincount(observed.input_of_row, weight)[inputs]
    share = (total - weight[rows] + kept) / total
    share[share < np.finfo(float).eps * len(observed)] = 0.0
    n_classes = q.n_classes
    shift, slope, mean = (
        q.prior.split(part).T[inputs] for part in (q.sites.shift, q.weights, q.mean)
    )
    D = q.prior.split(q.precision).T[inputs]
    W = D[:, :, None] * (np.eye(n_classes) - (D / D.sum(axis=1, keepdims=True))[:, None, :])
    covariance = q.row_covariances[inputs]
    removed = (1.0 - share)[:, None, None] * W
    covariance = np.linalg.solve(np.eye(n_classes) - covariance @ removed, covariance)
    mean = mean - (1.0 - share)[:, None] * np.einsum("icd,id->ic", covariance, slope)
    values, vectors = np.linalg.eigh(0.5 * (covariance + np.swapaxes(covariance, 1, 2)))
    root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]  # negative by rounding alone
    f = mean[:, :, None] + root @ normal_points(n_classes, _LOG2_SOFTMAX_POINTS).T
    site = np.einsum("ic,ics->is", shift, f) - 0.5 * np.einsum("ics,icd,ids->is", f, W, f)
    log_p = f - log_sum(f, axis=1)[:, None, :]
    log_weight = _log_likelihood(observed, rows, kept, log_p) - share[:, None] * site
    target = log_p[np.arange(len(rows)), further.y.astype(np.intp)]
    log_density = further.weight[:, None] * target
    return log_sum(log_weight + log_density, axis=1) - log_sum(log_weight, axis=1)


def _log_likelihood(
    observed: Observations, rows: IntArray, kept: FloatArray, log_p: FloatArray
) -> FloatArray:
    """Log-likelihood of the remaining rows at some inputs, for log p of shape (m, C, S); (m, S)."""
    left, places = observed.reduce_each_weight(rows, kept)
    count = np.zeros(log_p.shape[:2])  # total weight of each class
    weight = np.ones(len(left)) if left.weight is None else left.weight
    np.add.at(count, (places[left.input_of_row], left.y.astype(np.intp)), weight)
    return np.asarray(np.einsum("ic,ics->is", count, log_p))
