"""Tables of the recipes beside peers: NumPyro's NUTS, and GPBoost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rst_tables import FEWEST_EFFECTIVE, decimals, list_table, provenance, two

#: Chains of a peer with a larger R-hat have not converged: its seconds are a lower bound.
MAX_RHAT = 1.01


def recipe_peers(documents: Sequence[dict[str, Any]], part: str) -> list[str]:
    """Seconds to 400 effective draws of both, and the differences of their means."""
    (document,) = documents
    rows = []
    for name, found in document["results"].items():
        ours, nuts = found["ours"], found["nuts"]
        n_chains, n_warmup, n_draws = nuts["chains"]
        bound = "at least " if nuts["r_hat"] > MAX_RHAT else ""
        seconds = bound + decimals(nuts["seconds_to_400"], 0)
        ratio = bound + decimals(found["ratio"], 0 if found["ratio"] > 10.0 else 1)
        if nuts["ess"] < FEWEST_EFFECTIVE:
            spent = nuts["seconds_warmup"] + nuts["seconds_sampling"]
            seconds, ratio = f"not converged in {decimals(spent, 0)}", "none"
        rows.append(
            [
                name,
                decimals(ours["seconds_to_400"], 1),
                seconds,
                ratio,
                f"{n_chains} x ({n_warmup} + {n_draws})",
                decimals(nuts["ess"], 0),
                decimals(nuts["r_hat"], 3),
                two(found["largest_z"]),
                two(found["largest_z_latent"]),
            ]
        )
    head = ["recipe", "skgpmcmc, s", "NUTS, s", "ratio", "NUTS: chains x (warm-up + draws)"]
    head += ["effective draws", "R-hat", r"\|z\|, hyper-parameters", r"\|z\|, latent values"]
    return [*list_table("", head, rows), *provenance(document)]


def recipe_laplace(documents: Sequence[dict[str, Any]], part: str) -> list[str]:
    """Errors of the predictions of rows left out, or with "optimum" of the hyper-parameters."""
    (document,) = documents
    if part == "optimum":
        rows = [
            [
                name,
                parameter,
                decimals(own["mean"], 2),
                f"{decimals(own['5%'], 2)} to {decimals(own['95%'], 2)}",
                decimals(found["optimum"][parameter], 2),
            ]
            for name, found in document["results"].items()
            for parameter, own in found["posterior"].items()
        ]
        head = ["recipe", "hyper-parameter", "posterior mean", "90 %", "GPBoost"]
        return [*list_table("", head, rows), *provenance(document)]
    rows = []
    for name, found in document["results"].items():
        least, median, largest = found["sd_ratio"]
        gain, error = found["gain"]
        rows.append(
            [
                name,
                " and ".join(decimals(seconds, 1) for seconds in found["seconds"]),
                " and ".join(two(own) for own in found["mean_error"]),
                f"{two(median)} ({two(least)} to {two(largest)})",
                " and ".join(decimals(own, 3) for own in found["log_density"]),
                f"{gain:+.3f} ± {error:.3f}",
            ]
        )
    head = ["recipe", "seconds, ours and GPBoost's", "error of means: median and largest"]
    head += ["ratio of sds: median (range)", "log density, ours and GPBoost's", "difference"]
    return list_table("", head, rows)
