"""Likelihoods: how targets and latent values relate, point by point."""

from .base import Derivatives, Likelihood, TiltedMoments
from .bernoulli import Logit, Probit

__all__ = [
    "BERNOULLI_LIKELIHOODS",
    "Derivatives",
    "Likelihood",
    "Logit",
    "Probit",
    "TiltedMoments",
]

BERNOULLI_LIKELIHOODS: dict[str, type[Likelihood]] = {"probit": Probit, "logit": Logit}
