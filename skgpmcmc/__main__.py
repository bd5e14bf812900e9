"""The command line: ``python -m skgpmcmc compare`` and ``python -m skgpmcmc check-chains``."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from .compare.csv_file import csv_data
from .compare.data import BUNDLED, DataSet, bundled_data, check_data, split_data
from .compare.methods import SHOWN_SCORES, SVM_GRIDS, Comparison, Settings, compare
from .compare.picture import no_plot_message, save_plot
from .compare.report import as_json, convergence_report
from .compare.table import ARROWS, KEY, can_rank, conclusion, loss_differences, score_table

#: Exit status of a run without failures.
DONE = 0
#: Exit status if a method, the plot or the saving has failed.
FAILED = 1
#: Exit status if the arguments or the data are wrong, and nothing was fitted.
REFUSED = 2
#: Exit status after Ctrl-C.
INTERRUPTED = 130

#: Data and number of splits of a comparison without options, which ends within a minute.
_DEFAULT_DATASET = "breast-cancer"
_DEFAULT_REPEATS = 3

#: Characters in a line of text.
_WIDTH = 100
#: Meaning of an entry over several splits.
_EXPLANATION = "; mean ± standard error over the splits, which share rows"

#: Names of commands in earlier versions, which work in this version only.
_EARLIER_NAMES = {"doctor": "check-chains"}


def make_parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m skgpmcmc",
        description="Gaussian-process models that average over their hyper-parameters: a "
        "comparison with other classifiers, and a check of the chains of a fit.",
        epilog="python -m skgpmcmc COMMAND --help lists the options of a command.",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    job = commands.add_parser(
        "compare",
        help="compare a Bayesian GP classifier with other classifiers",
        description="Fit a Bayesian Gaussian-process classifier and four other classifiers on the "
        "same random splits of a data set. Print a table of scores, what may be concluded from it, "
        "and whether the chains have converged. Save all results (PREFIX.json) and a figure "
        "(PREFIX.png). Without --data the data come with scikit-learn. If a method fails, its row "
        "has dashes and a note. After Ctrl-C the results so far are printed and saved.",
    )
    _add_data_options(job)
    _add_file_options(job)
    _add_method_options(job)
    job.add_argument(
        "--output",
        default="skgpmcmc_compare",
        metavar="PREFIX",
        help="where PREFIX.png and PREFIX.json go (default: skgpmcmc_compare)",
    )
    check = commands.add_parser(
        "check-chains",
        help="check the chains in a checkpoint file",
        description="Read the file that a fit with checkpoint=FILE writes, also while the fit "
        "runs. Print whether its chains have converged, what is wrong and what to try, and save "
        "plots of traces, ranks and autocorrelations (PNG).",
    )
    check.add_argument("file", metavar="FILE", type=Path)
    check.add_argument("--output", metavar="PREFIX", help="where plots go (default: beside FILE)")
    return parser


def _add_data_options(job: argparse.ArgumentParser) -> None:
    """Add the options for the data and their splits."""
    job.add_argument(
        "--datasets",
        nargs="+",
        choices=tuple(BUNDLED),
        metavar="NAME",
        help=f"data from scikit-learn: {', '.join(BUNDLED)} (default: {_DEFAULT_DATASET})",
    )
    job.add_argument(
        "--train-size",
        type=_integer_parser(1),
        metavar="N",
        help="training rows (default: 100; own data: 70%%, at most 500)",
    )
    job.add_argument(
        "--repeats",
        type=_integer_parser(1),
        metavar="R",
        help=f"random splits (default: {_DEFAULT_REPEATS}; own data: 1); several splits give mean "
        "± standard error",
    )
    job.add_argument(
        "--random-state",
        type=_integer_parser(0),
        default=0,
        metavar="SEED",
        help="seed of the first split; the r-th uses SEED + r",
    )


def _add_file_options(job: argparse.ArgumentParser) -> None:
    """Add the options for a file of the user."""
    own = job.add_argument_group("your own data")
    own.add_argument("--data", metavar="FILE.csv", help="a CSV file with a header")
    own.add_argument("--target", metavar="COLUMN", help="the column of classes to predict")
    own.add_argument(
        "--encode",
        action="store_true",
        help="use columns of text, as one column of zeros and ones for each category",
    )
    own.add_argument(
        "--drop-missing",
        action="store_true",
        help="leave out rows with missing values (empty cells, NA, N/A, NaN and ?)",
    )
    own.add_argument(
        "--drop-rare", action="store_true", help="leave out classes with too few rows to be split"
    )
    own.add_argument(
        "--drop-columns",
        nargs="+",
        metavar="COLUMN",
        help="leave out columns, such as names and numbers of rows",
    )


def _add_method_options(job: argparse.ArgumentParser) -> None:
    """Add the options for the methods and the workers."""
    defaults = Settings()
    job.add_argument(
        "--svm-grid",
        choices=tuple(SVM_GRIDS),
        default=defaults.svm_grid,
        help="pairs of C and gamma that the SVM tries: 20 (small, the default) or the 110 of "
        "LIBSVM's search (full), which take minutes over many splits",
    )
    job.add_argument(
        "--n-warmup", type=_integer_parser(0), metavar="N", help="default: the sampler's own"
    )
    job.add_argument("--n-draws", type=_integer_parser(1), default=defaults.n_draws)
    job.add_argument(
        "--max-rhat",
        type=_parse_r_hat,
        default=defaults.max_rhat,
        help="R-hat that counts as converged",
    )
    job.add_argument(
        "--n-jobs",
        type=_parse_n_jobs,
        default=defaults.n_jobs,
        help="workers; results do not depend on it",
    )


Number = TypeVar("Number", int, float)


def _number_parser(
    kind: Callable[[str], Number], wanted: str, legal: Callable[[Number], bool]
) -> Callable[[str], Number]:
    """Return a function that parses the text of an argument as a legal number."""

    def parse(text: str) -> Number:
        """Return the number that a text denotes, or raise an error for argparse."""
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not legal(value):
            raise argparse.ArgumentTypeError(f"must be {wanted}; got {text!r}")
        return value

    return parse


def _integer_parser(least: int) -> Callable[[str], int]:
    return _number_parser(int, f"an integer of at least {least}", lambda value: value >= least)


_parse_n_jobs = _number_parser(int, "a number of workers, or -1 for all processors", bool)
_parse_r_hat = _number_parser(float, "a number above 1", lambda value: value > 1.0)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line, and return the exit status."""
    parser = make_parser()
    words = list(sys.argv[1:] if argv is None else argv)
    if words and words[0] in _EARLIER_NAMES:
        earlier, words[0] = words[0], _EARLIER_NAMES[words[0]]
        _print_to_stderr(
            f"FutureWarning: the command {earlier!r} is called {words[0]!r} now. The earlier name "
            "works in this version, and not in the next one."
        )
    args = parser.parse_args(words)
    if args.command is None:
        parser.print_help()
        return DONE
    return _run_compare(parser, args) if args.command == "compare" else _run_check(args)


