"""Two particles on springs with dry friction and percussions, by one program."""

import pytest
import references
import zoo


@pytest.mark.parametrize("name", references.of(zoo.CHAIN))
def test_states_and_derivatives_are_the_exact_ones(reference, name):
    references.check(reference, name)
