"""``.. benchmark-table:: NAME [PART]``: tables made from benchmarks/results/NAME.json.

They are made when the documentation is built. NAME may hold ``*``: every file that matches adds its
rows. What a file looks like decides which tables it gives, and PART picks one of several; what is
not there gives a sentence that says so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from docutils import nodes
from fit_tables import concurrency, memory, step_many, tuned_svm
from many_rows_tables import clusters, many_rows, spatial
from paper_tables import annealed_noise, comparative, fast_approximations, rmhmc
from recipe_tables import recipe_laplace, recipe_peers
from rst_tables import FEWEST_EFFECTIVE, decimals, list_table, provenance, two
from set_up_tables import SetUpNumbers, default_fits, many_lengths, rare_stays
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from study_tables import classifiers, classifiers_default, pseudo_marginal

from skgpmcmc.compare.methods import PLAIN_NAMES, MethodOutcome
from skgpmcmc.compare.table import conclusion

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"

#: Rows of the tables of sampling, in this order; others come last.
CASES = ("sim2", "sim10", "pima", "cancer", "ard10", "ionosphere")
CASES += ("poisson", "negative_binomial", "ordinal", "machine_cpu", "softmax", "volatility")
CASES += ("student_t", "regression")

#: Columns of a comparison of classifiers.
SCORES = ("accuracy", "log_loss", "selective_accuracy", "capacity_accuracy", "seconds")


def table_lines(name: str, results: Path = RESULTS, part: str = "cost") -> list[str]:
    """Source lines of the tables of all files that match a name, or of a part of them."""
    paths = sorted(results.glob(f"{name}.json"))
    if not paths:
        return [f"*The file* ``benchmarks/results/{name}.json`` *is not there yet.*", ""]
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    if "runs" in documents[0]:
        return [line for document in documents for line in _comparison(_in_plain_words(document))]
    if documents[0]["benchmark"].startswith("convergence"):
        return _convergence(documents)
    for start, tables in _BY_NAME.items():
        if documents[0]["benchmark"].startswith(start):
            return tables(documents, part)
    return [line for document in documents for line in _estimator_noise(document)]


# --- one function per kind of file ----------------------------------------------------------------


def _estimator_noise(document: dict[str, Any]) -> list[str]:
    """Standard deviation of the log estimate: Pima, and the median of the simulated data."""
    results = document["results"]
    sizes = list(results[0]["log_sd"])
    rows = []
    for approximation in dict.fromkeys(r["approximation"] for r in results):
        mine = [r for r in results if r["approximation"] == approximation]
        pima = [r for r in mine if r["data"] == "pima"]
        simulated = [r["log_sd"] for r in mine if r["data"] != "pima"]
        rows += [["Pima", approximation, *(two(r["log_sd"][n]) for n in sizes)] for r in pima]
        ranges = [
            f"{two(np.median(v))} ({two(min(v))} to {two(max(v))})"
            for v in ([s[n] for s in simulated] for n in sizes)
        ]
        rows.append([f"simulated, median of {len(simulated)} (range)", approximation, *ranges])
    head = ["data", "approximation", *(f"N = {n}" for n in sizes)]
    return [*list_table("", head, sorted(rows)), *provenance(document)]


def _convergence(documents: Sequence[dict[str, Any]]) -> list[str]:
    """Convergence of the chains per hyper-parameter, and the cost of a run."""
    lines = []
    for document in documents:
        settings, r = document["settings"], document["results"]
        parameters = []
        columns = ("posterior_mean_log", "posterior_sd_log", "r_hat", "ess_bulk", "ess_tail")
        for j, name in enumerate(r["hyperparameters"]):
            mean, sd, r_hat, bulk, tail = (r[column][j] for column in columns)
            parameters.append(
                [name, two(mean), two(sd), f"{r_hat:.3f}", f"{bulk:.0f}", f"{tail:.0f}"]
            )
        n_kept = settings["n_chains"] * settings["n_draws"]
        cost = [
            f"{settings['n_chains']} x ({settings['n_warmup']} + {settings['n_draws']})",
            two(r["log_likelihood_sd"][0]),
            f"{min(r['ess_bulk']) / n_kept:.3f}",
            f"{r['seconds_warmup']:.0f} + {r['seconds_sampling']:.0f}",
        ]
        head = ["hyper-parameter", "mean (log)", "sd (log)", "R-hat", "ESS bulk", "ESS tail"]
        cost_head = ["chains x (warm-up + draws)", "noise (sd)", "ESS per kept draw"]
        cost_head += ["seconds, warm-up + sampling"]
        run = f"{settings['sampler']}, {settings['approximation']}"
        lines += list_table(f"Posterior and convergence: {run}", head, parameters)
        lines += list_table(f"Cost: {run}", cost_head, [cost])
    return [*lines, *provenance(documents[0])]


def _in_plain_words(document: dict[str, Any]) -> dict[str, Any]:
    """Call the methods of a comparison as `skgpmcmc compare` does now."""
    runs = [
        run | {"method": PLAIN_NAMES.get(run["method"], run["method"])} for run in document["runs"]
    ]
    return document | {"runs": runs}


def _comparison(document: dict[str, Any]) -> list[str]:
    """Mean and standard error over splits by data and method, and convergence of the chains."""
    runs = document["runs"]
    lines = []
    for data in dict.fromkeys(run["data"] for run in runs):
        scores, chains = [], []
        first = next(run for run in runs if run["data"] == data)
        for method in dict.fromkeys(run["method"] for run in runs if run["data"] == data):
            mine = [run for run in runs if run["data"] == data and run["method"] == method]
            scores.append([method, *(_mean_and_error(mine, score) for score in SCORES)])
            reports = [run["convergence"] for run in mine if run["convergence"] is not None]
            if reports:
                chains.append(
                    [
                        method,
                        f"{max(max(c['r_hat']) for c in reports):.3f}",
                        f"{min(min(c['ess_bulk']) for c in reports):.0f}",
                        two(max(max(c["log_likelihood_sd"]) for c in reports)),
                    ]
                )
        n_splits = len({run["split"] for run in runs if run["data"] == data})
        splits = f"{n_splits} split{'s' * (n_splits > 1)}"
        size = f"{first['n_train']} training and {first['n_test']} test rows"
        score_head = ["method", *(score.replace("_", " ") for score in SCORES)]
        chain_head = ["method", "largest R-hat", "smallest bulk ESS", "largest noise (sd)"]
        lines += list_table(f"{data}: {size}, {splits}", score_head, scores)
        lines += [_conclusion([run for run in runs if run["data"] == data]), ""]
        lines += list_table(f"{data}: chains, the worst over all splits", chain_head, chains)
    return [*lines, *provenance(document)]


def _conclusion(runs: Sequence[dict[str, Any]]) -> str:
    """What the command says below its table of a data set."""
    outcomes = [
        MethodOutcome(
            run["method"],
            run["split"],
            {k: np.nan if v is None else v for k, v in run["scores"].items()},
            None,
            failure=run.get("failure"),
        )
        for run in runs
    ]
    return conclusion(outcomes)


def _mean_and_error(runs: Sequence[dict[str, Any]], score: str) -> str:
    if not any(score in r["scores"] for r in runs):
        return "-"  # the file is older than the score
    values = [np.nan if r["scores"][score] is None else r["scores"][score] for r in runs]
    return _average(values, 1 if score == "seconds" else 3)


def _average(each: npt.ArrayLike, digits: int) -> str:
    """Mean ± standard error."""
    values = np.asarray(each, dtype=float)
    mean = values.mean()
    if np.isnan(mean):
        return "undefined"
    if len(values) == 1:
        return f"{mean:.{digits}f}"
    return f"{mean:.{digits}f} ± {values.std(ddof=1) / np.sqrt(len(values)):.{digits}f}"


def _shrinking(documents: Sequence[dict[str, Any]], part: str) -> list[str]:
    """Scores of probabilities that are moved towards one half."""
    results = documents[0]["results"]
    scores = ("accuracy", "log_loss", "selective_accuracy", "capacity_accuracy", "capacity_auc")
    rows = [
        [data, scale, *(_average([s[score] for s in splits], 4) for score in scores)]
        for data, by_scale in results.items()
        for scale, splits in by_scale.items()
    ]
    head = ["data", "logits times", *(score.replace("_", " ") for score in scores)]
    return [*list_table("", head, rows), *provenance(documents[0])]


# --- sampling -------------------------------------------------------------------------------------


def _sampling(documents: Sequence[dict[str, Any]], part: str) -> list[str]:
    """Render one of the tables of benchmarks/sampling.py and benchmarks/models.py."""
    by_case = {document["results"]["case"]: document for document in documents}
    order = [*(case for case in CASES if case in by_case), *by_case]
    documents = [by_case[case] for case in dict.fromkeys(order)]
    results = [document["results"] | {"title": _title(document)} for document in documents]
    lines = {
        "cost": _sampling_cost,
        "seconds": _sampling_seconds,
        "quadrature": _sampling_quadrature,
        "papers": _sampling_papers,
        "nuts": _sampling_nuts,
        "speed": _sampling_speed,
        "pymc": _sampling_pymc,
        "sklearn": _sampling_sklearn,
    }[part](results)
    lines = lines or ["*Not measured yet.*", ""]
    return [*lines, *(_all_made_with(documents) if part == "cost" else [])]


def _title(document: dict[str, Any]) -> str:
    """What the data are, and the priors unless they are the papers'."""
    results = document["results"]
    of_package = results["case"].endswith("_default_priors")
    return str(results["title"]) + (", default priors" if of_package else "")


