import jax.numpy as jnp
import published
import pytest

import diffcontact as dc

pytestmark = pytest.mark.full


def test_total_variation_stays_bounded():
    coarse, fine = published.trajectories(published.balls_in_box(3, 0.0), dc.VelocityProjection(), (50, 200))
    # Proposition 2.4: a velocity that chattered would have four times the variation with four times the steps.
    assert published.total_variation(fine.u) < 1.3 * published.total_variation(coarse.u)


def _round(inside):
    sign = -1.0 if inside else 1.0
    return dc.System(
        gap=lambda t, q, p: sign * (jnp.linalg.norm(q)[None] - 1.0),
        force=lambda t, q, u, p: jnp.zeros(2),
        mass=lambda q, p: jnp.ones(2),
        restitution=lambda p: 0.0,
    )


@pytest.mark.parametrize(
    ("h", "status"), [(2.0, dc.Status.TOO_COARSE), (0.3, dc.Status.TOO_COARSE), (0.2, dc.Status.OK)]
)
def test_a_step_so_long_that_it_leaves_a_bowl_is_reported(h, status):
    # Along the wall at 1 m/s, radius 1 m. The tangent in the first place never acts.
    run = dc.simulate(_round(True), {}, [0.0, -1.0], [1.0, 0.0], [0.0, h], scheme=dc.VelocityProjection())
    assert run.status == status
