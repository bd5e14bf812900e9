"""What the documentation says is so: examples run, docstrings are complete, names exist."""

import dataclasses
import doctest
import functools
import importlib
import importlib.util
import inspect
import io
import json
import pkgutil
import re
import runpy
import subprocess
from pathlib import Path

import numpy as np
import pytest
from numpydoc.docscrape import get_doc_object
from numpydoc.validate import validate
from sklearn.base import BaseEstimator

import skgpmcmc
from skgpmcmc.importance import sequential
from skgpmcmc.importance.gaussian import KEPT_AVERAGED_PRECISION, KEPT_PRECISION
from skgpmcmc.samplers import PseudoMarginal
from skgpmcmc.samplers.base import _N_BURN_IN
from skgpmcmc.setup import hamiltonian
from skgpmcmc.setup.emulator.options import EmulatorOptions
from skgpmcmc.transitions import rotation
from skgpmcmc.transitions.particles import RetainedParticle

from ..helpers import DATA_VARIABLE

ROOT = Path(__file__).parents[2]
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

MODULES = [
    "skgpmcmc",
    *(
        module.name
        for module in pkgutil.walk_packages(skgpmcmc.__path__, "skgpmcmc.")
        if "._" not in module.name  # private rooms, and the command line, which runs on import
    ),
]
PAGES = sorted((ROOT / "docs").glob("*.rst"))


def with_examples(modules):
    """Names of the modules whose source has examples."""
    sources = {name: Path(importlib.util.find_spec(name).origin) for name in modules}
    return [name for name, path in sources.items() if ">>> " in path.read_text("utf-8")]


# --- examples in docstrings, pages and scripts ----------------------------------------------------


def run_doctests(tests):
    """Run some doctests; returns the reports of those that fail."""
    runner = doctest.DocTestRunner(optionflags=OPTIONS)
    report = io.StringIO()
    for test in tests:
        runner.run(test, out=report.write)
    return report.getvalue()


def all_but(some, rest):
    """Parameters of which only some are tried in the plain run, the rest at length."""
    return [
        name if name in some else pytest.param(name, marks=pytest.mark.statistical)
        for name in (*some, *(other for other in rest if other not in some))
    ]


@pytest.mark.parametrize(
    "name", all_but(["skgpmcmc.metrics", "skgpmcmc.baselines.svm"], with_examples(MODULES))
)
def test_examples_in_docstrings_print_what_they_show(name):
    tests = doctest.DocTestFinder().find(importlib.import_module(name), name)
    assert sum(len(test.examples) for test in tests) > 0
    assert run_doctests(tests) == ""


@pytest.mark.statistical
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if ">>> " in page.read_text("utf-8")],
    ids=lambda page: page.name,
)
def test_examples_in_pages_print_what_they_show(page):
    text = page.read_text("utf-8")
    if ">>> from skfb" in text:
        pytest.importorskip("skfb")
    test = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    assert run_doctests([test]) == ""


EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))
TUTORIALS = sorted((ROOT / "tutorials").glob("*.py"))


def test_examples_need_no_download_and_no_environment_variable():
    texts = {script.name: script.read_text("utf-8") for script in (*TUTORIALS, *EXAMPLES)}
    assert texts
    words = (DATA_VARIABLE, "fetch_", "environ")
    assert [(name, word) for name in texts for word in words if word in texts[name]] == []


# Chains that are too short say so, and so does ArviZ of them.
too_short = (
    pytest.mark.filterwarnings("ignore:Chains (are|have):sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:Estimated shape parameter of Pareto:UserWarning"),
)


@pytest.fixture
def run_script(monkeypatch):
    """`run_script(path)` gives the variables of a script, and looks at the size of its figures."""
    plt = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.setattr(plt, "show", lambda: None)
    plt.switch_backend("Agg")

    def run(script):
        plt.close("all")
        variables = runpy.run_path(str(script), run_name="__main__")
        figures = [plt.figure(number) for number in plt.get_fignums()]
        assert figures
        assert [fig for fig in figures if fig.get_figwidth() > 8.0] == []
        assert [fig for fig in figures if not titles(fig)] == []  # pages read them to the blind
        return variables

    yield run
    plt.close("all")


