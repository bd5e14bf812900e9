"""What the default priors and likelihoods are for: data on which others did harm."""

import numpy as np
import pytest
from scipy.signal import savgol_filter
from sklearn.model_selection import KFold

from skgpmcmc import BayesianGPClassifier, BayesianGPCountRegressor

from ..helpers import seeded

pytestmark = pytest.mark.statistical


def deviance(y, mean):
    """Mean Poisson deviance."""
    return 2.0 * np.mean(y * np.log(np.where(y > 0.0, y, mean) / mean) - y + mean)


def test_over_dispersed_counts_are_predicted_better_than_by_their_mean(find_data):
    """Numbers of satellites of horseshoe crabs; a Poisson likelihood is worse than the mean."""
    table = np.genfromtxt(find_data("horseshoe_crabs.csv"), delimiter=",", skip_header=1)
    X, y = (table[:, :4] - table[:, :4].mean(axis=0)) / table[:, :4].std(axis=0), table[:, 4]
    for train, test in KFold(3, shuffle=True, random_state=0).split(X):
        model = BayesianGPCountRegressor(n_draws=400, random_state=seeded()).fit(X[train], y[train])
        ours, mean = (deviance(y[test], m) for m in (model.predict(X[test]), y[train].mean()))
        assert ours < mean


def test_default_priors_make_curves_as_smooth_as_a_moving_quadratic():
    """The example of the latent function: as smooth as its moving quadratic."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(-3.0, 3.0, size=40))
    y = 2.0 * np.cos(1.5 * x) + rng.standard_normal(40) > 0.0
    grid = np.linspace(-5.0, 5.0, 201)[:, None]

    def roughness(priors):
        model = BayesianGPClassifier(priors=priors, random_state=seeded()).fit(x[:, None], y)
        curve = model.latent_mean_and_variance(grid)[0]
        return np.sqrt(np.mean((curve - savgol_filter(curve, 7, 2)) ** 2))

    assert roughness(None) < 1e-3 < roughness("paper")


@pytest.mark.parametrize("data", ["alternating labels", "random labels"])
def test_default_chains_converge_on_data_without_a_signal(data):
    """Length-scales below the distance of neighbors made estimates of p(y | theta) useless."""
    rng = np.random.default_rng(seeded())
    if data == "alternating labels":
        X, y = np.linspace(-1.7, 1.7, 30)[:, None], np.arange(30) % 2
    else:
        X, y = rng.standard_normal((60, 2)), rng.integers(0, 2, size=60)
    model = BayesianGPClassifier(random_state=seeded()).fit(X, y)
    assert model.diagnostics_.r_hat.max() <= 1.01