def _all_made_with(documents: Sequence[dict[str, Any]]) -> list[str]:
    """What the rows were made with: one sentence if it is the same for all."""
    by_source: dict[str, list[str]] = {}
    for document in documents:
        made = provenance(document, settings=False)[0]
        by_source.setdefault(made, []).append(_title(document))
    if len(by_source) == 1:
        return [*by_source, ""]
    return [line for made, of in by_source.items() for line in (f"*{'; '.join(of)}*: {made}", "")]


def _median_and_worst(
    runs: Iterable[dict[str, Any]], key: str, digits: int, *, large_is_good: bool
) -> str:
    worst = -np.inf if large_is_good else np.inf
    values = [worst if run[key] is None else run[key] for run in runs]
    if len(values) == 1:
        return decimals(values[0], digits)
    extreme = min(values) if large_is_good else max(values)
    return f"{decimals(float(np.median(values)), digits)} ({decimals(extreme, digits)})"


def _sampling_cost(results: Sequence[dict[str, Any]]) -> list[str]:
    rows = []
    for r in results:
        runs = list(r["ours"].values())
        if not runs:
            continue
        targets = r["targets"]
        rows.append(
            [
                r["title"],
                str(len(runs)),
                _median_and_worst(runs, "per_evaluation", 2, large_is_good=True),
                decimals(targets["per_evaluation"], 2),
                _median_and_worst(runs, "per_operation", 3, large_is_good=True),
                decimals(targets["per_operation"], 2),
                _median_and_worst(runs, "max_r_hat", 3, large_is_good=False),
            ]
        )
    head = ["data", "runs", "effective draws per evaluation", "target"]
    head += ["per O(n^3) operation", "target", "R-hat"]
    return list_table("Effective draws: median (worst) of the runs", head, rows)