def titles(fig):
    """Titles of a figure and of its panels: its alternative text in the gallery."""
    return [title for title in (fig.get_suptitle(), *(ax.get_title() for ax in fig.axes)) if title]


@pytest.fixture
def short_chains(monkeypatch):
    """Every fit makes two chains of 100 draws, which are too short to be trusted."""

    def shortened(fit):
        @functools.wraps(fit)
        def wrapped(self, *args, **kwargs):
            self.set_params(n_chains=2, n_draws=100, target_ess=None)
            return fit(self, *args, **kwargs)

        return wrapped

    for name in skgpmcmc.__all__:
        cls = getattr(skgpmcmc, name)
        if hasattr(cls, "fit"):
            monkeypatch.setattr(cls, "fit", shortened(cls.fit))


@pytest.mark.statistical
@pytest.mark.parametrize("script", TUTORIALS, ids=lambda script: script.name)
def test_tutorials_run_without_warnings(script, run_script):
    """As they stand: their fits converge."""
    run_script(script)


@pytest.mark.statistical
@pytest.mark.parametrize("script", [pytest.param(s, marks=too_short, id=s.name) for s in EXAMPLES])
@pytest.mark.usefixtures("short_chains")
def test_example_scripts_run_with_short_chains(script, run_script):
    """With short chains. When pages are built, chains that do not converge are errors."""
    run_script(script)


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore:Chains (are|have):sklearn.exceptions.ConvergenceWarning")
@pytest.mark.usefixtures("short_chains")
def test_posterior_of_the_exposure_example_has_one_mode(run_script):
    """Chains do not find a second one, at a length-scale of a millimeter, and do not say so."""
    model = run_script(ROOT / "examples" / "use" / "plot_exposure.py")["models"]["poisson"]

    def log_density(variance, length):
        theta = [variance, length]
        priors = model.priors_.values()
        log_prior = sum(p.logpdf(x) + np.log(x) for p, x in zip(priors, theta, strict=True))
        return model.log_evidence(method="ep", theta=theta).value + log_prior

    short, long = (
        max(log_density(v, length) for v in (0.5, 1.0, 2.0) for length in lengths)
        for lengths in ((0.1, 0.13, 0.18), (3.0, 5.0, 7.0))
    )
    assert short < long - 10.0


# --- docstrings -----------------------------------------------------------------------------------

#: What numpydoc checks everywhere. Left out: SS02, as a formula may open a summary; GL01 and GL02,
#: which are about line breaks; and that every docstring has an extended summary, examples and
#: references to others.
EVERYWHERE = {
    *(f"GL{k:02d}" for k in (3, 5, 6, 7, 8, 9, 10)),
    *("SS01", "SS03", "SS04", "SS05", "SS06"),
    *(f"PR{k:02d}" for k in range(2, 11)),
    *("RT02", "RT03", "RT04", "RT05", "YD01", "SA02", "SA03", "SA04"),
}
#: Where all parameters and results are described. Elsewhere one sentence may do; but a docstring
#: that describes one parameter describes all.
SKIN = ("estimators", "baselines", "metrics", "displays", "testing")


def public_names(module):
    """What a module makes public: its ``__all__``, or what it defines without an underscore."""
    defined = [
        name
        for name, obj in vars(module).items()
        if not name.startswith("_") and getattr(obj, "__module__", None) == module.__name__
    ]
    return getattr(module, "__all__", defined)


def public_objects():
    """Public classes and functions of public modules, and members of these classes."""
    found, seen = {}, set()
    for name in MODULES:
        module = importlib.import_module(name)
        for public in public_names(module):
            obj = getattr(module, public)
            if not (inspect.isclass(obj) or inspect.isfunction(obj)) or obj in seen:
                continue
            seen.add(obj)
            path = f"{obj.__module__}.{obj.__qualname__}"
            found[path] = obj
            for key, member in members_of(obj) if inspect.isclass(obj) else ():
                if member not in seen:
                    seen.add(member)
                    found[f"{path}.{key}"] = member
    return found


