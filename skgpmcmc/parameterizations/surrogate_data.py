"""Surrogate data: f plus noise is held fixed, with the standardized f, while theta moves."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import ClassVar, NamedTuple

import numpy as np

from .._typing import FloatArray
from ..model.joint import GPState, LatentGP
from ..model.observations import Observations
from ..model.prior import GaussianPrior
from ..numerics import linalg
from .base import HyperPoint, Parameterization, half_traces

#: Least noise, in units of the prior variance.
_LEAST_NOISE = 1e-8
#: Largest noise, in the same unit.
_MOST_NOISE = 1e8
#: Step of central differences of the noise, in logs; the relative error is about 1e-8.
_NOISE_STEP = 1e-4


@dataclass(frozen=True)
class SurrogateData(Parameterization):
    """g ~ N(f, S) and eta, f = m + D eta, are held fixed, where p(f | g, theta) = N(m, D D').

    Both have one entry for each input. If K has less than full rank, D eta does not depend on some
    entries of eta, which are drawn afresh. theta has the density p(theta) N(g; 0, K + S)
    p(y | D eta + m). The noise variance S of an input is chosen such that g_i is as informative
    about f_i as y_i, by matching the variance of p(y_i | f_i) N(f_i; 0, K_ii). S is a function of
    theta. For large S the scheme approaches `AncillaryAugmentation`, for small S
    `SufficientAugmentation`.

    References
    ----------
    Murray & Adams (2010), *Slice sampling covariance hyperparameters of latent Gaussian models*;
    Filippone, Zhong & Girolami (2013), section 2.4.
    """

    name: ClassVar[str] = "surrogate data"

    def auxiliary(
        self, model: LatentGP, state: GPState, rng: np.random.Generator
    ) -> _SurrogateVariables:
        """Draw g given f, and standardize f given g."""
        factors = _SurrogateFactors.of(model, state.prior)
        g = state.f + np.sqrt(factors.noise) * rng.standard_normal(len(state.f))
        v = state.prior.whiten_by_input(state.f, rng)
        used = state.prior.root.pivots
        standardized = linalg.lower_product(factors.factor, v[used], transpose=True)
        v[used] = standardized - factors.whitened_shift(g)
        return _SurrogateVariables(g, v)

    def relocate(
        self, model: LatentGP, auxiliary: _SurrogateVariables, prior: GaussianPrior
    ) -> SurrogatePoint:
        """Return f = D eta + m under another prior."""
        factors = _SurrogateFactors.of(model, prior)
        g = auxiliary.g
        b = factors.whitened_shift(auxiliary.g)
        eta = auxiliary.eta[prior.root.pivots]
        w = linalg.solve_lower(factors.factor, eta + b, transpose=True)
        state = model.state_in(prior, prior.unwhiten(w))
        # log N(g; 0, K + S) by |K + S| = |S| |T T'| and the Woodbury formula.
        log_surrogate = (
            -0.5 * np.log(factors.noise).sum()
            - linalg.half_log_det(factors.factor)
            - 0.5 * (g * g / factors.noise).sum()
            + 0.5 * b @ b
        )
        log_density = state.log_lik + log_surrogate + model.hyperprior.log_prob(prior.theta)
        return SurrogatePoint(model, auxiliary, state, float(log_density), b, w)


class _SurrogateVariables(NamedTuple):
    """The variables that are held fixed."""

    g: FloatArray  # (n,), latent scale
    eta: FloatArray  # (n,), standard normal given g


class _SurrogateFactors(NamedTuple):
    """The noise S and the factor T of I + R'S^-1 R, which depend on theta but not on g."""

    prior: GaussianPrior
    noise: FloatArray  # (n,), S
    factor: FloatArray  # (r, r), T; D = R T'^-1

    @classmethod
    def of(cls, model: LatentGP, prior: GaussianPrior) -> _SurrogateFactors:
        """Return the noise and the factor at the theta of a prior, computed once."""

        def make() -> tuple[FloatArray, FloatArray]:
            noise = _match_noise(model.observations_at(prior.theta), prior.variance)
            return noise, prior.whitened_factor(np.sqrt(1.0 / noise))

        return cls(prior, *prior.remember((cls, model), make))

    def whitened_shift(self, g: FloatArray) -> FloatArray:
        """Return ``b = T^-1 R' S^-1 g``, so that m = R T'^-1 b."""
        return linalg.solve_lower(self.factor, self.prior.root.apply_transpose(g / self.noise))


def _match_noise(observed: Observations, variance: FloatArray) -> FloatArray:
    """Return S, 1 / S = 1 / (variance of p(y | f) N(f; 0, variance)) - 1 / variance; (n,)."""
    beta = observed.tilted_moments(np.zeros(len(variance)), variance).beta
    # The tilted variance is v - v^2 beta. If it is not below v, y has no information about f.
    noise = 1.0 / np.maximum(beta, 1.0 / ((1.0 + _MOST_NOISE) * variance)) - variance
    return np.asarray(np.maximum(noise, _LEAST_NOISE * variance))


class _NoiseSlopes(NamedTuple):
    """Derivatives of the noise of every input, which depend on theta but not on g."""

    in_variance: FloatArray  # (n,), with respect to K_ii
    in_parameters: FloatArray  # (k, n), with respect to the likelihood's parameters

    @classmethod
    def of(cls, model: LatentGP, prior: GaussianPrior) -> _NoiseSlopes:
        """Return the derivatives at the theta of a prior, by central differences."""
        variance = prior.variance
        observed = model.observations_at(prior.theta)
        up, down = (
            _match_noise(observed, variance * np.exp(h)) for h in (_NOISE_STEP, -_NOISE_STEP)
        )
        values = model.likelihood_theta(prior.theta)
        slopes = []
        for e in _NOISE_STEP * np.eye(len(values)):
            ends = (_match_noise(observed.with_parameters(values + h), variance) for h in (e, -e))
            slopes.append(np.subtract(*ends) / (2.0 * _NOISE_STEP))
        return cls(
            (up - down) / (2.0 * _NOISE_STEP * variance),
            np.reshape(slopes, (len(values), len(variance))),
        )


@dataclass(frozen=True, eq=False)
class SurrogatePoint(HyperPoint):
    """A point of theta at fixed surrogate data and standardized f.

    Attributes
    ----------
    b, w : ndarray of shape (r,)
        ``T^-1 R' S^-1 g`` and ``T'^-1 (eta + b)``, f being R w.
    """

    b: FloatArray
    w: FloatArray

    @property
    def _factors(self) -> _SurrogateFactors:
        return _SurrogateFactors.of(self.model, self.state.prior)

    @cached_property
    def _slopes(self) -> _NoiseSlopes:
        prior = self.state.prior
        key = _NoiseSlopes, self.model
        return prior.remember(key, lambda: _NoiseSlopes.of(self.model, prior))

    def _gradient(self) -> tuple[FloatArray, FloatArray]:
        """Return gradients, by reverse mode: f = R w, w = T'^-1 (eta + b), b = T^-1 R' S^-1 g."""
        prior, noise, T = self._factors
        g = self.auxiliary.g
        b = self.b
        w = self.w
        f_bar = self._observed.derivatives(self.state.f).first
        u_bar = linalg.solve_lower(T, prior.root.apply_transpose(f_bar))
        c_bar = linalg.solve_lower(T, u_bar + b, transpose=True)
        T_bar = -np.outer(w, u_bar) - np.outer(c_bar, b)
        linalg.add_to_diagonal(T_bar, -1.0 / T.diagonal())
        # T T' = I + R' S^-1 R
        A_bar = linalg.cholesky_pullback(T, T_bar)
        RA, of_precision = prior.gram_pullback(0.5 * (A_bar + A_bar.T))
        R_bar = np.outer(f_bar, w) + np.outer(g / noise, c_bar) + 2.0 * RA / noise[:, None]
        precision_bar = g * prior.unwhiten(c_bar) + 0.5 * (noise - g * g) + of_precision
        noise_bar = -precision_bar / noise**2
        through_noise = prior.contract(np.diag(noise_bar * self._slopes.in_variance))
        of_likelihood = self._parameter_scores.sum(axis=1) + self._slopes.in_parameters @ noise_bar
        return prior.root_gradient(R_bar) + through_noise, of_likelihood

    def _information(self) -> FloatArray:
        """Return the information of y, J'F J with J = df / dtheta, plus that of g ~ N(0, K + S)."""
        prior, noise, T = self._factors
        precision = prior.inverse_plus_noise(noise, T)
        # Derivatives of K (or None) and of the noise in each component of theta.
        slopes = self._slopes
        of_kernel = ((dK, slopes.in_variance * dK.diagonal()) for dK in prior.derivatives())
        of_likelihood = ((None, d_noise) for d_noise in slopes.in_parameters)
        moves = []
        parts = []
        for dK, d_noise in chain(of_kernel, of_likelihood):
            moves.append(self._push_forward(dK, d_noise))
            change = np.diag(d_noise) if dK is None else linalg.add_to_diagonal(dK, d_noise)
            parts.append(linalg.product(precision, change))
        J = np.reshape(moves, (len(moves), len(noise)))
        return (J * self._observed.fisher_information(self.state.f)) @ J.T + half_traces(parts)

    def _push_forward(self, dK: FloatArray | None, d_noise: FloatArray) -> FloatArray:
        """Return the change of f, by forward mode; (n,)."""
        prior, noise, T = self._factors
        g = self.auxiliary.g
        d_precision = -d_noise / noise**2
        dA = prior.gram(d_precision)
        dc = prior.root.apply_transpose(g * d_precision)
        df = np.zeros(len(g))
        if dK is not None:
            dR = prior.root_change(dK)
            cross = prior.root.apply_transpose(dR / noise[:, None])
            dA += cross + cross.T
            dc += dR.T @ (g / noise)
            df += dR @ self.w
        dT = linalg.lower_product(T, linalg.cholesky_pushforward(T, dA))
        db = linalg.solve_lower(T, dc - dT @ self.b)
        return df + prior.unwhiten(linalg.solve_lower(T, db - dT.T @ self.w, transpose=True))
