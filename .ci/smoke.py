"""What an installed copy must do: each kind of model is fitted, predicts and is pickled."""

import pickle
from importlib.metadata import version
from importlib.resources import files

import numpy as np

import skgpmcmc

assert version("skgpmcmc") == skgpmcmc.__version__
assert (files("skgpmcmc") / "py.typed").is_file()
rng = np.random.default_rng(0)
X = rng.standard_normal((25, 2))
f = np.sin(X[:, 0]) + X[:, 1]
targets = {
    "BayesianGPClassifier": f > 0.0,
    "BayesianGPOrdinalClassifier": np.digitize(f, [-0.5, 0.5]),
    "BayesianGPCountRegressor": rng.poisson(np.exp(f) * rng.gamma(2.0, 0.5, 25)),
    "BayesianGPPoissonRegressor": rng.poisson(np.exp(f)),
    "BayesianGPRegressor": f + 0.1 * rng.standard_normal(25),
    "BayesianGPVolatilityRegressor": np.exp(0.5 * f) * rng.standard_normal(25),
}
for name, y in targets.items():
    model = getattr(skgpmcmc, name)(random_state=0).fit(X, y)
    restored = pickle.loads(pickle.dumps(model))
    predict = "predict_proba" if hasattr(model, "predict_proba") else "predict"
    prediction = getattr(model, predict)(X)
    assert np.isfinite(prediction).all(), name
    assert np.array_equal(prediction, getattr(restored, predict)(X)), name
    assert (model.diagnostics_.r_hat < 1.02).all(), name
print("skgpmcmc", skgpmcmc.__version__, "works with numpy", np.__version__)
