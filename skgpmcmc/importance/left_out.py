"""Log densities of targets at theta that are not among the data, with f integrated out.

A Gaussian approximation q(f) knows the data by one Gaussian site for each input. Without the site
of an input its margin there is the cavity: what all other inputs say about f. With the cavity, the
rows of the input are integrals over one latent value, so that one of them can be left out, or
another target be added, while the sites of the other inputs stay as they are. With Gaussian noise
this is exact. EP would find other sites if it was fitted again. As its log evidence is stationary
in them, the ratio of two of them at the same sites is right to first order: that is the density
under the cavity, times the changes of the other inputs' terms. Where these are large, EP is fitted
again. The Laplace approximation has no such property, and its densities are those of its cavities.

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
    ApproximationFit,
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
from ..numerics.linalg import log_sum
from .density import ReferenceDensity
from .interpolated import InterpolatedSites

#: Largest tolerance of EP and Laplace: cavities depend on all sites to first order.
_LARGEST_TOLERANCE = 1e-3
#: Change of a margin, in its standard deviations, below which other inputs do not respond: what
#: they would add is of third order in it, in all less than 0.001 nats for 173 counts.
_NO_CHANGE = 0.1
#: Response of all other inputs, in nats, above which first order is not enough.
_STRONG = 0.15
#: Log2 of the number of points at which the classes of a softmax are averaged.
_LOG2_SOFTMAX_POINTS = 9


class Query(NamedTuple):
    """A target whose density is asked for at the input of a row, given what is left of the data."""

    rows: IntArray  # (m,), positions of rows of the model; they may repeat
    kept: FloatArray  # (m,), the weight that each row keeps among the data
    further: ExtraTargets  # the targets


class Settled(NamedTuple):
    """The Gaussian approximation of f given all of the data, at one theta."""

    model: LatentGP
    q: GaussianApproximation
    log_evidence: float  # natural log
    again: EP | None  # what finds it for other data, starting near its sites; None if not EP

    @classmethod
    def at(cls, model: LatentGP, theta: FloatArray, reference: ReferenceDensity | None) -> Settled:
        """Return q(f) at theta, iterated until it settles.

        With Gaussian noise it is the exact posterior; for a softmax the Gaussian of
        `average_sites`. For any other likelihood it comes from the approximation that the chains
        use, and from EP where they use none.

        Parameters
        ----------
        model : LatentGP
            With any likelihood.
        theta : ndarray of shape (p,)
            Natural logs.
        reference : ReferenceDensity or None
            What the chains use. If it interpolates sites, the iterations start from these.
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
        again = approximation if isinstance(approximation, EP) and converged else None
        return cls(model, q, log_evidence, again)

    @property
    def observed(self) -> Observations:
        """The data, with the likelihood at theta."""
        return self.model.observations_at(self.q.prior.theta)

    def log_density_given(self, query: Query) -> FloatArray:
        """Log density of further targets, given all of the data but what their rows do not keep.

        Returns
        -------
        ndarray of shape (m,)
            Natural logs; a target of weight w stands for its density to the power w.
        """
        if isinstance(self.q, ClasswiseApproximation):
            return _of_classes(self.q, self.observed, query)
        return self._log_normalizer(query, query.further) - self._log_normalizer(query, None)

    def _log_normalizer(self, query: Query, further: ExtraTargets | None) -> FloatArray:
        """Log p(what is left, and further targets), up to what it is without the inputs; (m,)."""
        q = self.q
        observed = self.observed
        inputs = observed.input_of_row[query.rows]
        cavities = (part[inputs] for part in q.cavities().moments)
        changed = _Changed.of(
            *observed.reduce_each_weight(query.rows, query.kept, further), *cavities
        )
        if self.again is None:
            return changed.log_z
        response = _response(q, observed, inputs, changed)
        weak = np.abs(response) <= _STRONG  # and a number
        log_z = changed.log_z + np.where(np.isfinite(response), response, 0.0)
        for i in np.flatnonzero(~weak):
            row = int(query.rows[i])
            kept = float(query.kept[i])
            own = None if further is None else ExtraTargets(*(part[i : i + 1] for part in further))
            fit = self._again(*observed.reduce_weight(row, kept, own))
            if fit.converged:
                there = observed.of_inputs(inputs[i : i + 1])
                mean, var = (part[inputs[i : i + 1]] for part in q.cavities().moments)
                log_z[i] = fit.log_evidence - self.log_evidence
                log_z[i] += there.log_normalizers(mean, var)[0]
        return log_z

    def _again(self, observed: Observations, inputs: IntArray) -> ApproximationFit:
        """Fit EP to other data at some of the inputs."""
        assert self.again is not None
        model = self.model.of_inputs(inputs)
        model = replace(model, observations=observed)
        start = Sites(*(part[inputs] for part in self.q.sites))
        return self.again.fit(model, self.q.prior.theta, start)


