"""A point is pressed between two discs that leave a little less than nothing between them: where it comes to rest is
known, y^2 = (1 + r)^2 - 1 for discs of radius 1 + r whose centres are 2 apart, and so is dy/dr = (1 + r) / y."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import zoo

import diffcontact as dc
from diffcontact.status import Status

pytestmark = pytest.mark.full

TIMES = np.arange(60) * 0.01
# In the narrowest wedge the point strikes the discs in turn eleven times within a step before it rests.
SCHEMES = [dc.VelocityProjection(), dc.CatchingUp(), dc.ElasticProjection(), dc.EventTimed(events=16)]


def _gap(t, q, p):
    return jnp.hypot(jnp.stack([q[0] - 1, q[0] + 1]), q[1]) - 1 - p


WEDGE = zoo.system(gap=_gap, force=lambda t, q, u, p: jnp.array([1.0, -10.0]))


def _height(scheme):
    """r -> (y, status) and their derivatives by r, jitted."""

    def end(r):
        run = dc.simulate(WEDGE, r, jnp.array([0.0, 0.3]), jnp.zeros(2), TIMES, scheme=scheme)
        return run.q[-1, 1], run.status

    return jax.jit(lambda r: jax.jvp(end, (r,), (1.0,)))


@pytest.mark.parametrize("scheme", SCHEMES, ids=lambda scheme: type(scheme).__name__)
def test_rest_and_its_derivative_are_right_or_told(scheme):
    height, right = _height(scheme), 0
    for r in (1e-2, 1e-4, 1e-6, 1e-8):
        (y, status), (dy, _) = height(r)
        truth = np.sqrt((1 + r) ** 2 - 1)
        if status != Status.OK:
            continue
        right += 1
        # A gap is known to some roundings of one, and y to those over the slope of the gap, which is y.
        rounding = 8 * np.finfo(float).eps / truth
        assert abs(y - truth) <= rounding
        assert abs(dy - (1 + r) / truth) <= rounding / truth * (1 + r) / truth
    # Of r = 1e-8 the disc's slope is 1e-4, and EventTimed has more events than a step resolves.
    assert right >= {dc.VelocityProjection: 4, dc.EventTimed: 3}.get(type(scheme), 1)


def test_a_wedge_in_which_rounding_decides_is_told():
    """At r = 0 the discs touch, and nothing keeps the point from falling through: the scheme's tangents do."""
    height = _height(dc.VelocityProjection())
    assert [int(height(r)[0][1]) for r in (1e-12, 0.0)] == [Status.ILL_CONDITIONED] * 2
