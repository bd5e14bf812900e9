"""Tables of the page on section 4 of the pseudo-marginal paper, and what its text says of them."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.common import load_results

from .test_docs import cells

ROOT = Path(__file__).parents[2]
WALK = {"elliptical slice": 1.0, "random walk on theta": 0.25}


@pytest.fixture
def tables(table_lines, lines_of):
    """Lines of a part of the tables, of these results or of the committed ones."""
    settings = {"iterations": 10_000, "repeats": 20}

    def lines(part, results=None):
        if results is None:
            return table_lines("pseudo_marginal_small", part=part)
        return lines_of("pseudo_marginal_toy", results, part, settings=settings)

    return lines


def scheme(ess=(100.0, 300.0), operations=4.0, acceptance=WALK):
    return {
        "ess": list(ess),
        "r_hat": {"1000": 1.014, "2000": None},
        "operations": {"cholesky": 0.75 * operations, "product": 0.25 * operations},
        "acceptance": acceptance,
    }


def quoted(*sentences):
    page = " ".join((ROOT / "docs" / "pseudo_marginal.rst").read_text("utf-8").split())
    return all(sentence in page for sentence in sentences)


def ess(one):
    return float(np.mean(one["ess"]))


def per_operation(one):
    return ess(one) / sum(one["operations"].values())


# --- tables ---------------------------------------------------------------------------------------


def test_table_1_shows_our_numbers_beside_those_of_the_paper(tables):
    results = {"1": {"n=200, d=10, ARD": {"PM EP (64)": scheme(), "default": scheme()}}}
    head, row, default = cells(tables("1", results))
    ours = head[:2], head[3], head[5], head[7]
    assert ours == (["scheme", "ESS (sd)"], "R-hat", "acceptance, %", "operations")
    assert [j for j, name in enumerate(head) if name == "paper's"] == [2, 4, 6, 8]
    assert head[9:] == ["ESS / operations"]
    assert row[1:5] == ["200 (100)", "45 (21)", "1.01 none", "1.03 1.03 1.03 1.09"]
    assert row[5:] == ["25.0", "17.4 (3.4)", "4.0", "13.2 (0.2)", "50"]
    assert default[2::2] == ["", "", "", ""]


def test_table_3_divides_ess_by_the_operations_of_one_update(tables):
    place = {"PM": scheme(operations=400.0), "SURR": scheme(ess=[6.0], operations=60.0)}
    head, pm, surr = cells(tables("3", {"3": {"n=200, d=10, isotropic": place}}))
    assert head[4:7] == ["paper's", "acceptance, %", "operations"]
    assert head[7:] == ["ESS / operations", "paper's"]
    assert pm[6:] == ["20.0", "10", "55 (40)"]
    assert surr[6:] == ["3.0", "2.0", "8 (2)"]


def test_table_leaves_out_columns_that_are_empty(tables):
    head, row = cells(tables("real", {"real": {"Breast": {"PM": scheme()}}}))
    assert head == ["scheme", "ESS (sd)", "R-hat", "acceptance, %", "operations", head[-1]]
    assert row == ["PM", "200 (100)", "1.01 none", "25.0", "4.0", "50"]


@pytest.mark.parametrize(
    ("acceptance", "shown"),
    [
        ({"random walk": 0.3, "surrogate": 0.94, "refresh": 1.0, "rotation": 0.91}, "91.0"),
        ({"random walk": 0.3, "refresh": 1.0, "surrogate": 0.94}, "94.0"),
        ({"random walk": 0.01, "surrogate": 0.56, "trajectory": 0.965}, "96.5"),
        ({"elliptical slice": 1.0, "random walk on theta (ancillary)": 0.224}, "22.4"),
        ({"pseudo-marginal random walk": 0.172}, "17.2"),
    ],
)
def test_table_shows_the_acceptance_of_the_most_frequent_move(tables, acceptance, shown):
    rows = {"default": scheme(acceptance=acceptance)}
    _, row = cells(tables("real", {"real": {"Pima": rows}}))
    assert row[3] == shown


def test_ratio_table_divides_ess_of_the_default_by_that_of_pm(tables):
    settings = {
        "a": {"PM EP (64)": scheme(ess=[20.0], operations=10.0), "default": scheme()},
        "b": {"PM EP (64)": scheme(ess=[80.0]), "default": scheme()},
        "not measured yet": {"PM EP (64)": scheme()},
    }
    lines = tables("ratio", {"1": settings})
    assert cells(lines)[1:] == [["a", "2.0", "50", "25"], ["b", "20", "50", "2.5"]]
    assert lines[-2].startswith("In these 2 settings the default has 2.5 to 25 times as many")
    assert tables("ratio", {"1": {}}) == ["*Not measured yet.*", ""]


def test_spread_table_shows_the_widths_of_the_estimates(tables):
    widths = {"laplace (1)": 2.0, "laplace (64)": 0.6, "ep (1)": 1.0, "ep (64)": 0.2}
    rows = {
        name: {"mean": [1.0, 2.0], "low": [0.0, 0.5], "high": [9.0, 0.5 + 2.0 * width]}
        for name, width in widths.items()
    }
    lines = tables("spread", {"figure2": {"n=50": rows}})
    assert cells(lines)[1] == ["n=50", "2.00", "0.60", "1.00", "0.20"]
    assert "2.0 to 3.0 times" in lines[-2]
    assert tables("spread", {}) == ["*Not measured yet.*", ""]


# --- what the page says ---------------------------------------------------------------------------


def test_text_on_table_1_agrees_with_the_committed_results():
    results = load_results("pseudo_marginal_small")["1"]
    augmented = [max(ess(rows["AA"]), ess(rows["SURR"])) for rows in results.values()]
    behind = [
        (place, name)
        for (place, rows), best in zip(results.items(), augmented, strict=True)
        for name in rows
        if name.startswith("PM") and ess(rows[name]) < best
    ]
    assert behind == [("n=50, d=10, isotropic", "PM LA (1)")]
    *ratios, last = [ess(rows["PM EP (64)"]) / ess(rows["AA"]) for rows in results.values()]
    assert quoted(
        f"{min(ratios):.0f} to {max(ratios):.0f} times as many as AA, and {last:.1f} times"
    )
    ahead = [per_operation(r["AA"]) > per_operation(r["PM EP (64)"]) for r in results.values()]
    assert sum(ahead) == 4


def test_text_on_ep_and_laplace_agrees_with_the_committed_results():
    results = load_results("pseudo_marginal_small")["1"]
    few, many = results["n=50, d=10, isotropic"], results["n=200, d=10, isotropic"]
    la, ep = (
        {place: [f"{ess(rows[f'PM {name} ({n})']):.0f}" for n in (1, 16, 64)]
         for place, rows in (("few", few), ("many", many))}
        for name in ("LA", "EP")
    )  # fmt: skip
    assert quoted(
        f"it has {la['few'][0]} effective draws, AA {ess(few['AA']):.0f} and SURR "
        f"{ess(few['SURR']):.0f}",
        f"with {ep['few'][0]} effective draws against {la['few'][0]}",
        f"{ep['few'][1]} against {la['few'][1]} and {ep['few'][2]} against {la['few'][2]}",
        "EP has {}, {} and {} effective draws".format(*ep["many"]),
        "LA {}, {} and {}.".format(*la["many"]),
    )
    ard = [
        ess(one)
        for n in (50, 200)
        for name, one in results[f"n={n}, d=10, ARD"].items()
        if name.startswith("PM")
    ]
    assert quoted(f"between {min(ard):.0f} and {max(ard):.0f}, that is, at most ten")
    assert max(ard) * 2000 / 10_000 < 10.5


def test_text_on_table_3_agrees_with_the_committed_results():
    results = load_results("pseudo_marginal_small")["3"]
    exceptions = {
        place: [f"{ess(rows[name]):.0f}" for name in ("PM", "AA", "SURR")]
        for place, rows in results.items()
        if ess(rows["PM"]) < max(ess(rows["AA"]), ess(rows["SURR"]))
    }
    assert list(exceptions) == ["n=50, d=10, ARD", "n=200, d=10, ARD"]
    few, many = exceptions.values()
    r_hat = [f"{results[place]['PM']['r_hat']['200']:.1f}" for place in exceptions]
    assert quoted(
        "PM has {}, AA {} and SURR {}".format(*few),
        "they have {}, {} and {}".format(*many),
        "R-hat is {} and {}".format(*r_hat),
    )
    rates = [
        100.0 * rate
        for rows in results.values()
        for one in rows.values()
        for move, rate in one["acceptance"].items()
        if move != "elliptical slice"
    ]
    assert quoted(f"between {min(rates):.0f} and {max(rates):.0f} % of the proposals")
    ahead = [per_operation(rows["PM"]) > per_operation(rows["AA"]) for rows in results.values()]
    assert sum(ahead) == 4


def test_committed_spreads_are_in_the_order_of_the_text_on_figure_2(tables):
    _, few, many = cells(tables("spread"))
    for row in (few, many):
        la_1, la_64, ep_1, ep_64 = map(float, row[1:])
        assert ep_64 < la_64 < ep_1 < la_1
    assert all(float(b) < float(a) for a, b in zip(few[1:], many[1:], strict=True))


def test_text_on_real_data_agrees_with_the_committed_results():
    for place, rows in load_results("pseudo_marginal_small")["real"].items():
        assert ess(rows["PM"]) > max(ess(rows["AA"]), ess(rows["SURR"]))
        assert (per_operation(rows["PM"]) < per_operation(rows["AA"])) == (place == "Breast")
