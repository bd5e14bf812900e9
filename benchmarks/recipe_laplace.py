"""Two recipes beside GPBoost: Laplace's approximation at the best hyper-parameters, not averaged.

Run as ``python -m benchmarks.recipe_laplace [--only NAME ...] [--save]``, with ``OMP_NUM_THREADS=1
OPENBLAS_NUM_THREADS=1``; needs ``pip install gpboost``. Kernel and likelihood are the same; GPBoost
has no priors, and its linear effects are constants that are estimated, too. Rows are predicted by
fits without their fold, on the latent scale: the differences are the errors of GPBoost up to the
Monte Carlo error of ours. ``--save`` writes ``results/recipe_laplace.json``.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.model_selection import KFold

from .common import load_results, plain, print_table, save
from .development import load_table
from .recipes import RECIPES, load_csv

N_FOLDS = 5


@dataclass(frozen=True)
class Twin:
    """GPBoost's model of a recipe.

    Attributes
    ----------
    target : callable
        Gives the targets.
    place : list of str
        Columns of the Gaussian process.
    options : dict
        Its covariance function, and the likelihood.
    linear : list of str
        Columns of linear effects. Without them there is an intercept, as the counts of our fit are
        centered.
    exposure : str or None
        Column of the exposure.
    """

    target: Callable[[], pd.Series]
    place: list[str]
    options: dict[str, Any]
    linear: list[str] = field(default_factory=list)
    exposure: str | None = None

    def fit(self, table: pd.DataFrame, y: np.ndarray) -> Any:
        """Fit GPBoost's model by maximum likelihood."""
        import gpboost

        places = table[self.place].to_numpy()
        model = gpboost.GPModel(gp_coords=places, num_parallel_threads=1, **self.options)
        return model.fit(y, self.covariates(table), offset=self.offset(table))

    def predict(self, model: Any, table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the latent function, without the offset."""
        found = model.predict(
            gp_coords_pred=table[self.place].to_numpy(),
            X_pred=self.covariates(table),
            offset_pred=np.zeros(len(table)),
            predict_response=False,
            predict_var=True,
        )
        return found["mu"], found["var"]

    def covariates(self, table: pd.DataFrame) -> np.ndarray:
        """Columns of the linear effects, or ones."""
        return table[self.linear].to_numpy() if self.linear else np.ones((len(table), 1))

    def offset(self, table: pd.DataFrame) -> np.ndarray:
        """Log of the exposure."""
        if self.exposure is None:
            return np.zeros(len(table))
        return np.log(table[self.exposure].to_numpy(float))

    def of_rows(self, table: pd.DataFrame) -> dict[str, Any]:
        """Further arguments of our fit."""
        return {} if self.exposure is None else {"exposure": table[self.exposure]}


TWINS = {
    "counts": Twin(
        lambda: load_csv("rongelap")["counts"],
        ["x", "y"],
        {"cov_function": "exponential", "likelihood": "poisson"},
        exposure="seconds",
    ),
    "presence": Twin(
        lambda: load_table("DAAG", "frogs")["pres.abs"] == 1,
        ["northing", "easting"],
        {"cov_function": "matern", "cov_fct_shape": 1.5, "likelihood": "bernoulli_probit"},
        ["altitude", "distance", "NoOfPools", "avrain", "meanmin", "meanmax"],
    ),
}


def compare(twin: Twin, estimator: Any, table: pd.DataFrame, y: pd.Series) -> dict[str, Any]:
    """Predict each row by fits of both without its fold."""
    likelihood = estimator._sampling.run.models[0].model.likelihood
    moments = np.empty((2, 2, len(table)))  # of ours and of theirs, mean and variance
    log_density = np.empty((2, len(table)))
    for train, test in KFold(N_FOLDS, shuffle=True, random_state=0).split(table):
        known, new = table.iloc[train], table.iloc[test]
        ours = clone(estimator).fit(known, y.iloc[train], **twin.of_rows(known))
        theirs = twin.fit(known, y.iloc[train].to_numpy(float))
        moments[0, :, test] = np.transpose(ours.latent_mean_and_variance(new))
        moments[1, :, test] = np.transpose(twin.predict(theirs, new))
        log_density[0, test] = ours.log_predictive_density(new, y.iloc[test], **twin.of_rows(new))
        mean, variance = moments[1][:, test]
        # Classes are -1 and +1.
        signs = np.where(y.iloc[test], 1.0, -1.0) if y.dtype == bool else y.iloc[test]
        mean = mean + twin.offset(new)
        log_density[1, test] = likelihood.log_predictive(signs, mean, variance)
    (our_mean, our_variance), (mean, variance) = moments
    errors = np.abs(mean - our_mean) / np.sqrt(our_variance)
    ratios = np.sqrt(variance / our_variance)
    gain = log_density[0] - log_density[1]
    return {
        "mean_error": [np.median(errors), errors.max()],
        "sd_ratio": [ratios.min(), np.median(ratios), ratios.max()],
        "log_density": log_density.mean(axis=1),
        "gain": [gain.mean(), gain.std(ddof=1) / np.sqrt(len(gain))],
    }


def measure(name: str) -> dict[str, Any]:
    """Fit a recipe and its twin on all rows, and compare them."""
    twin = TWINS[name]
    start = time.process_time()
    estimator, table = RECIPES[name]()
    ours = time.process_time() - start
    y = twin.target()
    start = time.process_time()
    theirs = twin.fit(table, y.to_numpy(float))
    seconds = time.process_time() - start
    kernel_only = [h for h in estimator.hyperparameter_names_ if "slope_variance" not in h]
    summary = estimator.summary().loc[kernel_only, ["mean", "5%", "95%"]]
    optimum = theirs.get_cov_pars().to_numpy().ravel()
    found = {
        "rows": len(table),
        "seconds": [ours, seconds],
        "optimum": dict(zip(kernel_only, optimum, strict=True)),
        "posterior": summary.to_dict("index"),
        **compare(twin, estimator, table, y),
    }
    if twin.linear:
        effects = theirs.get_coef().to_numpy()[0]
        found["effects"] = dict(zip(twin.linear, effects, strict=True))
        found["our_effects"] = estimator.linear_effects()[["mean", "sd"]].to_dict("index")
    return found


def main() -> None:
    """Run what is asked for, print a table, and save it on request."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", choices=list(TWINS), default=list(TWINS))
    parser.add_argument("--save", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # the counts of the island are overdispersed
    results = load_results("recipe_laplace")
    for name in args.only:
        results[name] = plain(measure(name))
        print(name, results[name])
    keys = ("seconds", "mean_error", "sd_ratio", "log_density", "gain")
    rows = [[name, *(np.round(found[key], 3) for key in keys)] for name, found in results.items()]
    print_table(["recipe", *keys], rows)
    if args.save:
        settings = {"folds": N_FOLDS, "gpboost": version("gpboost")}
        save("recipe_laplace", settings, results)


if __name__ == "__main__":
    main()
