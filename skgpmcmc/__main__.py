"""The command line: ``python -m skgpmcmc compare``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from .compare import (
    Settings,
    as_json,
    bundled_data,
    compare,
    convergence_report,
    csv_data,
    save_plot,
    score_table,
)


def make_parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(prog="python -m skgpmcmc", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    job = commands.add_parser(
        "compare",
        help="fit a Bayesian GP classifier and its rivals on the same splits",
        description="Fit a fully Bayesian Gaussian-process classifier, MCMC EP, EP ML, a "
        "Platt-scaled SVM and scikit-learn's GaussianProcessClassifier on the same splits; print "
        "scores and convergence; save the abstention plot (PNG) and a result file (JSON). Without "
        "--data it uses two data sets that come with scikit-learn.",
    )
    defaults = Settings()
    job.add_argument("--data", metavar="FILE.csv", help="your own data: numeric columns, a header")
    job.add_argument("--target", metavar="COLUMN", help="the column of --data to predict")
    job.add_argument(
        "--train-size",
        type=int,
        metavar="N",
        help="training rows (default: 100; own data: 70%%, at most 500)",
    )
    job.add_argument(
        "--repeats",
        type=int,
        default=1,
        metavar="R",
        help="random splits; more than one gives mean ± standard error",
    )
    job.add_argument(
        "--random-state",
        type=int,
        default=0,
        metavar="SEED",
        help="seed of the first split; the r-th uses SEED + r",
    )
    job.add_argument("--n-warmup", type=int, metavar="N", help="default: the sampler's own")
    job.add_argument("--n-draws", type=int, default=defaults.n_draws)
    job.add_argument(
        "--max-rhat", type=float, default=defaults.max_rhat, help="R-hat that counts as converged"
    )
    job.add_argument(
        "--n-jobs", type=int, default=defaults.n_jobs, help="workers; results do not depend on it"
    )
    job.add_argument(
        "--output",
        default="skgpmcmc_compare",
        metavar="PREFIX",
        help="where PREFIX.png and PREFIX.json go",
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    parser = make_parser()
    args = parser.parse_args(argv)
    if (args.data is None) != (args.target is None):
        parser.error("--data and --target go together")
    if args.repeats < 1:
        parser.error(f"--repeats must be at least 1; got {args.repeats}")
    settings = Settings(
        n_warmup="auto" if args.n_warmup is None else args.n_warmup,
        n_draws=args.n_draws,
        max_rhat=args.max_rhat,
        n_jobs=args.n_jobs,
    )
    try:
        if args.data is None:
            data_sets = bundled_data(args.train_size or 100)
        else:
            data_sets = [csv_data(args.data, args.target, args.train_size)]
        results = {
            data.name: compare(
                data,
                settings,
                repeats=args.repeats,
                random_state=args.random_state,
                report=lambda line: print(line, file=sys.stderr, flush=True),
            )
            for data in data_sets
        }
    except (OSError, ValueError) as error:
        print(f"skgpmcmc compare: {error}", file=sys.stderr)
        return 2
    for name, (outcomes, split) in results.items():
        title = f"{name}: {len(split.y_train)} training and {len(split.y_test)} test rows"
        print(f"\n== {title}, {split.X_train.shape[1]} features, {args.repeats} split(s) ==\n")
        print(score_table(outcomes))
        print(f"\n-- convergence --\n{convergence_report(outcomes, settings.max_rhat)}")
        for outcome in outcomes:
            for note in outcome.notes:
                print(f"note ({outcome.method}, split {outcome.split + 1}): {note}")
    plot, document = Path(f"{args.output}.png"), Path(f"{args.output}.json")
    document.write_text(as_json(results, settings, args.random_state), encoding="utf-8")
    drawn = save_plot(plot, results)
    print(
        f"\nsaved {document}"
        + (f" and {plot}" if drawn else "; no plot (two classes and matplotlib are needed)")
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
