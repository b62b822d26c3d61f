"""Balls in a row between two walls, by one program."""

import pytest
import references
import zoo


@pytest.mark.parametrize("name", references.of(zoo.ROW))
def test_states_and_derivatives_are_the_exact_ones(reference, name):
    references.check(reference, name)