def _sampling_seconds(results: Sequence[dict[str, Any]]) -> list[str]:
    rows = []
    for r in results:
        runs = list(r["ours"].values())
        if not runs:
            continue
        shares = [run["seconds_processor"] / run["seconds_total"] for run in runs]
        rows.append(
            [
                r["title"],
                _median_and_worst(runs, "ms_per_evaluation", 1, large_is_good=False),
                _median_and_worst(runs, "seconds_before", 1, large_is_good=False),
                _median_and_worst(runs, "seconds_to_1000", 1, large_is_good=False),
                two(np.median(shares)) + (f" ({two(min(shares))})" if len(shares) > 1 else ""),
            ]
        )
    head = ["data", "ms per evaluation", "set-up and warm-up, s"]
    head += ["seconds to 1000 effective draws", "processor time / wall time"]
    return list_table("Seconds on one core: median (worst) of the runs", head, rows)


def _sampling_quadrature(results: Sequence[dict[str, Any]]) -> list[str]:
    rows = []
    for r in results:
        for seed, run in sorted(r["ours"].items()):
            gap = run.get("against_quadrature")
            if gap is None:
                continue
            exact = r["reference"].get(seed if r["simulated"] else "all")
            error = None
            if exact is not None:
                errors, sd = np.array(list(exact["error"].values())), exact["value"]["sd"]
                error = float((errors / sd).max())
            rows.append(
                [
                    r["title"],
                    seed,
                    decimals(gap["largest_z"], 2),
                    decimals(gap["largest_difference_in_sd"], 3),
                    decimals(error, 4),
                ]
            )
    head = ["data", "seed", "largest absolute z", "largest difference, posterior sd"]
    head += ["largest error of the reference, posterior sd"]
    return list_table("Means, standard deviations, 5 and 95 % quantiles", head, rows)


def _sampling_papers(results: Sequence[dict[str, Any]]) -> list[str]:
    rows = []
    for r in results:
        schemes = dict.fromkeys(run["scheme"] for run in r["papers"].values())
        for scheme in schemes:
            runs = [run for run in r["papers"].values() if run["scheme"] == scheme]
            rows.append(
                [
                    r["title"],
                    scheme,
                    _median_and_worst(runs, "min_ess", 0, large_is_good=True),
                    _median_and_worst(runs, "max_r_hat", 3, large_is_good=False),
                    _median_and_worst(runs, "per_operation", 4, large_is_good=True),
                    _median_and_worst(runs, "seconds_to_1000", 0, large_is_good=False),
                ]
            )
    head = ["data", "scheme", "ESS", "R-hat", "effective draws per O(n^3) operation"]
    head += ["seconds to 1000 effective draws"]
    return list_table("Schemes of the papers: median (worst) of several runs", head, rows)


def _sampling_speed(results: Sequence[dict[str, Any]]) -> list[str]:
    """Seconds to 1000 effective draws, of NUTS in the same run, and of one optimum."""
    rows = []
    for r in results:
        for seed, run in sorted(r["nuts"].items()):
            ours = f"{run['ours_seconds_to_1000']:.0f} s"
            ours += "" if run["ours_converged"] else " (not converged)"
            optimum = r["sklearn"].get("0")
            rows.append(
                [
                    r["title"],
                    ours,
                    *_of_peer(run),
                    *_of_peer(r.get("pymc", {}).get(seed)),
                    "not run" if optimum is None else f"{optimum['seconds']:.2f} s",
                ]
            )
    head = ["data", "skgpmcmc", "NumPyro's NUTS", "ratio", "PyMC's NUTS", "ratio"]
    head += ["scikit-learn, one optimum"]
    return list_table("Seconds to 1000 effective draws", head, rows)


