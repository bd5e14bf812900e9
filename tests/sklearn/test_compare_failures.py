"""The command line when something is wrong: it says what, says it early, and keeps what is done."""

import io
import json
import os
import sys
import tempfile
import tracemalloc
from functools import partial

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression

from skgpmcmc import __main__ as command
from skgpmcmc.__main__ import main
from skgpmcmc.compare import csv_file as reader
from skgpmcmc.compare.csv_file import csv_data
from skgpmcmc.compare.data import DataSet, check_data
from skgpmcmc.compare.methods import SCORES, SHOWN_SCORES

from ..helpers import in_one_test

HEADER = "a,b,kind"


def table(labels, header=HEADER, seed=0):
    """CSV text with two features, and these labels in the last column."""
    rng = np.random.default_rng(seed)
    return "\n".join([header, *(f"{rng.normal()},{rng.normal()},{label}" for label in labels)])


TWO_CLASSES = table(["yes", "no"] * 10)


class Acting(ClassifierMixin, BaseEstimator):
    """A classifier that does something when it is fitted, and predicts the prior."""

    def __init__(self, act):
        self.act = act

    def fit(self, X, y):
        self.act()
        self.classes_, counts = np.unique(y, return_counts=True)
        self.prior_ = counts / len(y)
        return self

    def predict_proba(self, X):
        return np.tile(self.prior_, (len(X), 1))


def stop():
    raise KeyboardInterrupt


def fail():
    raise RuntimeError("no mode was\nfound")


@pytest.fixture
def use_methods(monkeypatch):
    """Replace the methods that are compared."""

    def use(**methods):
        monkeypatch.setattr("skgpmcmc.compare.methods.make_methods", lambda *_: methods)

    return use


@pytest.fixture
def compared(tmp_path, capsys):
    """Run the command on a CSV text; returns its status, what it prints and its JSON."""

    def run(text, *arguments, target="kind", prefix=tmp_path / "out"):
        path = tmp_path / "own.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        fixed = ["compare", "--data", str(path), "--target", target, "--output", str(prefix)]
        status = main([*fixed, *arguments])
        document = tmp_path / "out.json"
        found = json.loads(document.read_text("utf-8")) if document.is_file() else None
        return status, capsys.readouterr(), found

    return run


# --- what is wrong before the first fit -----------------------------------------------------------


@in_one_test(
    "text, message",
    [
        ("", "own.csv is empty"),
        ("a,b,kind\n\n", "own.csv has a header row and nothing below it"),
        ("kind\nyes\nno\n", "no column but the target 'kind' is left"),
        (table("ab", "a,a,kind"), "2 columns of the header are called 'a'"),
        ("a;b;kind\n1;2;x\n", r"not a column; .*Commas must separate"),
        (
            "a,b,kind\n1,2,x\n\n3,4,\n",
            "column 'kind': the target is missing in line 4: add --drop-m",
        ),
        ("a,b,kind\n1,2,x\n3,4, NaN\n", "column 'kind': the target is missing in line 3"),
        (
            "a,b,kind\n1,2,x\n\n3,red,x\n",
            "column 'b': 'red' in line 4 is not a number, .* --encode to use its 2 texts",
        ),
        ("a,b,kind\n1,1e300,x\n", "column 'b': '1e300' in line 2 is too large"),
        ('a,b,kind\n1,2,"x\ny"\n3,z\n', "line 4 has 2 cells, the header 3"),
        (HEADER.encode() + b"\n1,2,x\n3,4,gr\xf6n\n", "own.csv, line 3 holds the byte 0xf6"),
        (TWO_CLASSES.encode("utf-16"), "own.csv, line 1 holds the byte 0xff"),
        (TWO_CLASSES.encode("utf-16-le"), "'kind' is not a column; the columns are"),
        ("a,,kind\n1,2,x\n", "header has no name for column 2: give it one"),
        ("a,,,kind\n1,2,3,x\n", "header has no name for column 2, 3:"),
        ("a,b,kind\n1,,x\n", "column 'b': the value is missing in line 2: add --drop-missing"),
        ("a,b,kind\n1,1_0,x\n1,2,x\n1,3,x", "column 'b': '1_0' in line 2 is not a finite number"),
        ("a,b,kind\n1,2,x\n1,inf,x", "column 'b': 'inf' in line 3 is not a finite number"),
        ("a,b,kind\n1,\u0661,x\n", "column 'b': .* in line 2 is not a number, but text"),
        ("a,b,kind\n1,2\0,x\n", "column 'b': .* in line 2 is not a number, but text"),
        (table("ab" * 30, "id,b,kind").replace("\n", "\nz"), "60 texts in 60 rows are too many"),
        ('a,b,kind\n1,"2,x\n3,4,y\n', "line 3: unexpected end of data"),
        ('a,b,kind\n1,"2"3,x\n', "line 2: ',' expected after '\"'"),
        ("a,b,kind\n1," + 10**6 * "2", "line 2: field larger than field limit"),
        ("a,b,kind\n1," + 10**5 * "z" + ",x\n", "'zzz*'... in line 2 is not a number"),
        (",".join(["a"] * 10**6), "has 1000000 columns, and at most 10000"),
        ("a,b,kind\n" + 10**7 * "\n", "has about 10000003 cells, and at"),
        (2 * (",".join(map(str, range(9999))) + "\n"), r"'19'\] and 9979 more\."),
        (table(np.linspace(0, 1, 30)), "'kind' holds 30 different numbers in 30 rows.*regressor"),
        (table(range(30)), "'kind' holds 30 different numbers"),
        (table(np.arange(100) % 25 / 2), "'kind' holds 25 different numbers"),
        (table("x" * 8), "the target 'kind' holds one class only, 'x'"),
        (table("aaaabbbbc"), r"1 class with too few rows: 'c' \(1 row\)\. .* add --drop-rare"),
        (table("aaabbb"), r"2 classes with too few rows: 'a' \(3 rows\), 'b'"),
    ],
)
def test_compare_refuses_a_bad_file_before_any_fit(compared, use_methods, text, message):
    use_methods(only=partial(Acting, fail))
    status, printed, found = compared(text)
    assert status == 2
    assert found is None
    assert "split 1/1" not in printed.err  # no progress line: nothing was fitted
    with pytest.raises(ValueError, match=message):
        raise ValueError(printed.err)