def members_of(cls):
    """Public methods and properties that this package gives to a class, inherited ones as well."""
    kinds = (classmethod, staticmethod, property)
    seen = set()  # what a class overrides is not its own any more
    for base in cls.__mro__:
        if base.__module__.startswith("skgpmcmc"):
            for key, member in vars(base).items():
                if key in seen:
                    continue
                seen.add(key)
                ours = getattr(member, "__module__", "skgpmcmc").startswith("skgpmcmc")
                if not key.startswith("_") and (
                    (ours and inspect.isfunction(member)) or isinstance(member, kinds)
                ):
                    yield key, member


def is_record(obj):
    """Whether the fields of a class are its parameters, described elsewhere in the class."""
    protocol = getattr(obj, "_is_protocol", False)
    record = dataclasses.is_dataclass(obj) and not issubclass(obj, BaseEstimator)
    return protocol or record or hasattr(obj, "_fields")


def errors_of(path, obj):
    """What numpydoc finds wrong in the docstring of a public object, of all that is asked of it."""
    wanted = set(EVERYWHERE)
    room = path.split(".")[1]
    if not is_record(obj):
        if room in SKIN:
            wanted |= {"PR01", "RT01"}
        elif get_doc_object(obj)["Parameters"]:
            wanted.add("PR01")
    # What goes in step yields what it asks for, which is nothing to those who call it.
    returned = getattr(obj, "__annotations__", {}).get("return", "")
    if str(returned).startswith(("Asking", "Moving")):
        wanted.remove("YD01")
    return [f"{path}: {code}: {text}" for code, text in validate(path)["errors"] if code in wanted]


def test_public_docstrings_follow_numpydoc():
    objects = public_objects()
    assert len(objects) > 1000
    assert [error for path, obj in objects.items() for error in errors_of(path, obj)] == []


def test_docstring_check_finds_missing_docstrings_and_parameters():
    """Of a function that has none, and of one that leaves a parameter out."""
    assert errors_of("tests.docs.test_docs.undocumented", undocumented)
    errors = errors_of("tests.docs.test_docs.half_documented", half_documented)
    assert any("PR01" in error and "second" in error for error in errors)


def undocumented(first):
    return first


def half_documented(first, second):
    """Return the first.

    Parameters
    ----------
    first : float
        It is returned.

    Returns
    -------
    float
        The first.
    """
    return first


def test_modules_have_docstrings_and_define_the_names_in_all():
    modules = {name: importlib.import_module(name) for name in MODULES}
    assert [name for name, module in modules.items() if not module.__doc__] == []
    assert [
        f"{name}.{public}"
        for name, module in modules.items()
        for public in getattr(module, "__all__", ())
        if not hasattr(module, public)
    ] == []


# --- what the documentation refers to -------------------------------------------------------------


def test_readme_begins_with_its_two_commands():
    readme = (ROOT / "README.md").read_text("utf-8")
    blocks = re.findall(r"^```(?:shell|sh|bash|console)\n(.*?)^```", readme, re.M | re.S)
    lines = [line for block in blocks for line in block.splitlines()]
    commands = [
        "python3 -m venv .venv "
        '&& .venv/bin/pip install ".[plots,progress]" && .venv/bin/python -m skgpmcmc compare',
        'python3 -m venv .venv && .venv/bin/pip install -e ".[test]" && .venv/bin/pytest',
    ]
    assert lines[:2] == commands
    assert re.findall(r"^python3 -m venv .*", readme, re.M) == commands


def project_files():
    """Files that belong to the project, as git sees it."""
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listing.returncode != 0:
        pytest.skip("not a git repository")
    return [path for line in listing.stdout.splitlines() if (path := ROOT / line).is_file()]