def _of_peer(run: dict[str, Any] | None) -> list[str]:
    """Seconds to 1000 effective draws, and the ratio to ours of the same run."""
    if run is None:
        return ["not run", "none"]
    if run["min_ess"] < FEWEST_EFFECTIVE:
        seconds = run["seconds_warmup"] + run["seconds_sampling"]
        return [f"not converged in {seconds:.0f} s", "none"]
    bound = "at least " if run["lower_bound"] else ""
    return [f"{bound}{run['seconds_to_1000']:.0f} s", f"{bound}{run['ratio']:.0f}"]


def _sampling_nuts(results: Sequence[dict[str, Any]]) -> list[str]:
    rows = []
    for r in results:
        for run in r["nuts"].values():
            bound = "at least " if run["lower_bound"] else ""
            of_processor = run.get("ratio_of_processor_seconds")
            done, wanted = min(run["n_warmup"]), run["n_warmup_wanted"]
            rows.append(
                [
                    r["title"],
                    f"{run['seconds_warmup']:.0f} s"
                    + ("" if run["warmup_complete"] else f", incomplete ({done} of {wanted})"),
                    decimals(run["min_ess"], 0),
                    decimals(run["max_r_hat"], 3),
                    bound + decimals(run["seconds_to_1000"], 0),
                    decimals(run["ours_seconds_to_1000"], 1)
                    + ("" if run["ours_converged"] else " (not converged)"),
                    bound + decimals(run["ratio"], 0),
                    decimals(r["targets"]["times_faster"], 0),
                    "none" if of_processor is None else bound + decimals(of_processor, 0),
                ]
            )
    head = ["data", "warm-up", "ESS", "R-hat", "NUTS: seconds to 1000", "skgpmcmc", "ratio"]
    head += ["target", "ratio of processor seconds"]
    return list_table("NumPyro's NUTS and the default sampler, in one run", head, rows)


def _sampling_pymc(results: Sequence[dict[str, Any]]) -> list[str]:
    rows = []
    for r in results:
        for run in r.get("pymc", {}).values():
            bound = "at least " if run["lower_bound"] else ""
            rows.append(
                [
                    r["title"],
                    decimals(run["seconds_warmup"], 0),
                    decimals(run["min_ess"], 0),
                    decimals(run["max_r_hat"], 3),
                    bound + decimals(run["seconds_to_1000"], 0),
                    decimals(run["ours_seconds_to_1000"], 1),
                    bound + decimals(run["ratio"], 0),
                ]
            )
    versions = {run["version"] for r in results for run in r.get("pymc", {}).values()}
    title = f"NUTS of PyMC {', '.join(sorted(versions))} and the default sampler, in one run"
    head = ["data", "warm-up, s", "ESS", "R-hat", "NUTS: seconds to 1000", "skgpmcmc", "ratio"]
    return list_table(title, head, rows)


def _sampling_sklearn(results: Sequence[dict[str, Any]]) -> list[str]:
    rows = [
        [
            r["title"],
            f"{run['n_train']} and {run['n_test']}",
            decimals(run["seconds"], 1),
            decimals(run["ours_seconds"], 1),
            decimals(run["log_loss"], 3),
            decimals(run["ours_log_loss"], 3),
        ]
        for r in results
        for run in r["sklearn"].values()
    ]
    head = ["data", "training and test rows", "fit, s", "our fit, s", "log loss", "our log loss"]
    return list_table("scikit-learn's Laplace GPC", head, rows)


# --- errors of predictions ------------------------------------------------------------------------


def _regression(documents: Sequence[dict[str, Any]], part: str) -> list[str]:
    """Scores of regression, and their paired differences."""
    rows = []
    for data, r in documents[0]["results"].items():
        methods = list(r["methods"])
        for score, title in (("nlpd", "negative log density"), ("rmse", "RMSE")):
            ours, theirs = ([run[score] for run in runs] for runs in r["methods"].values())
            rows.append(
                [
                    data,
                    f"{r['n_train']} and {r['n_test']}",
                    title,
                    _average(ours, 3),
                    _average(theirs, 3),
                    _average(np.subtract(ours, theirs), 3),
                ]
            )
    head = ["data", "training and test rows", "score", *methods, "paired difference"]
    return [*list_table("", head, rows), *provenance(documents[0])]


def _ordinal(documents: Sequence[dict[str, Any]], part: str) -> list[str]:
    """Errors of ordered classes by data and method."""
    rows = []
    for data, r in documents[0]["results"].items():
        for method, runs in r["methods"].items():
            rows.append(
                [
                    data.replace("_", " "),
                    f"{r['n_train']} and {r['n_test']}, {len(runs)}",
                    method,
                    *(_average([run[key] for run in runs], 3) for key in ("zero_one", "absolute")),
                ]
            )
    head = ["data", "training and test rows, splits", "method"]
    head += ["mean zero-one error", "mean absolute error"]
    return [*list_table("", head, rows), *provenance(documents[0])]


