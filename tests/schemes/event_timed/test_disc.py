"""A disc or a block on a rough floor, by one program."""

import pytest
import references
import zoo


@pytest.mark.parametrize("name", references.of(zoo.DISC))
def test_states_and_derivatives_are_the_exact_ones(reference, name):
    references.check(reference, name)