def test_compare_names_all_faults_of_a_file_at_once(compared, use_methods):
    use_methods(only=partial(Acting, fail))
    good = [f"{k},{k},red,{'ab'[k % 2]}" for k in range(20)]
    bad = ["NA,1,red,a", "1,x,blue,b", "2,1e200,blue,a", "3,1,blue,c", "4,1,blue,?"]
    status, printed, _ = compared("\n".join(["x,y,color,kind", *good, *bad]))
    assert status == 2
    first, *faults = printed.err.splitlines()
    assert first.endswith("own.csv has 6 faults:")
    for fault, (words, remedy) in zip(
        faults,
        [
            ("column 'kind': the target is missing in line 26", "--drop-missing"),
            ("column 'x': the value is missing in line 22", "--drop-missing"),
            ("column 'y': 'x' in line 23 is not a finite number", "correct the cells"),
            ("column 'y': '1e200' in line 24 is too large", "choose another unit"),
            ("column 'color': 'red' in line 2 is not a number, but text", "--encode"),
            ("the target 'kind' has 1 class with too few rows: 'c' (1 row)", "--drop-rare"),
        ],
        strict=True,
    ):
        assert words in fault
        assert remedy in fault


@in_one_test(
    "arguments, message",
    [
        (["--drop-columns", "z"], "--drop-columns 'z' is not a column"),
        (["--drop-columns", "kind"], "--drop-columns holds the target 'kind'"),
        (["--drop-columns", "a", "b"], "no column but the target 'kind' is left"),
        (["--drop-missing"], "Column 'b' has most missing values, 4 of 4"),
        (["--drop-columns", "b", "--drop-rare"], "without its rare classes .* no class"),
    ],
)
def test_compare_refuses_options_that_leave_no_rows_or_columns(compared, arguments, message):
    status, printed, _ = compared("a,b,kind\n1,,x\n2,NA,x\n3,?,y\n4,nan,y\n", *arguments)
    assert status == 2
    with pytest.raises(ValueError, match=message):
        raise ValueError(printed.err)


def test_endless_file_is_read_only_up_to_the_limit(monkeypatch, tmp_path):
    monkeypatch.setattr(reader, "_MOST_BYTES", 10**6)
    path = tmp_path / "own.csv"
    with path.open("wb") as file:
        file.truncate(10**12)  # takes no room on the disk
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="is larger than 1 MB: leave out rows or columns"):
            csv_data(path, "kind")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4e6


def test_compare_refuses_missing_files_and_folders(tmp_path, capsys):
    for name in ("nothing.csv", ""):
        status = main(["compare", "--data", str(tmp_path / name), "--target", "kind"])
        assert status == 2
        assert f"{tmp_path / name} cannot be read" in capsys.readouterr().err


def test_compare_refuses_data_without_a_target(capsys):
    with pytest.raises(SystemExit):
        main(["compare", "--data", "x.csv"])
    assert "--data and --target go together" in capsys.readouterr().err


