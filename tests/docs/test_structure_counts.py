"""What `benchmarks/structure.py` counts in the set-up of the default sampler."""

from benchmarks import structure

SOURCE = '''
"""Numbers such as 7 in a docstring do not count."""

_FEW, _NONE = 4, 0
_PAIR = (0.5, 16)  # two numbers
NAME, FLAG = "3", True
lower = 9


class SomeOptions:
    tolerance: float = 1e-3
    empty: int = 0

    def batch(self, dim):
        return 8 + 1 * dim


class Record:
    default: float = 2.5
    _DOF = 6.0


def function(x=5):
    return 11 * x
'''


def test_structure_counts_numbers_of_constants_and_options_as_tuned():
    found = structure.tuned_numbers(SOURCE)
    assert sorted(own.rpartition(": ")[2] for own in found) == [
        *("0.001", "0.5", "16", "4", "6.0", "8")
    ]


RULES = """
def pays(model):
    dim = len(model.start)
    few = model.n < 10 * dim
    return dim > 3 and few


def set_up(model, starts, dim):
    if pays(model):
        return 1
    if dim <= 3:
        return 2
    return len(starts) > 1
"""
GENERATORS = """
def first():
    yield 1


def second():
    def within():
        yield 2

    return list(within())


@contextmanager
def third():
    yield 3
"""


def test_structure_counts_a_named_size_rule_where_it_is_used():
    assert structure.branches_on_size({"file": RULES}) == ["file:9", "file:11"]


def test_structure_counts_functions_that_yield_as_generators():
    assert structure.generators(GENERATORS) == ["first", "within"]
