"""Two discs in a box, by one program: nine impacts in order.

On every commit `test_impact.py` has discs that strike, and `test_row.py` impacts on grid times.
"""

import pytest
import references
import zoo

pytestmark = pytest.mark.full


@pytest.mark.parametrize("name", references.of(zoo.TWO_BALLS))
def test_states_and_derivatives_are_the_exact_ones(reference, name):
    references.check(reference, name)
