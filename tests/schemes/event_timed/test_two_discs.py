"""Two rough discs that meet, by one program."""

import pytest
import references
import zoo


@pytest.mark.parametrize("name", references.of(zoo.TWO_DISCS))
def test_states_and_derivatives_are_the_exact_ones(reference, name):
    references.check(reference, name)
