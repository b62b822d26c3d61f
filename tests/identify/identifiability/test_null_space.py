import numpy as np

from diffcontact.identify.identifiability.null_space import blindness

EPS = float(np.finfo(float).eps)
NAMES = ["a", "b", "c", "d"]


def test_full_rank_is_seen(rng):
    blind = blindness(rng.normal(size=(20, 4)) * [1e-6, 1.0, 1e6, 1.0], NAMES, EPS)
    assert blind.directions == []
    assert not blind.blurred.any()


def test_a_direction_is_reported_in_the_units_of_the_parameters(rng):
    J = rng.normal(size=(20, 4)) * [1e-6, 1.0, 1e6, 1.0]
    J[:, 2] = -3.0 * J[:, 0]  # 3 a + c is what counts: moving a by 1/3 and c by 1 changes nothing
    blind = blindness(J, NAMES, EPS)
    (direction,) = blind.directions
    assert direction.keys() == {"a", "c"}
    np.testing.assert_allclose(direction["a"] / direction["c"], 3.0, rtol=1e-6)  # singular values below 1e-8 are zero
    assert blind.blurred.tolist() == [True, False, True, False]
    assert np.linalg.matrix_rank(J[:, ~blind.redundant]) == 3


def test_independent_directions_are_reported_apart(rng):
    J = rng.normal(size=(20, 4))
    J[:, 1], J[:, 3] = 2.0 * J[:, 0], 5.0 * J[:, 2]
    blind = blindness(J, NAMES, EPS)
    assert sorted(map(sorted, blind.directions)) == [["a", "b"], ["c", "d"]]
    assert blind.redundant.sum() == 2


def test_fewer_samples_than_parameters(rng):
    blind = blindness(rng.normal(size=(2, 4)), NAMES, EPS)
    assert len(blind.directions) == 2
    assert blind.redundant.sum() == 2


def test_no_parameter_is_seen():
    blind = blindness(np.zeros((5, 4)), NAMES, EPS)
    assert blind.directions == [{name: 1.0} for name in NAMES]
