"""Wrong twins of the integrated evidence, which the comparison with quadrature must catch."""

from dataclasses import replace

import numpy as np
import pytest

from skgpmcmc.approximations import EP
from skgpmcmc.model import HyperPrior
from skgpmcmc.transitions import RandomWalk
from skgpmcmc.transitions.pseudo_marginal import PseudoMarginalMetropolis

from ..exactness.test_evidence import noisy_z, regression_z
from ..exactness.test_joint import NoJacobian
from ..helpers import Z_LIMIT


class NotNormalized(HyperPrior):
    """A gamma density without its constant, as a chain would not notice."""

    def log_prob(self, theta):
        return super().log_prob(theta) + np.log(1.5**2)


@pytest.mark.parametrize("wrong", [HyperPrior, NoJacobian, NotNormalized])
def test_quadrature_catches_an_evidence_with_a_wrong_prior(wrong):
    def change(model):
        prior = model.hyperprior
        return replace(model, hyperprior=wrong(prior.names, prior.distributions))

    z = 2.0 * abs(regression_z(change, n_seeds=4).mean())
    assert (z < Z_LIMIT) == (wrong is HyperPrior)


class MeanOfLogs(PseudoMarginalMetropolis):
    """The mean of log weights in the place of the log of their mean."""

    def log_target(self, state):
        return state.log_hyperprior + float(state.estimate.log_weights.mean())


def test_quadrature_catches_an_evidence_by_a_mean_of_logs():
    assert noisy_z(MeanOfLogs(EP(), RandomWalk(0.0), 32, 0.05), n_seeds=2) < -Z_LIMIT