def test_no_file_contains_a_path_of_somebodys_machine():
    # Joined from pieces, so that this file does not name them either.
    words = [
        "/".join(parts)
        for parts in (("", "work", ""), ("", "tmp", "w"), ("", "home", ""), ("", "root", ""))
    ] + [".".join(parts) for parts in (("", "library"), ("methods", "md"), ("design", "md"))]
    words.append("-".join(("farm", "")))
    found = [
        f"{path.relative_to(ROOT)}: {word}"
        for path in project_files()
        for word in words
        if word.encode() in path.read_bytes()
    ]
    assert found == []


def in_pages(pattern):
    """Every match of a pattern in the pages, with the name of the page."""
    return [
        (page.name, match)
        for page in PAGES
        for match in re.findall(pattern, page.read_text("utf-8"))
    ]


@pytest.mark.parametrize(("page", "most"), [("reading_fit", 20), ("reading_predict", 20)])
def test_reading_pages_name_at_most_twenty_files(page, most):
    text = (ROOT / "docs" / f"{page}.rst").read_text("utf-8")
    named = set(re.findall(r"skgpmcmc/[\w/]+\.py", text))
    assert 8 <= len(named) <= most


def test_pages_name_files_that_exist():
    named = in_pages(r"``((?:skgpmcmc|tests|benchmarks|examples|docs)/[\w./]*)``")
    assert named
    assert [found for found in named if not (ROOT / found[1]).exists()] == []


def test_pages_print_values_and_not_whether_a_comparison_holds():
    assert in_pages(r"(?m)^(?:>>>|\.\.\.) .*\bbool\(.*") == []


def test_pages_show_pictures_of_examples_that_exist():
    pictures = [
        (page, (folder, f"{script}.py"))
        for page, (folder, script) in in_pages(
            r"auto_examples/((?:\w+/)?)images/sphx_glr_(\w+)_\d{3}\.png"
        )
    ]
    assert pictures
    assert [
        found for found in pictures if not (ROOT / "examples" / "".join(found[1])).is_file()
    ] == []


def test_every_public_name_of_the_package_has_a_page():
    pages = [(ROOT / "docs" / f"{name}.rst").read_text("utf-8") for name in ("api", "api_parts")]
    names = re.findall(r"^   ([\w.]+)$", "\n".join(pages), re.M)
    listed = set(names)
    assert sorted(names) == sorted(listed)  # each on one page, and once
    for room in ("", "baselines.", "metrics.", "displays.", "samplers.", "likelihoods."):
        module = importlib.import_module(f"skgpmcmc.{room}".rstrip("."))
        objects = {name: getattr(module, name) for name in module.__all__}
        public = {room + name for name, obj in objects.items() if inspect.isroutine(obj)}
        public |= {room + name for name, obj in objects.items() if inspect.isclass(obj)}
        assert public - listed == set()


# --- tables of measurements -----------------------------------------------------------------------


def cells(lines):
    """Rows of the list-tables among some lines."""
    rows = []
    for line in lines:
        if match := re.match(r"   ([* ]) - (.*)", line):
            rows += [[]] if match[1] == "*" else []
            rows[-1].append(match[2])
    return rows


def test_every_table_of_the_pages_has_rows(table_lines, tmp_path):
    tables = in_pages(r"\.\. benchmark-table:: (\S+)(?: (\S+))?")
    assert len(tables) > 50
    for page, (name, part) in tables:
        lines = table_lines(name, **({"part": part} if part else {}))
        assert not re.search("not there yet|Not measured", lines[0]), (page, name, part)
        in_sentences = part in ("settings", "verdict", "incomplete")
        assert in_sentences or len(cells(lines)) > 1, (page, name, part)
    assert "nothing.json`` *is not there yet.*" in table_lines("nothing", tmp_path)[0]


def test_the_committed_calibration_fails_nowhere(table_lines):
    assert all(float(row[3]) > 1e-3 for row in cells(table_lines("sbc"))[1:])


