"""Records survive being written as arrays and JSON, and a set-up goes on from them."""

import io
import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from skgpmcmc.approximations import EP
from skgpmcmc.chain import InProcessExecutor
from skgpmcmc.numerics.quadratic import Quadratic
from skgpmcmc.samplers import PseudoMarginal
from skgpmcmc.setup import Request
from skgpmcmc.storage.archive import StoredRecord, from_arrays, to_arrays

from ...helpers import in_one_test, make_model, streams, toy_classes


def through_a_file(record, given=None):
    tree, arrays = to_arrays(record, given)
    file = io.BytesIO()
    np.savez(file, *arrays)
    file.seek(0)
    with np.load(file, allow_pickle=False) as held:
        back = [held[f"arr_{i}"] for i in range(len(arrays))]
        return from_arrays(StoredRecord(json.loads(json.dumps(tree)), back), given)


def test_archive_reads_back_values_of_every_kind():
    correction = Quadratic.flat(np.array([0.5]), np.array([2.0]))
    record = {"a": (1, 2.5, None, "x"), 3: [np.int64(4), True, np.inf], "q": correction}
    back = through_a_file(record)
    assert back["a"] == record["a"]
    assert back[3] == record[3]
    assert isinstance(back[3][0], np.int64)
    assert type(back["q"]) is Quadratic
    assert_array_equal(back["q"].scale, correction.scale)


def test_archived_random_stream_continues_and_spawns_the_same():
    stream = np.random.default_rng(np.random.SeedSequence(5, spawn_key=(0, 2)))
    stream.standard_normal(3)
    stream.spawn(2)
    back = through_a_file(stream)
    assert_array_equal(back.standard_normal(4), stream.standard_normal(4))
    (child,), (wanted,) = back.spawn(1), stream.spawn(1)
    assert_array_equal(child.random(2), wanted.random(2))


def test_archive_refuses_functions_and_arrays_of_objects():
    with pytest.raises(TypeError, match=r"A builtins\.function cannot be written"):
        to_arrays({"f": through_a_file})
    with pytest.raises(TypeError, match="An array of objects cannot be written"):
        to_arrays(np.array([None]))


@in_one_test(
    ("tree", "why"),
    [
        ({"record": "os:system", "fields": {"command": "true"}}, "the file names os"),
        ({"record": "skgpmcmc.numerics.archive:os", "fields": {}}, "is no record of this"),
        ({"record": "skgpmcmc.run.chains:np", "fields": {}}, "is no record of this"),
        ({"record": "skgpmcmc.run.chains:set_up", "fields": {}}, "is no record of this"),
        ({"record": "skgpmcmc.run.chains:SamplingRun", "fields": {}}, "is no record of this"),
        ({"record": "skgpmcmc.chain.counts:Workers", "fields": {}}, "is no record of this"),
        (
            {"record": "skgpmcmc.numerics.linalg:OperationCount", "fields": {"add": 1}},
            "has no .'add'",
        ),
        ({"stream": {"kind": "RandomState"}}, "no random stream of kind 'RandomState'"),
        ({"call": ["print"]}, "unknown kind 'call'"),
        ([1], "has a list where a part should be"),
        ({"given": ["covariance", "__class__"]}, "refers to 'covariance'"),
    ],
)
def test_archive_refuses_to_read_anything_but_records(tree, why):
    with pytest.raises(ValueError, match=why):
        from_arrays(StoredRecord(tree, []), given=Quadratic.flat(np.zeros(1), np.ones(1)))


def test_archived_object_that_occurs_twice_is_read_once():
    one = Quadratic.flat(np.array([0.5]), np.array([2.0]))
    first, second, other = through_a_file([one, one, Quadratic.flat(np.zeros(1), np.ones(1))])
    assert first is second
    assert other is not first


def test_archive_does_not_write_parts_of_the_given_model():
    model = make_model(*toy_classes(12, 2, 0))
    state = model.state_at(model.start, np.zeros(12))
    tree, arrays = to_arrays(state, model)
    assert {"given": ["covariance"]} in tree["fields"]["prior"]["fields"].values()
    assert sum(array.size for array in arrays) == 12 + len(model.start)
    assert through_a_file(state, model).prior.covariance is model.covariance


class WrittenDown(InProcessExecutor):
    """Hands on what calls returned as arrays and JSON give it back."""

    def map(self, function, items, stage, **about):
        found = super().map(function, items, stage, **about)
        return [through_a_file(one, item[0]) for one, item in zip(found, items, strict=True)]


def set_up_by(workers):
    """What a set-up has prepared."""
    model, approximation = make_model(*toy_classes(12, 2, 0)), EP()
    rng = np.random.default_rng(3)
    request = Request(model, approximation, [model.start] * 2, streams(2, 1), rng, None, 5)
    prepared = PseudoMarginal().set_up(request, workers)
    density = prepared.reference.at(model, model.start)
    return (
        *(np.array(prepared.thetas), prepared.transition.moves[0].ahead.proposal.density.values),
        *(density.sample(rng, 2).f, prepared.rngs[0].random(2)),
    )


def test_a_set_up_from_stored_batches_is_identical():
    """The same comes of it, to the bit, with everything read back from arrays and JSON."""
    for one, other in zip(set_up_by(WrittenDown()), set_up_by(InProcessExecutor()), strict=True):
        assert_array_equal(one, other)