def _multiclass(documents: Sequence[dict[str, Any]], part: str) -> list[str]:
    """Scores of methods for several classes."""
    rows = []
    for data, r in documents[0]["results"].items():
        methods = r["methods"]
        for score, title, digits in (
            ("log_loss", "log loss", 3),
            ("accuracy", "accuracy", 3),
            ("seconds", "seconds", 1),
        ):
            each = [_average([run[score] for run in runs], digits) for runs in methods.values()]
            rows.append([data, f"{r['n_classes']}, {r['n_train']}", title, *each])
        chains = [runs for runs in methods.values() if "max_r_hat" in runs[0]]
        largest = [f"{max(run['max_r_hat'] for run in runs):.3f}" for runs in chains]
        missing = [""] * (len(methods) - len(chains))
        rows.append([data, "", "largest R-hat", *largest, *missing])
    head = ["data", "classes, training rows", "", *methods]
    return [*list_table("", head, rows), *provenance(documents[0])]


def _leave_one_out(documents: Sequence[dict[str, Any]], part: str) -> list[str]:
    """Sums of log densities by both methods of `loo`: against "refits", or on real "data"."""
    results = documents[0]["results"]
    rows = []
    if part == "refits":
        for name, found in results["fits"].items():
            if name in results["refits"]:
                rows.append([name, *_against_refits(found, results["refits"][name]["elpd"])])
        head = ["model", "fits without a row"]
        head += ["f integrated out", "error", "k > 0.7", '"psis"', "error", "k > 0.7"]
    else:
        for name, r in results["data"].items():
            cells = [
                cell
                for m in (r["integrated"], r["psis"])
                for cell in (
                    f"{m['elpd']:.2f} ± {m['se']:.2f}",
                    str(m["n_bad"]),
                    f"{m['seconds']:.1f}",
                )
            ]
            rows.append([name, *cells, f"{r['seconds_fit']:.1f}"])
        head = ["data and kernel", "f integrated out", "k > 0.7", "seconds"]
        head += ['"psis"', "k > 0.7", "seconds", "seconds of the fit"]
    return [*list_table("", head, rows), *provenance(documents[0])]


def _against_refits(found: Sequence[dict[str, Any]], exact: float) -> list[str]:
    """Cells of a model: means and standard deviations over fits, and the largest number of rows."""
    cells = [two(exact)]
    for method in ("integrated", "psis"):
        each = np.array([own[method]["elpd"] for own in found])
        n_bad = [own[method]["n_bad"] for own in found]
        cells += [f"{each.mean():.2f} ({each.std():.2f})", f"{each.mean() - exact:+.2f}"]
        cells.append(f"{np.median(n_bad):.0f}")
    return cells


def _priors(documents: Sequence[dict[str, Any]], part: str) -> list[str]:
    """The study of priors: "candidates" over all problems, else the loss of each problem."""
    results = documents[0]["results"]
    names = list(dict.fromkeys(name for of in results.values() for name in of))
    if part == "candidates":
        rows = [
            row
            for name in names
            if (row := _of_candidate(name, [of[name] for of in results.values() if name in of]))
        ]
        head = ["method", "problems", "median difference of loss", "better", "worse"]
        head += ["R-hat above 1.01", "effective draws per evaluation"]
        return [*list_table("", head, rows), *provenance(documents[0])]
    peers = [name for name in names if name not in ("default", "paper") and ":" not in name]
    rows = [
        [
            f"{problem}, {of['default']['splits']} splits",
            decimals(of["default"]["loss"], 3),
            *(_difference(of[name]) if name in of else "" for name in ("paper", *peers)),
        ]
        for problem, of in results.items()
        if "default" in of
    ]
    return [
        *list_table("", ["problem", "default", "paper", *peers], rows),
        *provenance(documents[0]),
    ]


def _sparse(documents: Sequence[dict[str, Any]], part: str) -> list[str]:
    """The sparse prior beside others, by problem and method; chains by their worst split."""
    rows = []
    for problem, found in documents[0]["results"].items():
        title = f"{problem}: {found['what']}"
        for method, of in found["methods"].items():
            scores = [_average(of[name], 3) for name in ("rmse", "log_density")]
            known = of["r_hat"][0] is not None
            largest = f"{max(of['r_hat']):.3f}" if known else ""
            coverage, seconds = f"{np.mean(of['coverage']):.2f}", f"{np.mean(of['seconds']):.1f}"
            rows.append([title, method, *scores, coverage, seconds, largest])
            title = ""
    head = ["problem", "method", "rmse", "log density", "coverage", "seconds", "largest R-hat"]
    return [*list_table("", head, rows), *provenance(documents[0])]


def _difference(of: dict[str, Any]) -> str:
    if of["difference"] is None or of["error"] is None:
        return ""
    return f"{of['difference']:+.3f} ± {of['error']:.3f}"


