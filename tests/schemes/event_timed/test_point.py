"""A point among walls that stand, lean, shake and are round, by one program: references, closed forms, bad values."""

import pytest
import references
import zoo

FREE = {"floor": -zoo.FAR, "gravity": [0.0, 0.0], "centre": [0.0, 0.0]}


@pytest.mark.parametrize("name", references.of(zoo.POINT))
def test_states_and_derivatives_are_the_exact_ones(reference, name):
    references.check(reference, name)
