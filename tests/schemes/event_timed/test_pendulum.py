"""A double pendulum with stops, M(q), by one program."""

import pytest
import references
import zoo


@pytest.mark.parametrize("name", references.of(zoo.PENDULUM))
def test_states_and_derivatives_are_the_exact_ones(reference, name):
    references.check(reference, name)
