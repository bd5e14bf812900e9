"""Picture of effective draws against seconds, set-up included, from results that are there.

Run as ``python -m benchmarks.effective_draws`` after ``benchmarks.sampling`` (with ``--papers
--nuts``) and ``benchmarks.grid``. Every method has a line: nothing until its set-up or warm-up is
over, and from then on as many effective draws a second as its runs had, the median over seeds. A
quadrature grid is a point: its error is that of so many independent draws.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .common import CASES, RESULTS, load_results

SHOWN = ("pima", "ard10")
#: Effective draws that are shown.
RANGE = (10.0, 6000.0)


def cost(run: dict[str, Any]) -> tuple[float, float]:
    """Seconds before the first kept draw, and seconds for each effective draw after it."""
    before = run["seconds_before"] if "seconds_before" in run else run["seconds_warmup"]
    return before, run["seconds_sampling"] / run["min_ess"]


def costs(case: str) -> dict[str, list[tuple[float, float]]]:
    """By method, what every run of it has cost."""
    results = load_results(f"sampling_{case}")
    found = {"skgpmcmc": [cost(run) for run in results["ours"].values()]}
    for run in results["papers"].values():
        found.setdefault(f"{run['scheme']} (papers)", []).append(cost(run))
    found["NUTS (NumPyro)"] = [cost(run) for run in results["nuts"].values()]
    return {method: each for method, each in found.items() if each}


def grid_points(case: str) -> dict[str, tuple[float, float]]:
    """By kind of grid, its seconds and the number of independent draws with its error."""
    grids = load_results("grid")["grid"].get(case, {}).get("grids", {})
    return {f"grid, {name}": (g["seconds"], g["error_in_sd"] ** -2) for name, g in grids.items()}


def draw() -> None:
    """Draw all cases."""
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, len(SHOWN), figsize=(11, 4.2), sharey=True, layout="constrained")
    ess = np.geomspace(*RANGE, 200)
    for ax, case in zip(axes, SHOWN, strict=True):
        for method, each in costs(case).items():
            before, per_draw = np.median(each, axis=0)
            ax.plot(before + per_draw * ess, ess, lw=2.5 if method == "skgpmcmc" else 1.2,
                    label=method)  # fmt: skip
        for (name, (seconds, draws)), marker in zip(grid_points(case).items(), "sD", strict=False):
            ax.plot(seconds, draws, f"k{marker}", ms=5, label=name)
        ax.axhline(400.0, color="0.6", lw=0.8, ls=":")
        ax.set(xscale="log", yscale="log", ylim=RANGE, title=CASES[case].title)
        ax.set_xlabel("seconds on one core, set-up included")
        ax.legend(fontsize=8)
    axes[0].set_ylabel("effective draws")
    fig.savefig(RESULTS / "effective_draws.png", dpi=110)


if __name__ == "__main__":
    draw()
