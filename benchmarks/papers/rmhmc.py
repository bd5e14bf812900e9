"""Figure 2 of Paquet & Fraccaro: estimates of log p(y | theta) by annealing, against their cost.

Run as ``python -m benchmarks.papers.rmhmc [--scale small|full] [--setting hard easy]
[--method AISq-RMHMC] [--core 0]``, with ``OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1``. Cells that
``results/rmhmc_SCALE.json`` has already are left out unless ``--again`` is given; ``--picture``
draws the figure.

USPS digits 3 against 5, pixels from -1 to 1, a probit link and the kernel sigma^2
exp(-|x - x'|^2 / (2 l^2)). "hard" has the paper's log l = 4.85 and log sigma = 5.1; "easy", on the
ridge of the evidence, has log l = 2.5 and log sigma = 1.5. The full scale has 767 training rows, as
the paper; which rows those were is not known here, so that values of the evidence differ. The small
one has 200 of them. A run is one draw of f that is annealed alone; what a method does to the
estimate is the spread of the log weight of its runs, and its cost is processor time per run. Step
sizes are found by pilot runs, which are not counted. Paths from the prior have geometric
temperatures from 1e-4 on, those from EP's q have them at equal distances.

References
----------
Paquet & Fraccaro, section 5; Kuss & Rasmussen (2005).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from threadpoolctl import threadpool_limits

from skgpmcmc.approximations import EP, Laplace
from skgpmcmc.approximations.corrected import second_order_log_evidence
from skgpmcmc.importance.annealed import annealed_evidence
from skgpmcmc.likelihoods import Probit
from skgpmcmc.model import HyperPrior, LatentGP, Observations, make_covariance
from skgpmcmc.run.annealed import AnnealedImportance

from ..common import RESULTS, data_folder, load_results, print_table, save, use_core

#: log l and log sigma, in the paper's notation.
SETTINGS = {"hard": (4.85, 5.1), "easy": (2.5, 1.5)}


@dataclass(frozen=True)
class Scale:
    """Training rows, and how long the paths of each method are, by its kernel and its start."""

    n: int
    lengths: dict[tuple[str, str], tuple[int, ...]]


SCALES = {
    "small": Scale(
        200,
        {
            ("prior", "elliptical_slice"): (64, 512, 4096),
            ("prior", "hmc"): (64, 512, 4096),
            ("prior", "rmhmc"): (8, 32, 128),
            ("ep", "elliptical_slice"): (16, 128, 1024),
            ("ep", "hmc"): (16, 128, 1024),
            ("ep", "rmhmc"): (4, 16, 64),
        },
    ),
    "full": Scale(
        767,
        {
            ("prior", "elliptical_slice"): (512, 4096, 16384),
            ("prior", "hmc"): (512, 4096, 16384),
            ("prior", "rmhmc"): (120, 540, 1200),
            ("ep", "elliptical_slice"): (120, 1200, 4096),
            ("ep", "hmc"): (120, 1200, 4096),
            ("ep", "rmhmc"): (30, 120, 240),
        },
    ),
}
#: Independent runs; those of a batch are made together.
N_RUNS = 32
#: Leapfrog steps, for RMHMC the most: the paper has 200 for HMC and 10 for RMHMC.
MOST_LEAPFROG = {"elliptical_slice": 1, "hmc": 25, "rmhmc": 10}
TITLES = {"elliptical_slice": "ELL-SS", "hmc": "HMC", "rmhmc": "RMHMC"}


def title(start: str, kernel: str) -> str:
    """Return the paper's name of a method."""
    return f"{'AIS' if start == 'prior' else 'AISq'}-{TITLES[kernel]}"


METHODS = {title(*method): method for method in SCALES["small"].lengths}


def problem(setting: str, n: int) -> tuple[LatentGP, np.ndarray]:
    """Return the model of n training rows, and its theta."""
    data = np.load(data_folder() / "usps_3v5.npz", allow_pickle=False)
    rows = np.random.default_rng(0).permutation(len(data["target"]))[:n]
    X = data["X"][rows] / 1000.0
    y = np.where(data["target"][rows] == 3, 1.0, -1.0)
    covariance = make_covariance(ConstantKernel() * RBF(), X)
    model = LatentGP(covariance, Observations(Probit(), y), HyperPrior((), {}))
    log_length, log_sigma = SETTINGS[setting]
    return model, np.array([2.0 * log_sigma, log_length])


def deterministic(setting: str, n: int) -> dict[str, Any]:
    """Log evidences without random numbers, and the processor seconds that they take."""
    model, theta = problem(setting, n)
    found = {}
    for name, evaluate in {
        "Laplace": lambda: Laplace().with_tolerance().fit(model, theta).log_evidence,
        "EP": lambda: EP().with_tolerance().fit(model, theta).log_evidence,
        "EP second order": lambda: second_order_log_evidence(model, theta),
    }.items():
        begun = time.process_time()
        found[name] = {"log_evidence": evaluate(), "seconds": time.process_time() - begun}
    return found


