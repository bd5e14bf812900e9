"""What README.md and the first page of the documentation show: pictures, an output, two numbers.

Run as ``python -m benchmarks.landing``. It writes ``docs/_static/averaging.png``, the picture of
``examples/use/plot_averaging.py``; ``docs/_static/seconds.png``, a chart of seconds that are in
``benchmarks/results/sampling_pima.json``; and in the two texts the numbers of that chart. Then it
runs the Python example of README.md, puts its output below it, and its picture into
``docs/_static/first_example.png``.
"""

from __future__ import annotations

import contextlib
import io
import re
import runpy
from collections.abc import Callable
from dataclasses import dataclass

from .common import FEWEST_EFFECTIVE, ROOT, load_results

STATIC = ROOT / "docs" / "_static"
README, FIRST_PAGE = ROOT / "README.md", ROOT / "docs" / "index.rst"
#: The output of the example is the block of text after the block of Python.
EXAMPLE = re.compile(r"^```python\n(?P<code>.*?)^```\n(?P<between>.*?)^```text\n", re.M | re.S)
OUTPUT = re.compile(r"(?<=^```text\n).*?(?=^```$)", re.M | re.S)
BLUE, ORANGE = "#0072b2", "#e69f00"


@dataclass(frozen=True)
class Seconds:
    """Seconds on Pima: ours to 1000 effective draws, and those after which NUTS was stopped."""

    n_rows: int
    ours: float
    nuts: float
    nuts_effective: float
    nuts_r_hat: float


def pima_seconds() -> Seconds:
    """Return the seconds of the default sampler and of NumPyro's NUTS, of one run."""
    results = load_results("sampling_pima")
    run = results["nuts"]["0"]
    if not run["ours_converged"] or run["min_ess"] >= FEWEST_EFFECTIVE:
        raise ValueError(
            "the chart says that our chains have converged, and those of NUTS have not"
        )
    return Seconds(
        n_rows=int(results["title"].rpartition("=")[2]),
        ours=run["ours_seconds_to_1000"],
        nuts=run["seconds_warmup"] + run["seconds_sampling"],
        nuts_effective=run["min_ess"],
        nuts_r_hat=run["max_r_hat"],
    )


def sentence(seconds: Seconds) -> dict[str, str]:
    """Return what the texts say about the seconds, by the name that stands before it."""
    return {
        "README.md": (
            f"On the {seconds.n_rows} rows of Pima, 1000 effective draws (as good as independent "
            f"ones) take {seconds.ours:.0f} seconds. NUTS, a general\nsampler, had not converged "
            f"when it was stopped after {seconds.nuts:.0f} seconds."
        ),
        "index.rst": (
            f"Seconds on one core for the Pima data ({seconds.n_rows} rows), the same model and "
            f"priors.\nNumPyro's NUTS was stopped before it converged ("
            f"{seconds.nuts_effective:.0f} effective draws, R-hat {seconds.nuts_r_hat:.2f})."
        ),
    }


#: What stands before and after the generated sentence.
MARKS = {
    "README.md": ("<!-- seconds: begin -->\n", "\n<!-- seconds: end -->"),
    "index.rst": (".. seconds: begin\n\n", "\n\n.. seconds: end"),
}


def between_marks(name: str, text: str) -> str:
    """Return the generated sentence that a text has, without indentation."""
    begin, end = MARKS[name]
    lines = "\n".join(line.strip() for line in text.splitlines())
    _, _, rest = lines.partition(begin)
    shown, found, _ = rest.partition(end)
    if not found:
        raise ValueError(f"{name} has no lines {begin!r} and {end!r}")
    return shown


def with_sentence(name: str, text: str) -> str:
    """Return a text with the generated sentence of the committed results."""
    new = sentence(pima_seconds())[name].splitlines()
    old = between_marks(name, text).splitlines()
    lines = text.splitlines(keepends=True)
    start = next(i for i, line in enumerate(lines) if line.strip() == old[0])
    indentation = " " * (len(lines[start]) - len(lines[start].lstrip()))
    lines[start : start + len(old)] = [f"{indentation}{line}\n" for line in new]
    return "".join(lines)


def draw_seconds() -> None:
    """Draw the chart of seconds."""
    import matplotlib.pyplot as plt

    seconds = pima_seconds()
    fig, ax = plt.subplots(figsize=(5.5, 1.9), layout="constrained", dpi=150)
    bars = ax.barh([1, 0], [seconds.ours, seconds.nuts], color=[BLUE, ORANGE], height=0.6)
    bars[1].set(hatch="//", edgecolor="w")
    ax.set_yticks([1, 0], ["skgpmcmc", "NUTS (NumPyro)"])
    ax.annotate(f" {seconds.ours:.0f} s: 1000 effective draws", (seconds.ours, 1), va="center")
    ax.annotate(
        f"not converged when stopped after {seconds.nuts:.0f} s ",
        (seconds.nuts, 0),
        ha="right",
        va="center",
        bbox={"color": "w", "pad": 2.0},
        xytext=(-8, 0),
        textcoords="offset points",
    )
    ax.set(xlabel="seconds on one core, set-up included", xlim=(0.0, 1.03 * seconds.nuts))
    ax.set_title(f"Gaussian-process classifier, Pima, {seconds.n_rows} rows", fontsize="medium")
    ax.spines[["top", "right"]].set_visible(False)
    fig.savefig(STATIC / "seconds.png")


def run_and_save(run: Callable[[], object], picture: str) -> None:
    """Run something that draws, and save its last figure."""
    import matplotlib.pyplot as plt

    plt.close("all")
    shown, plt.show = plt.show, lambda: None
    try:
        run()
    finally:
        plt.show = shown
    plt.gcf().savefig(STATIC / picture, dpi=150, bbox_inches="tight")


def example_code() -> str:
    """Return the Python example of README.md."""
    found = EXAMPLE.search(README.read_text("utf-8"))
    if found is None:
        raise ValueError("README.md has no example with an output")
    return found["code"]


def example_output() -> str:
    """Return the output that README.md shows."""
    text = README.read_text("utf-8")
    found = OUTPUT.search(text)
    if found is None:
        raise ValueError("README.md has no output of its example")
    return found[0]


def main() -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    draw_seconds()
    for path in (README, FIRST_PAGE):
        path.write_text(with_sentence(path.name, path.read_text("utf-8")), encoding="utf-8")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        run_and_save(lambda: exec(example_code(), {}), "first_example.png")
    text = README.read_text("utf-8")
    README.write_text(OUTPUT.sub(lambda _: printed.getvalue(), text, count=1), encoding="utf-8")
    script = ROOT / "examples" / "use" / "plot_averaging.py"
    run_and_save(lambda: runpy.run_path(str(script), run_name="__main__"), "averaging.png")


if __name__ == "__main__":
    main()
