"""The convergence study runs, and finds what it says: states converge, most derivatives do not."""

import convergence
import pytest


@pytest.fixture(scope="module")
def tables():
    return {scheme: rows for scheme, found in convergence.main(smoke=True).items() for rows in found.values()}


def test_states_converge(tables):
    assert len(tables) == 4
    for scheme, rows in tables.items():
        # First order; the impact falls differently into the step at each h.
        assert rows[1].state < 0.7 * rows[0].state, scheme


@pytest.mark.parametrize("scheme", ["VelocityProjection", "CatchingUp", "ElasticProjection"])
def test_derivatives_through_round_or_bouncing_impacts_have_a_wrong_limit(tables, scheme):
    for row in tables[scheme]:
        assert row.jacobian > 0.1