def _of_candidate(name: str, each: Sequence[dict[str, Any]]) -> list[str] | None:
    """Row of one method: differences from the defaults, and convergence of its chains."""
    known = [of for of in each if of["difference"] is not None and of["error"]]
    if not known and name != "default":
        return None
    better = sum(of["difference"] < -2.0 * of["error"] for of in known)
    worse = sum(of["difference"] > 2.0 * of["error"] for of in known)
    mean = decimals(np.median([of["difference"] for of in known]), 3) if known else ""
    converged = [of["not_converged"] for of in each if of["not_converged"] is not None]
    draws = [of["per_evaluation"] for of in each if of["per_evaluation"] is not None]
    shares = [f"{100 * np.mean(converged):.0f} %", two(np.mean(draws))] if draws else ["", ""]
    return [name, str(len(each)), mean, str(better), str(worse), *shares]


# --- scaling, predictions, grid -------------------------------------------------------------------


def _scaling(documents: Sequence[dict[str, Any]], part: str) -> list[str]:
    """How cost grows with the number of rows."""
    rows = [
        [
            str(r["n"]),
            decimals(r["seconds_before"], 1),
            decimals(r["ms_per_evaluation"], 1),
            decimals(r["min_ess"], 0),
            decimals(r["seconds_to_400"], 0),
            decimals(r["mebibytes_peak"], 0),
        ]
        for r in documents[0]["results"]
    ]
    head = ["rows", "set-up and warm-up, s", "ms per evaluation", "ESS"]
    head += ["seconds to 400 effective draws", "peak memory, MiB"]
    return [*list_table("", head, rows), *provenance(documents[0])]


def _large(documents: Sequence[dict[str, Any]], part: str) -> list[str]:
    """Many rows: by cheap posteriors, or regression beside scikit-learn's."""
    (document,) = documents
    theirs = "regression" in document["benchmark"]
    rows = []
    for name, r in document["results"].items():
        columns = [("seconds_before", 0), ("seconds_sampling", 0), ("min_ess", 0), ("max_r_hat", 3)]
        columns += [] if theirs else [("per_evaluation", 2)]
        row = [name, *(decimals(r[column], digits) for column, digits in columns), _peak(r)]
        rows.append([*row, decimals(r["sklearn"]["seconds"], 1)] if theirs else row)
    head = ["rows" if theirs else "moves", "set-up and warm-up, s", "sampling, s", "ESS", "R-hat"]
    head += [] if theirs else ["ESS per evaluation"]
    head += ["peak memory of all processes, MiB"]
    head += ["scikit-learn, s"] if theirs else []
    return [*list_table("", head, rows), *provenance(document)]


def _peak(r: dict[str, Any]) -> str:
    """MiB of all processes at once, or at most where only their own peaks were measured."""
    at_once = r.get("mebibytes_at_once")
    return decimals(at_once, 0) if at_once else f"at most {decimals(r['mebibytes_at_most'], 0)}"


def _target_ess(documents: Sequence[dict[str, Any]], part: str) -> list[str]:
    """Fits with target_ess on several cores."""
    rows = []
    for document in documents:
        settings, r = document["settings"], document["results"]
        rows.append(
            [
                f"{settings['data']}, n={r['n']}",
                decimals(settings["target_ess"], 0),
                str(settings["n_jobs"]),
                decimals(r["seconds_total"], 0),
                decimals(min(*r["ess_bulk"], *r["ess_tail"]), 0),
                decimals(r["max_r_hat"], 3),
                _peak(r),
            ]
        )
    head = ["data", "target_ess", "n_jobs", "seconds", "ESS", "R-hat"]
    head += ["peak memory of all processes, MiB"]
    return [*list_table("", head, rows), *provenance(documents[0], settings=False)]


def _prediction(documents: Sequence[dict[str, Any]], part: str) -> list[str]:
    """Seconds and memory of predictions."""
    r = documents[0]["results"]
    rows = [
        [
            label,
            str(one["distinct_thetas"]),
            decimals(one["seconds"], 2),
            decimals(one["ms_per_theta"], 1),
        ]
        for label, one in (("all draws", r["all"]), ("the default", r["default"]))
    ]
    head = ["draws", "distinct thetas", f"seconds for {r['n_new']} rows", "ms per theta"]
    later = r["default"]
    other = [
        ["one row, after the first call, ms", decimals(later["ms_one_row_later"], 0)],
        ["10,000 rows, after the first call, s", decimals(later["seconds_10000_rows_later"], 1)],
        ["factors that are kept, MiB", decimals(later["kept_mebibytes"], 0)],
        ["largest change of a probability", decimals(r["largest_change"], 4)],
        ["root mean square change", decimals(r["root_mean_square_change"], 4)],
        ["size of the pickle, MB", decimals(r["pickle_megabytes"], 1)],
    ]
    other += [
        [f"peak memory for {m['rows']} rows, small fit, MiB", decimals(m["mebibytes"], 0)]
        for m in r["memory"]
    ]
    return [
        *list_table("Time", head, rows),
        *list_table("Later calls, default or all draws, memory", ["quantity", "value"], other),
        *provenance(documents[0]),
    ]


def _grid(documents: Sequence[dict[str, Any]], part: str) -> list[str]:
    """Grids, or with the part "controls" control variates."""
    document = documents[0]
    lines = (_grid_controls if part == "controls" else _grid_seconds)(document["results"])
    return [*(lines or ["*Not measured yet.*", ""]), *provenance(document)]