def measure(setting: str, n: int, method: str, length: int) -> dict[str, Any]:
    """Anneal independent runs, and return their log weights and what each costs."""
    start, kernel = METHODS[method]
    model, theta = problem(setting, n)
    ais = AnnealedImportance(
        kernel=kernel,
        start=start,
        temperatures="geometric" if start == "prior" else "linear",
        n_temperatures=length,
        n_moves=1,
        max_leapfrog=MOST_LEAPFROG[kernel],
    )
    rng = np.random.default_rng([length, list(METHODS).index(method)])
    begun = time.process_time()
    q, schedule = ais.prepare_schedule(model, theta, rng)
    before, begun = time.process_time() - begun, time.process_time()
    found = annealed_evidence(model, q, schedule, N_RUNS, rng, kernel=ais.moves)
    seconds = time.process_time() - begun
    return {
        "log_weights": found.log_weights.tolist(),
        "log_evidence": found.log_evidence,
        "sd": float(found.log_weights.std(ddof=1)),
        "seconds_per_run": seconds / N_RUNS,
        "seconds_before": before,
    }


def show(setting: str, cells: dict[str, Any]) -> None:
    """Print one setting."""
    rows = [
        [name, f"{cell['log_evidence']:.2f}", "", f"{cell['seconds']:.3f}"]
        for name, cell in cells["deterministic"].items()
    ]
    for method in METHODS:
        for length, cell in cells.get(method, {}).items():
            numbers = (cell["log_evidence"], cell["sd"], cell["seconds_per_run"])
            texts = [
                f"{number:.{digits}f}" for number, digits in zip(numbers, (2, 2, 3), strict=True)
            ]
            rows.append([f"{method}, {length} temperatures", *texts])
    print(f"{setting}: log l = {SETTINGS[setting][0]}, log sigma = {SETTINGS[setting][1]}")
    print_table(["method", "log p(y)", "sd of a run", "s per run"], rows)


def draw(results: dict[str, Any], path: Any) -> None:
    """Draw estimates and their spread against processor time."""
    from matplotlib import pyplot as plt  # an extra, needed for this alone

    figure, axes = plt.subplots(2, len(results), figsize=(9.0, 6.4), layout="constrained")
    for column, (setting, cells) in zip(axes.T, results.items(), strict=True):
        _draw_estimates(column[0], cells)
        for method in METHODS:
            own = list(cells.get(method, {}).values())
            column[1].plot(
                [cell["seconds_per_run"] for cell in own], [cell["sd"] for cell in own], "o-"
            )
        column[1].set(xscale="log", yscale="log", xlabel="processor seconds of a run")
        log_length, log_sigma = SETTINGS[setting]
        column[0].set_title(rf"$\log \ell$ = {log_length}, $\log \sigma$ = {log_sigma}")
    axes[0, 0].set_ylabel("log evidence, 5 to 95 %")
    axes[1, 0].set_ylabel("standard deviation of a run's log weight")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    figure.savefig(path, dpi=120)


def _draw_estimates(axis: Any, cells: dict[str, Any]) -> None:
    styles = ((0, (1, 1)), "--", "-")
    for style, (name, cell) in zip(styles, cells["deterministic"].items(), strict=True):
        axis.axhline(
            cell["log_evidence"], color="black", linewidth=1.0, linestyle=style, label=name
        )
    values = []
    for method in METHODS:
        own = list(cells.get(method, {}).values())
        seconds = [cell["seconds_per_run"] for cell in own]
        low, high = (
            np.array([np.quantile(c["log_weights"], p) for c in own]) for p in (0.05, 0.95)
        )
        middle = np.array([cell["log_evidence"] for cell in own])
        bars = np.maximum([middle - low, high - middle], 0.0)
        axis.errorbar(seconds, middle, bars, fmt="o-", capsize=2, label=method)
        values.append(middle[-1])
    axis.set(xscale="log", ylim=(np.median(values) - 25.0, np.median(values) + 10.0))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", choices=SCALES, default="small")
    parser.add_argument("--setting", nargs="+", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument("--method", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--again", action="store_true", help="also what has been measured")
    parser.add_argument("--picture", action="store_true", help="only draw the figure")
    parser.add_argument("--core", type=int, default=None, help="run on this core only")
    args = parser.parse_args(arguments)
    use_core(args.core)
    scale, name = SCALES[args.scale], f"rmhmc_{args.scale}"
    if args.picture:
        draw(load_results(name), RESULTS / f"{name}.png")
        return
    settings = {"n": scale.n, "n_runs": N_RUNS, "settings": SETTINGS}
    with threadpool_limits(1):
        for setting in args.setting:
            _run(setting, args.method, scale, name, settings, again=args.again)
            show(setting, load_results(name)[setting])


def _run(
    setting: str,
    methods: Sequence[str],
    scale: Scale,
    name: str,
    settings: dict[str, Any],
    *,
    again: bool,
) -> None:
    """Measure what is missing of one setting; the file is read anew, as two runs may share it."""
    if "deterministic" not in load_results(name).get(setting, {}):
        found = deterministic(setting, scale.n)
        results = load_results(name)
        results.setdefault(setting, {})["deterministic"] = found
        save(name, settings, results)
    for method in methods:
        for length in scale.lengths[METHODS[method]]:
            if str(length) in load_results(name)[setting].get(method, {}) and not again:
                continue
            cell = measure(setting, scale.n, method, length)
            results = load_results(name)
            results[setting].setdefault(method, {})[str(length)] = cell
            save(name, settings, results)


if __name__ == "__main__":
    main()
