"""A sphere with spin over a rough floor, by one program."""

import pytest
import references
import zoo


@pytest.mark.parametrize("name", references.of(zoo.SPHERE))
def test_states_and_derivatives_are_the_exact_ones(reference, name):
    references.check(reference, name)