@in_one_test(
    "argument, value",
    [
        ("--train-size", "0"),
        ("--train-size", "-3"),
        ("--train-size", "many"),
        ("--repeats", "0"),
        ("--n-draws", "0"),
        ("--n-warmup", "-1"),
        ("--max-rhat", "1"),
        ("--max-rhat", "nan"),
        ("--n-jobs", "0"),
        ("--random-state", "-1"),
        ("--random-state", "4294967296"),
    ],
)
def test_compare_refuses_bad_arguments_by_name(capsys, argument, value):
    with pytest.raises(SystemExit) as exit_:
        main(["compare", argument, value])
    assert exit_.value.code == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert argument in message
    assert value in message


def test_compare_refuses_a_train_size_out_of_range(compared, capsys):
    status, printed, _ = compared(TWO_CLASSES, "--train-size", "19")
    assert status == 2
    assert "--train-size must lie between 6 and 18" in printed.err
    # The second of the bundled sets has too few rows, and the first is not fitted in vain.
    arguments = ["--datasets", "breast-cancer", "digits", "--train-size", "400"]
    assert main(["compare", *arguments]) == 2
    assert capsys.readouterr().err.startswith("skgpmcmc compare: --train-size must lie between 6")


@pytest.mark.parametrize(("train_size", "n_train"), [(12, 1), (46, 4)])
def test_compare_refuses_splits_that_leave_a_class_too_few_rows(train_size, n_train):
    y = np.repeat(["many", "few"], [44, 4])
    data = DataSet("toy", np.zeros((48, 1)), y, train_size, balanced=False)
    message = f"'few' of 'toy' has 4 rows, of which split 1 has {n_train} for training"
    with pytest.raises(ValueError, match=message):
        check_data(data, repeats=2, random_state=0)


@pytest.mark.parametrize("suffix", [".json", ".png"])
def test_compare_refuses_unwritable_output_before_any_fit(compared, use_methods, tmp_path, suffix):
    use_methods(only=partial(Acting, fail))
    (tmp_path / f"taken{suffix}").mkdir()
    for prefix in (tmp_path / "taken", tmp_path / "nowhere" / "out", f"{tmp_path}/", ""):
        status, printed, _ = compared(TWO_CLASSES, prefix=prefix)
        assert status == 2
        assert "skgpmcmc compare: --output" in printed.err
        assert "split 1" not in printed.err


def test_compare_keeps_older_results_until_new_ones_are_complete(compared, use_methods, tmp_path):
    use_methods(only=partial(Acting, stop))
    status, _, found = compared(TWO_CLASSES)
    assert (status, found) == (130, None)
    assert not list(tmp_path.glob("out*"))
    (tmp_path / "out.json").write_text('"old"')
    assert compared(TWO_CLASSES)[2] == "old"
    assert compared("", "--repeats", "2")[2] == "old"


# --- files that are fine --------------------------------------------------------------------------


def test_csv_reader_handles_byte_order_mark_blank_lines_and_quotes(tmp_path):
    path = tmp_path / "own.csv"
    rows = 4 * '"x, 1",1\r\n\r\ny,2\r\n  \r\n'
    path.write_text(f'kind,"a"\r\n{rows}', encoding="utf-8-sig", newline="")
    data = csv_data(path, "kind")
    assert data.y.tolist() == 4 * ["x, 1", "y"]
    np.testing.assert_array_equal(data.X, 4 * [[1.0], [2.0]])


def test_csv_reader_accepts_numbers_as_classes(tmp_path):
    path = tmp_path / "own.csv"
    path.write_text(table(np.arange(24) % 3))
    assert csv_data(path, "kind").train_size == 16
    path.write_text(table(np.arange(48) % 8 / 2))  # grades with halves
    assert len(np.unique(csv_data(path, "kind").y)) == 8


# --- what is done is kept -------------------------------------------------------------------------


def test_failing_method_has_a_row_and_its_reason(compared, use_methods):
    use_methods(first=LogisticRegression, second=partial(Acting, fail), third=DummyClassifier)
    status, printed, found = compared(TWO_CLASSES, "--repeats", "2")
    assert status == 1
    rows = {line.split()[0]: line.split()[1:] for line in printed.out.splitlines() if line}
    assert rows["second"] == ["-"] * len(SHOWN_SCORES)
    assert "±" in rows["first"]
    assert "note (second, split 2): failed: RuntimeError: no mode was found" in printed.out
    assert [run["failure"] for run in found["runs"]] == 2 * [
        None,
        "RuntimeError: no mode was found",
        None,
    ]
    assert [run["split"] for run in found["runs"]] == 3 * [0] + 3 * [1]
    assert found["runs"][1]["scores"] == dict.fromkeys(SCORES)
    done = [run["scores"] for run in found["runs"] if run["failure"] is None]
    assert all(0 <= scores["accuracy"] <= 1 for scores in done)
    assert found["complete"] is True