def _grid_seconds(results: dict[str, Any]) -> list[str]:
    rows = []
    for data, r in results["grid"].items():
        p, sampler = str(r["n_hyperparameters"]), r["sampler"]
        n_draws = f"{sampler['n_draws_needed']:.0f} draws"
        rows.append([data, p, "chains", n_draws, "", decimals(sampler["seconds"], 1), ""])
        for label, g in r["grids"].items():
            seconds = decimals(g["seconds"], 1)
            rows.append(
                [
                    data,
                    p,
                    f"grid, {label}",
                    f"{g['n_nodes']} nodes",
                    str(g["n_draws"]),
                    f"{seconds} (extrapolated)" if g["extrapolated"] else seconds,
                    "" if g["extrapolated"] else decimals(g["difference_in_sd"], 3),
                ]
            )
    head = ["data", "hyper-parameters", "method", "size", "importance draws"]
    head += ["seconds to an error of 0.03 sd", "difference from the chains, sd"]
    return list_table("", head, rows)


def _grid_controls(results: dict[str, Any]) -> list[str]:
    rows = [
        [
            data,
            label,
            f"{decimals(c['median_variance_reduction'], 1)} "
            f"({decimals(c['least_variance_reduction'], 1)})",
            f"{decimals(c['largest_gap_in_sd'], 3)} "
            f"(± {decimals(c['error_of_plain_mean_in_sd'], 3)})",
            decimals(c["seconds"], 1),
        ]
        for data, r in results["controls"].items()
        for label, c in r["controls"].items()
    ]
    head = ["data", "control variate", "variance reduction factor, median (smallest)"]
    head += ["largest shift of a mean, sd", "seconds to an error of 0.03 sd"]
    return list_table("", head, rows)


def _ard(documents: Sequence[dict[str, Any]], part: str) -> list[str]:
    """Designs of proposals for ARD kernels: medians over seeds."""
    lines = []
    for case in documents[0]["results"]["cases"].values():
        rows = []
        for title, runs in case["designs"].items():
            median = {key: np.median([run[key] for run in runs]) for key in runs[0]}
            rows.append(
                [
                    title,
                    f"{median['per_evaluation']:.3f}",
                    f"{median['median_per_evaluation']:.3f}",
                    f"{median['per_operation']:.4f}",
                    f"{median['per_second']:.2f}",
                    f"{median['seconds_before']:.0f}",
                    f"{max(run['max_r_hat'] for run in runs):.3f}",
                ]
            )
        n_seeds, p = len(runs), runs[0]["n_hyperparameters"]
        head = ["proposal", "per evaluation", "its median", "per operation", "per second"]
        head += ["set-up, s", "worst R-hat"]
        lines += list_table(f"{case['title']}: p = {p}, {n_seeds} seeds", head, rows)
    return [*lines, *provenance(documents[0])]


def _sbc(documents: Sequence[dict[str, Any]], part: str) -> list[str]:
    """Calibration of every estimator, or with the part "power" the power of the test."""
    document = documents[0]
    if part == "power":
        return _sbc_power(document["results"]["power"])
    rows = []
    for case in document["results"]["cases"].values():
        statistic, least = min(case["p_values"].items(), key=lambda pair: pair[1])
        rows.append(
            [
                case["title"],
                str(case["n_replicates"]),
                str(len(case["p_values"])),
                decimals(case["p_value"], 3),
                f"{least:.3f}, {statistic}",
                decimals(min(case["least_ess"].values()), 0),
                f"{100.0 * case['accepted']:.0f} %",
            ]
        )
    head = ["estimator", "replicates", "statistics", "family-wise p", "smallest p", "smallest ESS"]
    head += ["accepted data sets"]
    return [*list_table("", head, rows), *provenance(document)]


def _sbc_power(wrong: Sequence[dict[str, float]]) -> list[str]:
    rows = [[two(w["scale"]), two(w["shift"]), two(w["power"])] for w in wrong]
    head = ["sd of the draws, in posterior sd", "their shift, in posterior sd", "power"]
    return list_table("", head, rows)


def _default_kernel(documents: Sequence[dict[str, Any]], part: str) -> list[str]:
    """Log scores with candidates for the default kernel, for one kind of targets."""
    (document,) = documents
    if part == "settings":
        return provenance(document)
    rows = [
        [
            own["method"],
            str(own["fits"]),
            *(decimals(own.get(f"log_loss_{size}"), 3) for size in (20, 50, 100)),
            f"{own['difference_all']:+.3f} ± {own['error_all']:.3f}",
            f"{own['better_on']} of {own['n_data']}",
            f"{own['worst_difference']:+.3f} ({own['worst_data']})",
        ]
        for own in document["results"][part]
    ]
    head = ["model", "fits", "n = 20", "n = 50", "n = 100", "minus RBF", "better on", "worst set"]
    return list_table(part, head, rows)