def test_comparison_table_has_means_errors_and_convergence(lines_of):
    scores = {"accuracy": 0.9, "log_loss": 0.3, "capacity_accuracy": None, "seconds": 1.0}
    chain = {"r_hat": [1.01, 1.02], "ess_bulk": [400.0, 300.0], "log_likelihood_sd": [0.1]}
    about = {"data": "toy", "n_train": 60, "n_test": 40}
    runs = [
        {
            **about,
            "method": method,
            "split": split,
            "scores": {**scores, "accuracy": 0.9 + 0.02 * split},
            "convergence": chain if method == "EP ML" else None,
        }
        for split in (0, 1)
        for method in ("EP ML", "SVM")
    ]
    rows = cells(lines_of("some", None, runs=runs))
    plain = "GP, hyper-parameters optimized (EP ML)"  # what `compare` calls it now
    assert [row[0] for row in rows] == ["method", plain, "SVM", "method", plain]
    assert rows[1][1] == "0.910 ± 0.010"
    assert rows[1][3] == "-"  # selective accuracy, which an older file does not have
    assert rows[1][4] == "undefined"
    assert rows[4][1:] == ["1.020", "300", "0.10"]


def test_table_of_regression_has_paired_differences(lines_of):
    methods = {
        "ours": [{"nlpd": 1.0, "rmse": 2.0}, {"nlpd": 3.0, "rmse": 4.0}],
        "theirs": [{"nlpd": 2.0, "rmse": 2.0}, {"nlpd": 4.0, "rmse": 5.0}],
    }
    results = {"toy": {"n_train": 6, "n_test": 4, "methods": methods}}
    rows = cells(lines_of("regression", results))
    assert rows[0][3:] == ["ours", "theirs", "paired difference"]
    assert rows[1][3:] == ["2.000 ± 1.000", "3.000 ± 1.000", "-1.000 ± 0.000"]
    assert rows[2][5] == "-0.500 ± 0.500"


def test_leave_one_out_table_has_elpd_errors_and_bad_rows(lines_of):
    one = {"elpd": -9.0, "se": 2.0, "n_bad": 0, "seconds": 1.5}
    other = {"elpd": -8.0, "se": 2.5, "n_bad": 3, "seconds": 0.1}
    fits = [{"integrated": {**one, "elpd": elpd}, "psis": other} for elpd in (-9.5, -8.5)]
    data = {"toy": {"integrated": one, "psis": other, "seconds_fit": 4.0}}
    results = {"fits": {"toy": fits, "more": fits}, "refits": {"toy": {"elpd": -9.04}}}
    results["data"] = data
    _, row = cells(lines_of("leave_one_out", results, "refits"))
    expected = ["toy", "-9.04", "-9.00 (0.50)", "+0.04", "0", "-8.00 (0.00)", "+1.04", "3"]
    assert row == expected
    _, row = cells(lines_of("leave_one_out", results, "data"))
    assert row == ["toy", "-9.00 ± 2.00", "0", "1.5", "-8.00 ± 2.50", "3", "0.1", "4.0"]


def test_table_of_recipes_beside_nuts_says_where_a_time_is_a_lower_bound(lines_of):
    ours = {"seconds_to_400": 5.0}
    nuts = {"seconds_to_400": 60.0, "chains": [2, 300, 250], "ess": 190.0, "r_hat": 1.004}
    nuts |= {"seconds_warmup": 5.0, "seconds_sampling": 7.0}
    found = {"ours": ours, "nuts": nuts, "ratio": 12.0, "largest_z": 1.5, "largest_z_latent": 0.5}
    slow = found | {"nuts": nuts | {"r_hat": 1.2}, "ratio": 2.0}
    short = found | {"nuts": nuts | {"ess": 9.0}}
    results = {"toy": found, "slow": slow, "short": short}
    _, first, second, third = cells(lines_of("recipe_peers", results))
    assert first == ["toy", "5.0", "60", "12", "2 x (300 + 250)", "190", "1.004", "1.50", "0.50"]
    assert second[2:4] == ["at least 60", "at least 2.0"]
    assert third[2:4] == ["not converged in 12", "none"]