def test_method_that_fails_on_one_split_is_marked_in_the_table(compared, use_methods):
    actions = iter([fail, int])
    use_methods(only=lambda: Acting(next(actions)))
    status, printed, _ = compared(TWO_CLASSES, "--repeats", "2")
    assert status == 1
    assert printed.out.split("only (1 of 2 splits)")[1].split()[0] == "0.500"


def test_ctrl_c_keeps_the_results_of_complete_methods(compared, use_methods, tmp_path):
    use_methods(first=LogisticRegression, second=partial(Acting, stop), third=DummyClassifier)
    status, printed, found = compared(TWO_CLASSES)
    assert status == 130
    assert [run["method"] for run in found["runs"]] == ["first"]
    assert found["complete"] is False
    assert "== own: 14 training and 6 test rows" in printed.out
    assert "stopped" in printed.err
    assert (tmp_path / "out.png").stat().st_size > 10_000


def test_results_are_saved_elsewhere_if_the_disk_fails_meanwhile(
    compared, use_methods, tmp_path, monkeypatch
):
    spare = tmp_path / "spare"
    spare.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(spare))
    use_methods(
        first=partial(Acting, (tmp_path / "out.json").mkdir), second=partial(Acting, lambda: None)
    )
    status, printed, _ = compared(TWO_CLASSES)
    assert status == 1
    (kept,) = spare.glob("*/out.json")
    assert f"saved {kept} instead" in printed.err
    assert [run["failure"] for run in json.loads(kept.read_text("utf-8"))["runs"]] == [None, None]
    assert f"saved {tmp_path / 'out.png'}" in printed.out


def test_results_are_printed_if_no_file_can_be_written(
    compared, use_methods, tmp_path, monkeypatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    use_methods(only=partial(Acting, (tmp_path / "out.json").mkdir))
    status, printed, _ = compared(TWO_CLASSES)
    assert status == 1
    document, _ = json.JSONDecoder().raw_decode(printed.out)
    assert document["runs"][0]["method"] == "only"
    assert "== own" in printed.out


def test_results_are_saved_before_the_plot(compared, use_methods, tmp_path, monkeypatch):
    use_methods(only=DummyClassifier)
    monkeypatch.setattr(command, "save_plot", lambda *_: fail())
    with pytest.raises(RuntimeError, match="no mode"):
        compared(TWO_CLASSES)
    assert json.loads((tmp_path / "out.json").read_text("utf-8"))["runs"]


class FullDisk:
    """A standard output that nothing can be written to."""

    def __init__(self, file):
        self.fileno = file.fileno

    def write(self, _):
        raise OSError(28, "No space left on device")

    def flush(self):
        """Nothing is kept back."""


def test_results_are_saved_even_if_nothing_can_be_printed(
    compared, use_methods, tmp_path, monkeypatch
):
    use_methods(only=DummyClassifier)
    with (tmp_path / "stdout").open("w") as file:
        monkeypatch.setattr(sys, "stdout", FullDisk(file))
        status, printed, found = compared(TWO_CLASSES)
    assert status == 1
    assert found["runs"]
    assert "cannot print" in printed.err
    assert os.path.exists(tmp_path / "out.png")


def test_a_terminal_without_arrows_shows_question_marks(compared, use_methods, monkeypatch):
    use_methods(only=DummyClassifier)
    screen = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    monkeypatch.setattr(sys, "stdout", screen)
    status, *_ = compared(TWO_CLASSES, "--repeats", "2")
    assert status == 0
    shown = screen.buffer.getvalue().decode("latin-1")
    assert "accuracy ?" in shown
    assert "±" in shown


# --- no plot --------------------------------------------------------------------------------------


@in_one_test(
    "method, text, status, reason",
    [
        (
            DummyClassifier,
            table("abc" * 6),
            0,
            "abstention curves are for two classes, and 'own' has 3",
        ),
        (partial(Acting, fail), TWO_CLASSES, 1, "no method has finished"),
    ],
)
def test_no_plot_is_made_without_results_to_plot(
    compared, use_methods, tmp_path, method, text, status, reason
):
    use_methods(only=method)
    found, printed, _ = compared(text)
    assert found == status
    assert f"no plot: {reason}" in printed.out
    assert not (tmp_path / "out.png").exists()


def test_compare_without_matplotlib_says_how_to_get_a_plot(compared, use_methods, monkeypatch):
    use_methods(only=DummyClassifier)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    status, printed, _ = compared(TWO_CLASSES)
    assert status == 0
    assert 'no plot: matplotlib is not installed: pip install "skgpmcmc[plots]"' in printed.out
