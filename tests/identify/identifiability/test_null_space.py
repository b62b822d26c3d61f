import numpy as np

from diffcontact.identify.identifiability.null_space import null_space

EPS = float(np.finfo(float).eps)
NAMES = ["a", "b", "c", "d"]


def test_full_rank_is_seen(rng):
    null = null_space(rng.normal(size=(20, 4)) * [1e-6, 1.0, 1e6, 1.0], NAMES, EPS)
    assert null.directions == []
    assert not null.unidentifiable.any()


def test_a_direction_is_reported_in_the_units_of_the_parameters(rng):
    J = rng.normal(size=(20, 4)) * [1e-6, 1.0, 1e6, 1.0]
    J[:, 2] = -3.0 * J[:, 0]  # 3 a + c is what counts: moving a by 1/3 and c by 1 changes nothing
    null = null_space(J, NAMES, EPS)
    (direction,) = null.directions
    assert direction.keys() == {"a", "c"}
    np.testing.assert_allclose(direction["a"] / direction["c"], 3.0, rtol=1e-6)  # singular values below 1e-8 are zero
    assert null.unidentifiable.tolist() == [True, False, True, False]
    assert np.linalg.matrix_rank(J[:, ~null.redundant]) == 3


def test_independent_directions_are_reported_apart(rng):
    J = rng.normal(size=(20, 4))
    J[:, 1], J[:, 3] = 2.0 * J[:, 0], 5.0 * J[:, 2]
    null = null_space(J, NAMES, EPS)
    assert sorted(map(sorted, null.directions)) == [["a", "b"], ["c", "d"]]
    assert null.redundant.sum() == 2


def test_fewer_samples_than_parameters(rng):
    null = null_space(rng.normal(size=(2, 4)), NAMES, EPS)
    assert len(null.directions) == 2
    assert null.redundant.sum() == 2


def test_no_parameter_is_seen():
    null = null_space(np.zeros((5, 4)), NAMES, EPS)
    assert null.directions == [{name: 1.0} for name in NAMES]
