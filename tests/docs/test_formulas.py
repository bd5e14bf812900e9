"""Formulas of the documentation: that they are read as they are meant."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = [
    *sorted((ROOT / "docs").glob("*.rst")),
    *sorted((ROOT / "skgpmcmc").rglob("*.py")),
    *sorted((ROOT / "examples").rglob("*.*")),
    *sorted((ROOT / "tutorials").glob("*.*")),
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
]
#: What LaTeX reads digit by digit, and the translation to MathML as one number: a half of log p,
#: ``\tfrac12 \log p``, became 12 / log p. Braces leave no doubt.
MISREAD = (re.compile(r"\\[cdt]?frac\s*[^{\s]\S*"), re.compile(r"(?:\\sqrt|[\^_])\s*\d{2}\S*"))
FORMULAS = re.compile(r":math:`([^`]+)`|^( *)\.\. math::(.*\n(?:(?:\2 +\S.*)?\n)*)", re.M)


def misread(text):
    """Return the parts of formulas in a text that are read as something else."""
    formulas = [inline or block for inline, _, block in FORMULAS.findall(text)]
    found = [match for formula in formulas for match in MISREAD[1].findall(formula)]
    return MISREAD[0].findall(text) + found


def test_no_formula_of_the_pages_has_a_number_without_braces():
    texts = {path.name: path.read_text("utf-8") for path in SOURCES if path.is_file()}
    assert sum(len(FORMULAS.findall(text)) for text in texts.values()) > 500
    found = {name: wrong for name, text in texts.items() if (wrong := misread(text))}
    assert found == {}


@pytest.mark.parametrize(
    "formula", [r"\tfrac12 \log p", r"\frac1N", r"\dfrac a2", r"x^12", r"\sqrt 12", r"t_10"]
)
def test_formula_check_finds_a_number_without_braces(formula):
    assert misread(f"Here :math:`{formula}` is.") != []
    assert misread(f"Here\n\n.. math::\n   :label: one\n\n   y =\n   {formula}\n\nis.") != []
    assert misread(r":math:`\tfrac{1}{2} \frac{a}{b} x^{12} + x^2 + t_1 + \sqrt 2` and a_12") == []


# --- what the renderer corrects -------------------------------------------------------------------


@pytest.fixture
def rendered(extension):
    """`rendered(formula)` is its MathML, without name spaces and white space."""
    pytest.importorskip("sphinx")

    def markup(formula):
        text = extension("mathml").translated(formula, as_block=True)
        ElementTree.fromstring(text)
        return re.sub(r"\s*\n\s*", "", text).partition(">")[2].removesuffix("</math>")

    return markup


def test_tfrac_is_rendered_as_a_small_fraction(rendered):
    half = '<mfrac displaystyle="false" scriptlevel="0"><mn>1</mn><mn>2</mn></mfrac>'
    assert rendered(r"\tfrac{1}{2} \mu") == f"{half}<mi>μ</mi>"


def test_index_of_an_accented_letter_is_rendered_beside_the_letter(rendered):
    for accent in ("hat", "tilde", "bar", "dot", "check"):
        text = rendered(rf"\{accent} a_i^2")
        assert re.fullmatch(
            r"<msup><msub><mover.*</mover><mi>i</mi></msub><mn>2</mn></msup>", text
        ), accent
    assert "munderover" in rendered(r"\sum_{i=1}^n a_i")


def test_function_names_are_rendered_with_space_around(rendered):
    thin = '<mspace width="0.1667em" />'
    assert rendered(r"k \log p").startswith(f'<mi>k</mi>{thin}<mi>log</mi><mo rspace="0.1667em">')
    assert rendered(r"- \exp(p)").startswith("<mo>\u2212</mo><mi>exp</mi><mo>\u2061</mo>")


def test_only_left_right_delimiters_stretch(rendered):
    assert rendered(r"\{a\}").count('stretchy="false"') == 2
    assert "stretchy" not in rendered(r"\left\{a\right\}")
    assert rendered(r"|B|").count('lspace="0" rspace="0"') == 2


def test_relation_that_begins_an_aligned_cell_is_infix(rendered):
    text = rendered(r"f &\sim N \\ g &= 1")
    assert text.count("<mtr>") == 2
    assert '<mtd><mo form="infix">\u223c</mo>' in text