def _public_record(documents: Sequence[dict[str, Any]], part: str) -> list[str]:
    """Scores of regression on simulators, beside the optimum of scikit-learn."""
    (document,) = documents
    if part == "settings":
        return provenance(document)
    results = [own for own in document["results"] if own["part"] == part]
    if part == "uci":
        return _public_splits(results, document["settings"]["published"])
    of = {(own["data"], own["d"], own["method"]): own for own in results}
    methods = list(dict.fromkeys(key[2] for key in of))
    rows = []
    for data, d in dict.fromkeys(key[:2] for key in of):
        scores = {m: of[data, d, m]["interval_score"] for m in methods}
        best = min(scores.values())
        marks = {m: "**" if score == best else "" for m, score in scores.items()}
        rows.append(
            [
                data,
                str(d),
                *(f"{marks[m]}{two(scores[m])}{marks[m]}" for m in methods),
                *(decimals(of[data, d, m]["coverage"], 2) for m in methods),
                *(decimals(of[data, d, m]["seconds"], 1) for m in methods[:2]),
            ]
        )
    head = ["function", "inputs", *(f"interval score: {m}" for m in methods)]
    head += [f"coverage: {m}" for m in methods] + [f"seconds: {m}" for m in methods[:2]]
    return list_table("", head, rows)


#: Splits of a data set below which the study of it has not been run through.
_FEWEST_SPLITS = 5


def _public_splits(results: Sequence[dict[str, Any]], published: dict[str, float]) -> list[str]:
    """Log densities on public data, beside published ones."""
    rows = [
        [
            own["data"],
            str(own["d"]),
            own["method"],
            str(own["fits"]),
            f"{two(own['log_density'])} ± {two(own['log_density_error'])}",
            decimals(published[own["data"]], 2),
            decimals(own["coverage"], 2),
        ]
        for own in results
        if own["fits"] >= _FEWEST_SPLITS
    ]
    head = ["data", "inputs", "method", "splits", "log density", "MC dropout", "coverage"]
    return list_table("", head, rows)


def _recipes(documents: Sequence[dict[str, Any]], part: str) -> list[str]:
    """What the fits of recipes take, and linear effects or a threshold of one of them."""
    (document,) = documents
    if part == "settings":
        return provenance(document, settings=False)
    by_name = {own["recipe"]: own for own in document["results"]}
    if part in ("presence", "herds"):
        of_columns = by_name[part]["effects"]
    if part == "threshold":
        of_columns = {"threshold, dB": by_name[part]["threshold"]}
    if part in ("presence", "herds", "threshold"):
        rows = [
            [column, *(two(own[key]) for key in ("mean", "sd", "5%", "95%"))]
            for column, own in of_columns.items()
        ]
        return list_table("", ["column", "mean", "sd", "5 %", "95 %"], rows)
    rows = [
        [
            own["recipe"],
            str(own["rows"]),
            str(len(own["posterior"])),
            decimals(own["seconds"], 1),
            decimals(own["r_hat"], 3),
            decimals(own["ess"], 0),
        ]
        for own in document["results"]
    ]
    head = ["recipe", "rows", "hyper-parameters", "seconds", "R-hat", "least effective draws"]
    return list_table("", head, rows)


#: Which function makes the tables of a benchmark whose name starts so.
_BY_NAME: dict[str, Callable[[Sequence[dict[str, Any]], str], list[str]]] = {
    "sampling_": _sampling,
    "models_": _sampling,
    "regression": _regression,
    "ordinal": _ordinal,
    "multiclass": _multiclass,
    "leave_one_out": _leave_one_out,
    "priors": _priors,
    "sparse": _sparse,
    "scaling": _scaling,
    "shrinking": _shrinking,
    "large_": _large,
    "target_ess_": _target_ess,
    "prediction": _prediction,
    "ard": _ard,
    "grid": _grid,
    "sbc": _sbc,
    "comparative_": comparative,
    "fast_approximations_": fast_approximations,
    "rmhmc_": rmhmc,
    "annealed_noise": annealed_noise,
    "tuned_svm": tuned_svm,
    "step_many": step_many,
    "concurrency": concurrency,
    "memory": memory,
    "default_kernel": _default_kernel,
    "public_record": _public_record,
    "recipes": _recipes,
    "many_rows": many_rows,
    "spatial": spatial,
    "clusters": clusters,
    "recipe_peers": recipe_peers,
    "recipe_laplace": recipe_laplace,
    "default": default_fits,
    "stays": rare_stays,
    "many_lengths": many_lengths,
    "pseudo_marginal_": pseudo_marginal,
    "classifiers_default": classifiers_default,
    "classifiers": classifiers,
}


class BenchmarkTable(SphinxDirective):
    """The directive; its arguments are the NAME and the PART."""

    required_arguments = 1
    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Parse the tables where the directive stands."""
        name = self.arguments[0]
        for path in RESULTS.glob(f"{name}.json"):
            self.env.note_dependency(str(path))
        lines = table_lines(name, RESULTS, *self.arguments[1:])
        return self.parse_text_to_nodes("\n".join(lines))


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    app.add_directive("benchmark-table", BenchmarkTable)
    app.add_directive("set-up-numbers", SetUpNumbers)
    return {"parallel_read_safe": True}
