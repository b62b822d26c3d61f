import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc
from diffcontact.hypotheses import (
    report,
    reverse_triangle,
)

pytestmark = pytest.mark.full


def planes(rows):
    """Half-spaces <row, q> >= 0 with mass diag(1, 4, 9, ...)."""
    rows = np.array(rows, float)
    return dc.System(
        gap=lambda t, q, p: rows @ q,
        force=lambda t, q, u, p: jnp.zeros_like(q),
        mass=lambda q, p: jnp.arange(1.0, q.size + 1) ** 2,
        restitution=lambda p: 0.0,
    )


def test_gamma_bounds_every_combination(rng):
    # Seven rows in four dimensions, more than are independent, all opening along the first axis.
    rows = rng.normal(size=(7, 4)) + np.array([2.5, 0, 0, 0])
    found = reverse_triangle(planes(rows), {}, 0.0, jnp.zeros(4))
    assert found.exists
    weights = rng.exponential(size=(2000, 7)) ** 3
    ratio = (weights @ np.linalg.norm(rows, axis=1)) / np.linalg.norm(weights @ rows, axis=1)
    assert np.max(ratio) <= found.gamma * (1 + 1e-12)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    # The good direction opens all, the least by 1 / gamma.
    np.testing.assert_allclose(np.min(unit @ found.direction), 1 / found.gamma, rtol=1e-9)


def slider(damping, stiffness):
    return dc.ParticleLine(
        mass=lambda p: 2.0 * jnp.ones(1),
        damping=lambda p: damping * jnp.ones((1, 1)),
        stiffness=lambda p: stiffness * jnp.ones((1, 1)),
        load=lambda t, p: 3.0 * jnp.cos(t) * jnp.ones(1),
        friction=lambda p: 0.25,
        normal=lambda t, p: (4.0 + t) * jnp.ones(1),
        percussion_times=[0.1, 0.9],
        percussions=lambda p: jnp.array([0.2, 0.4]),
    )


def test_report_of_a_system_names_what_fails():
    text = str(report(planes([[1.0, 0.0], [-1.0, 0.0]]), {}, 0.0, [0.0, 0.0], [-2.0, 0.0]))
    assert "no: gap[0] closes at 2 m/s" in text
    assert "fails: active gradients have a vanishing combination" in text
    assert "largest cosine 1" in text


def test_report_of_a_line():
    text = str(report(slider(2.0, 8.0), {}, 0.0, [0.5], [-1.0], duration=0.2))
    assert "0.390388 s" in text
    assert "|u| <= 2.98438 m/s" in text
    assert "the duration exceeds the horizon" in str(report(slider(2.0, 8.0), {}, 0.0, [0.5], [-1.0], duration=2.0))


def test_report_refuses_other_things():
    with pytest.raises(ValueError, match="expected a System or a ParticleLine, got int"):
        report(3, {}, 0.0, [0.0], [0.0])