def of_default_fits(*seconds):
    """What `benchmarks/default.py` keeps of one version, with the seconds of each seed."""
    runs = {
        str(seed): {
            "n_evaluations_before": 100.0 + 10 * seed,
            "per_evaluation": 0.8 + 0.1 * seed,
            "longest_stay": 5 + seed,
            "seconds_to_400": own,
            "max_r_hat": 1.002,
        }
        for seed, own in enumerate(seconds)
    }
    return {"moons": runs}


def test_default_fits_table_compares_before_with_after(lines_of):
    results = {
        "before": of_default_fits(2.0, 4.0),
        "after": of_default_fits(1.0, 2.0),
        "before, paired": of_default_fits(2.0, 2.0),
        "after, paired": of_default_fits(1.0, 1.0),
    }
    lines = lines_of("default", results)
    _, before, after = cells(lines)
    same = ["2", "0.85 (0.80)", "6"]
    assert before == ["moons", "before", *same, "3.0 (4.0)", "1.002"]
    assert after == ["moons", "after", *same, "1.5 (2.0)", "1.002"]
    assert "Seconds, after / before, geometric mean over 1 problems: 0.50." in lines
    assert lines_of("default", {}) == ["*Not measured yet.*", ""]


def test_set_up_table_lists_every_option_with_value_and_reason(table_lines, tmp_path):
    from set_up_tables import number_lines

    fields = dataclasses.fields(EmulatorOptions)
    head, *rows = cells(number_lines(results=tmp_path / "none.json"))
    assert head[:4] == ["part", "name", "value", "what it is"]
    assert [row[1] for row in rows] == [f"``{field.name}``" for field in fields]
    assert [float(row[2]) for row in rows] == [field.default for field in fields]
    assert all(row[0] and len(row[3]) > 10 for row in rows)  # a part, and a reason
    assert all(row[4:] == [""] * 4 for row in rows)
    after, other = of_default_fits(1.0, 2.0), of_default_fits(2.0, 4.0)
    document = {"results": {"numbers": after, f"{fields[-1].name} = 7": other}}
    (tmp_path / "default.json").write_text(json.dumps(document), "utf-8")
    _, *rows = cells(number_lines(results=tmp_path / "default.json"))
    assert all(row[4:] == [""] * 4 for row in rows[:-1])
    assert rows[-1][4:6] == ["7", "2.00"]


def test_comparative_table_has_ess_r_hat_and_order_of_convergence(lines_of):
    one = {"ess": [100.0, 300.0], "r_hat": {"1000": 1.5, "2000": None}, "operations": {"c": 2.0}}
    length = {"n_data": 1, "n_chains": 2, "n_draws": 2000}
    methods = {name: {"length": length, "sets": [one]} for name in ("AA", "PM")}
    results = {"5": {"lrg": {"n=100, d=2": {"order": "2|1", "methods": methods}}}}
    settings = {"iterations": 20_000}
    lines = lines_of("comparative_toy", results, "5", settings=settings)
    rows = cells(lines)
    assert rows[1][:4] == ["AA", "200 (100)", "", "131 (57)"]
    assert rows[1][4:] == ["1.50 inf", "2.00", "0.0050", "1 x 2 x 2000"]
    assert rows[2][:4] == ["PM", "200 (100)", "", "none"]  # the paper does not have it
    assert "Order of convergence: 2|1; in the paper: 3 5 1, 2 4." in lines
    assert lines_of("comparative_toy", results, "6") == ["*Not measured yet.*", ""]