def _run_check(args: argparse.Namespace) -> int:
    """Print the report on a checkpoint, and save its plots."""
    from .check_chains import save_plots, write_report

    try:
        is_well = _print(write_report(args.file))
        plots = save_plots(args.file, args.output or str(args.file))
    except ValueError as error:
        _print_to_stderr(f"skgpmcmc check-chains: {error}")
        return REFUSED
    except (ImportError, OSError) as error:
        _print_to_stderr(f"skgpmcmc check-chains: no plots: {error}")
        return FAILED
    for plot in plots:
        is_well &= _print(f"saved {plot}")
    return DONE if is_well else FAILED


def _run_compare(parser: argparse.ArgumentParser, args: argparse.Namespace) -> int:
    """Compare methods, and print and save the results."""
    _check_options_of_data(parser, args)
    if args.repeats is None:  # fits of the user's data may take long
        args.repeats = _DEFAULT_REPEATS if args.data is None else 1
    if args.random_state + args.repeats > 2**32:
        parser.error(f"--random-state plus --repeats must be at most 2^32; got {args.random_state}")
    settings = Settings(
        n_warmup="auto" if args.n_warmup is None else args.n_warmup,
        n_draws=args.n_draws,
        max_rhat=args.max_rhat,
        n_jobs=args.n_jobs,
        svm_grid=args.svm_grid,
    )
    try:
        document, plot = _output_paths(args.output)
        data_sets = _read_data(args)
        for data in data_sets:
            check_data(data, args.repeats, args.random_state)
    except ValueError as error:
        _complain(error)
        return REFUSED
    results, is_complete = _compare_all(data_sets, settings, args.repeats, args.random_state)
    if not any(comparison.outcomes for comparison in results):
        _complain("no method was done, and nothing is saved")
        return INTERRUPTED
    text = as_json(results, settings, args.random_state, complete=is_complete)
    # Results are saved before anything is printed or drawn, which may fail.
    is_well = [_save(document, lambda path: path.write_text(text, encoding="utf-8"), text)]
    is_well.append(_print(_format_report(results, settings, args.repeats)))
    no_plot = no_plot_message(results)
    if no_plot is None:
        is_well.append(_save(plot, lambda path: save_plot(path, results)))
    else:
        is_well.append(_print(f"no plot: {no_plot}"))
    is_well += [outcome.failure is None for c in results for outcome in c.outcomes]
    if not is_complete:
        return INTERRUPTED
    return DONE if all(is_well) else FAILED