class _Changed(NamedTuple):
    """Inputs with other rows than they had, one at a time."""

    log_z: FloatArray  # (m,), log normalizers of cavities times the likelihood of these rows
    mean: FloatArray  # (m,), of f at the input
    var: FloatArray  # (m,), of f at the input

    @classmethod
    def of(
        cls, observed: Observations, places: IntArray, mean: FloatArray, var: FloatArray
    ) -> _Changed:
        """Return what is observed at some places, and the cavity elsewhere."""
        log_z = np.zeros(len(mean))
        mean = mean.copy()
        var = var.copy()
        if len(places):
            own = var[places]
            log_z[places], alpha, beta = observed.tilted_moments(mean[places], own)
            mean[places] += own * alpha
            var[places] = own * np.maximum(1.0 - own * beta, np.finfo(float).eps)
        return cls(log_z, mean, var)


def _response(
    q: GaussianApproximation, observed: Observations, inputs: IntArray, changed: _Changed
) -> FloatArray:
    """How much log p of all other inputs changes with the rows of one; (m,).

    Sites stay as they are. Log Z_EP does not change with them to first order, so what they would
    become if EP was fitted again matters to second order only.
    """
    covariance = q.root[inputs] @ q.root.T
    var = q.marginal_variance
    slope = covariance / var[inputs][:, None]  # of f given f at the input
    shift = slope * (changed.mean - q.mean[inputs])[:, None]
    spread = slope**2 * (changed.var - var[inputs])[:, None]
    change = np.maximum(np.abs(shift) / np.sqrt(var), np.abs(spread) / var)
    change[np.arange(len(inputs)), inputs] = 0.0
    which, others = np.nonzero(change > _NO_CHANGE)
    if not len(which):
        return np.zeros(len(inputs))
    shifted = q.mean[others] + shift[which, others], var[others] + spread[which, others]
    before = _log_ratio(q, observed, np.arange(len(var)), (q.mean, var))
    after = _log_ratio(q, observed, others, shifted)
    return np.asarray(np.bincount(which, after - before[others], len(inputs)), dtype=float)


def _log_ratio(
    q: GaussianApproximation,
    observed: Observations,
    inputs: IntArray,
    margins: tuple[FloatArray, FloatArray],
) -> FloatArray:
    """Log of the mean of likelihood over site at some inputs, f having these margins."""
    sites = Sites(*(part[inputs] for part in q.sites))
    cavities = Cavities.of(margins, sites, q.prior.variance[inputs])
    mean, var = cavities.moments
    of_site = 0.5 * (sites.shift + cavities.shift) ** 2 / (sites.precision + cavities.precision)
    of_site -= 0.5 * cavities.shift * mean + 0.5 * np.log1p(sites.precision * var)
    return observed.of_inputs(inputs).log_normalizers(mean, var) - of_site


def _of_classes(q: ClasswiseApproximation, observed: Observations, query: Query) -> FloatArray:
    """Average over fixed points of q without the share of the site that is not kept.

    The points are weighted by the likelihood of what is left, over the share of the site that
    stands for it; where nothing is left they are of the cavity, and have equal weights.
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
    f = mean[:, :, None] + _root(covariance) @ normal_points(n_classes, _LOG2_SOFTMAX_POINTS).T
    site = np.einsum("ic,ics->is", shift, f) - 0.5 * np.einsum("ics,icd,ids->is", f, W, f)
    log_p = f - log_sum(f, axis=1)[:, None, :]
    log_weight = _log_likelihood(observed, rows, kept, log_p) - share[:, None] * site
    target = log_p[np.arange(len(rows)), further.y.astype(np.intp)]
    log_density = further.weight[:, None] * target
    return log_sum(log_weight + log_density, axis=1) - log_sum(log_weight, axis=1)


def _log_likelihood(
    observed: Observations, rows: IntArray, kept: FloatArray, log_p: FloatArray
) -> FloatArray:
    """Log-likelihood of what is left at the inputs of some rows, for log p (m, C, S); (m, S)."""
    left, places = observed.reduce_each_weight(rows, kept)
    count = np.zeros(log_p.shape[:2])  # of each class
    weight = np.ones(len(left)) if left.weight is None else left.weight
    np.add.at(count, (places[left.input_of_row], left.y.astype(np.intp)), weight)
    return np.asarray(np.einsum("ic,ics->is", count, log_p))


def _root(covariance: FloatArray) -> FloatArray:
    """Return a root of each symmetric matrix; what rounding made negative counts as zero."""
    values, vectors = np.linalg.eigh(0.5 * (covariance + np.swapaxes(covariance, 1, 2)))
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :])