SET_UP = EmulatorOptions()
LIFTED = SET_UP.lifted_power(2)
#: Numbers that the page of methods has in words, or computed: what they are, and what it says.
IN_WORDS = [
    (SET_UP.gradient_step, 0.25, "a quarter of a unit away from the best point"),
    (SET_UP.batch(1), 10, "8 + 2 p` new points"),
    (SET_UP.batch(0), 8, "8 + 2 p` new points"),
    (SET_UP.temperature(1), 2.5, "1 / (1 + 1.5 / p)"),
    (SET_UP.most_rounds, 12, "after twelve batches at most"),
    (SET_UP.usable_acceptance, 0.25, "(a predicted acceptance rate below a quarter,"),
    (SET_UP.first_length_scale, 4.0, "begin at four of the posterior's standard"),
    (_N_BURN_IN, 10, "makes ten iterations"),
    (_N_BURN_IN, 10, "ten iterations are discarded"),
    (SET_UP.windows(5, 1), [18, 18, 18, 54], "its four windows, of a batch of"),
    (rotation.MOST_ROTATED, 3, "With more than three hyper-parameters a proposal"),
    (hamiltonian._MOST_EMULATED, 4, "p > 4"),
    (round(1.0 - LIFTED, 2), 0.13, "e^{0.13 D}"),
    (round(SET_UP.lift / np.sqrt(2.0), 2), 0.13, "weight vary by :math:`0.13 \\, p^{1/4}`"),
    (KEPT_PRECISION, 0.9, "keeps 0.9 of the precision"),
    (KEPT_AVERAGED_PRECISION, 0.5, "(0.5 for a softmax)"),
    (SET_UP.other_probability, 0.03, "Three of a hundred moves are random-walk steps"),
    (SET_UP.other_probability, 0.03, "Three of a hundred moves multiply the period"),
    (RetainedParticle().n_steps, 2, "by two elliptical slice steps"),
    (sequential._PROBIT_BLOCK, 1, ""),
    (sequential._TABLE_BLOCK, 8, "Rows with tables are drawn in blocks of eight"),
]


def test_pages_state_the_committed_constants_of_the_set_up():
    methods, guide, samplers = (
        (ROOT / "docs" / f"{page}.rst").read_text("utf-8")
        for page in ("methods", "convergence", "samplers")
    )
    assert [row for row in IN_WORDS if row[0] != row[1] or row[2] not in methods] == []
    options = SET_UP
    main = f"{100 * (1.0 - 2.0 * options.other_probability):.0f} of a hundred iterations are"
    stated = [
        f"With {options.fewest_rows} rows or",
        f"at\n   most {options.negligible_depth:.0f} lower",
        f"1 / (1 + (8 + 2 p) / {options.worthwhile_evaluations:.0f})",
        f"Points more than\n   :math:`{options.design_depth:.0f} + p` below",
        f"within {options.negligible_depth:.0f} of the best",
        f"estimates with {options.n_draws} draws",
        f"is at most {options.negligible_depth:.0f} below",
        f"come from {options.n_pooled} short chains",
        f"(less than {100 * options.surprise_probability:.0f} %)",
        f"acceptance rate of {options.target_acceptance}",
        f"n < {options.rows_per_value:.0f} \\, p",
        f"1 + {options.lift} / p^{{1/4}}",
        f"1 / {1.0 / LIFTED:.2f} for two",
        f"\\alpha + {rotation._STEP_SD} \\, \\varepsilon",
        f"({', '.join(map(str, rotation._STEP_LENGTHS))})",
        f"section, {rotation._STEP_LENGTHS[0]:.3f}, for",
        f"{main} steps",
        f"best of {options.n_pooled} periods",
        f"evaluation: {options.n_pooled} independence candidates",
        f"is {PseudoMarginal().noise} for every model",
        f"N is at least {options.fewest_draws}, and at most",
        f"latent values or {options.most_draws}, whichever is more",
        f"within {len(sequential._BIN_PROBABILITY)} bins of",
        f"{sequential._ENDS[1] - sequential._ENDS[0]:.1f} standard",
    ]
    assert [phrase for phrase in stated if phrase not in methods] == []
    assert f"means {_N_BURN_IN} iterations after it" in samplers
    share = round(100 * (1.0 - 2.0 * options.other_probability))
    assert f"evenly. {share} % of the" in " ".join(guide.split())