def _check_options_of_data(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Refuse options that do not go together."""
    if (args.data is None) != (args.target is None):
        parser.error("--data and --target go together")
    if args.data is not None and args.datasets:
        parser.error("--datasets names data of scikit-learn: leave it out, or leave out --data")
    only_own = {
        "--encode": args.encode,
        "--drop-missing": args.drop_missing,
        "--drop-rare": args.drop_rare,
        "--drop-columns": args.drop_columns,
    }
    given = [option for option, value in only_own.items() if value]
    if args.data is None and given:
        parser.error(f"{' '.join(given)}: for your own data only, with --data and --target")


def _read_data(args: argparse.Namespace) -> list[DataSet]:
    """Return the data sets that the arguments name."""
    if args.data is None:
        train_size = 100 if args.train_size is None else args.train_size
        return bundled_data(train_size, list(dict.fromkeys(args.datasets or [_DEFAULT_DATASET])))
    return [
        csv_data(
            args.data,
            args.target,
            args.train_size,
            encode=args.encode,
            drop_missing=args.drop_missing,
            drop_rare=args.drop_rare,
            drop_columns=args.drop_columns or (),
        )
    ]


def _output_paths(prefix: str) -> tuple[Path, Path]:
    """Return the paths of the result file and of the plot, once they are known to be writable."""
    if Path(f"{prefix}.json").name == ".json":
        raise ValueError(
            f"--output {prefix!r} must end in a name, to which .json and .png are added."
        )
    document = Path(f"{prefix}.json")
    plot = Path(f"{prefix}.png")
    for path in (document, plot):
        is_new = not path.exists()
        try:
            path.open("ab").close()  # an older file keeps its content until then
        except OSError as error:
            raise ValueError(
                f"--output: {path} cannot be written ({error.strerror}): give a prefix in a folder "
                "that exists and may be written."
            ) from error
        if is_new:
            path.unlink()
    return document, plot


def _compare_all(
    data_sets: Sequence[DataSet], settings: Settings, repeats: int, random_state: int
) -> tuple[list[Comparison], bool]:
    """Return the comparisons up to the end or Ctrl-C, and whether they are complete."""
    results: list[Comparison] = []
    try:
        for data in data_sets:
            comparison = Comparison(data, split_data(data, random_state))
            results.append(comparison)
            for outcome in compare(data, settings, repeats, random_state, report=_print_to_stderr):
                comparison.outcomes.append(outcome)
                if outcome.failure is not None:
                    _complain(f"{outcome.method} failed: {outcome.failure}")
    except KeyboardInterrupt:
        _complain("stopped; methods that were done before are kept")
        return results, False
    return results, True


def _format_report(results: Sequence[Comparison], settings: Settings, repeats: int) -> str:
    """Return the tables, what they say, the convergence and the notes as text."""
    lines = []
    for comparison in results:
        split = comparison.first
        outcomes = comparison.outcomes
        splits = "1 random split" if repeats == 1 else f"{repeats} random splits"
        lines += [
            f"\n== {comparison.data.name}: {len(split.y_train)} training and {len(split.y_test)} "
            f"test rows, {split.X_train.shape[1]} features, {splits} ==\n",
            *(f"{note}." for note in comparison.data.notes),
            score_table(outcomes, SHOWN_SCORES),
            f"({KEY if can_rank(outcomes) else ARROWS}{_EXPLANATION if repeats > 1 else ''})",
            _describe_grid(settings),
            *(f"\n{text}" for text in [loss_differences(outcomes)] if text),
            *(f"\n{textwrap.fill(text, _WIDTH)}" for text in [conclusion(outcomes)] if text),
        ]
        convergence = convergence_report(outcomes, settings.max_rhat)
        lines += [f"\n-- convergence --\n{convergence}"] if convergence else []
        for outcome in outcomes:
            failure = [] if outcome.failure is None else [f"failed: {outcome.failure}"]
            for note in failure + outcome.notes:
                lines.append(f"note ({outcome.method}, split {outcome.split + 1}): {note}")
    return "\n".join(lines) + "\n"


def _describe_grid(settings: Settings) -> str:
    """Say how the SVM is tuned, and where more scores are."""
    if settings.svm_grid == "small":
        tried = "the best of 20 pairs of C and gamma; --svm-grid full tries 110"
    else:
        tried = "the best of 110 pairs of C and gamma"
    return f"(SVM: {tried}; the result file has more scores)"


def _save(path: Path, write: Callable[[Path], object], text: str | None = None) -> bool:
    """Write a file, or a copy in a new temporary folder if that fails, and print the path.

    If the copy fails too, `text` is printed. Return whether the file itself was written.
    """
    try:
        write(path)
        return _print(f"saved {path}")
    except OSError as error:
        _complain(f"{path} cannot be written: {error}")
    try:
        spare = Path(tempfile.mkdtemp(prefix="skgpmcmc_compare_")) / path.name
        write(spare)
        _complain(f"saved {spare} instead")
    except OSError as error:
        _complain(f"nor can a temporary file: {error}")
        if text is not None:
            _print(text)
    return False


def _print(text: str) -> bool:
    """Print a text, and return whether that worked; a closed output is no reason to stop."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        # A terminal without arrows shows question marks.
        print(text.encode(encoding, errors="replace").decode(encoding), flush=True)
    except OSError as error:
        # Python flushes the output again at its end, and must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        _complain(f"cannot print ({error}); what is saved is complete")
        return False
    return True


def _print_to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _complain(problem: object) -> None:
    _print_to_stderr(f"skgpmcmc compare: {problem}")


if __name__ == "__main__":
    raise SystemExit(main())
