"""The impact law alone: closed forms with their derivatives, momentum and energy; one program for each model."""

import jax
import numpy as np
import pytest
import zoo

import diffcontact as dc
from diffcontact import Status


def _impacts(model, rows, derivative=False):
    """Percussions of rows that name what differs, and derivatives of the velocities after by all parameters."""

    def one(p):
        hit = dc.impact(model.system, p, 0.0, p["q0"], p["u0"])
        return hit.u + hit.jump, hit

    full = [{name: np.broadcast_to(row.get(name, value), np.shape(value)).astype(float)
             for name, value in model.params.items()} for row in rows]  # fmt: skip
    lanes = jax.tree.map(lambda *leaves: np.stack(leaves), *full)
    program = jax.jacfwd(one, has_aux=True) if derivative else lambda p: (None, one(p)[1])
    return jax.tree.map(np.asarray, jax.jit(jax.vmap(program))(lanes))


# A disc of mass 1 and radius 0.1 at the floor: of a slip a third of the mass takes part.
DISC = {"q0": [0.0, 0.1, 0.0], "radius": 0.1, "restitution": 0.5}
DISCS = {
    "slips": DISC | {"u0": [4.0, -2.0, 0.0], "friction": 0.125},
    "grips": DISC | {"u0": [1.0, -2.0, 0.0], "friction": 0.5},
    "turns back": DISC | {"u0": [1.0, -2.0, 0.0], "friction": 0.5, "tangential_restitution": 0.6},
    "on a belt": DISC | {"u0": [0.0, -2.0, 3.0], "friction": 0.2, "belt": 4.0},
    "smooth": DISC | {"u0": [4.0, -2.0, 7.0], "friction": 0.0, "restitution": 1.0},
}


def _disc_by_hand(row):
    """Velocity after, its derivative by u_y before, by mu and by e."""
    p = zoo.DISC.params | row
    P, slip = (1 + p["restitution"]) * 2.0, row["u0"][0] + 0.1 * row["u0"][2] - p["belt"]
    stop, most = -(1 + p["tangential_restitution"]) * slip / 3, p["friction"] * P
    slides = abs(stop) > most
    B = np.sign(stop) * min(abs(stop), most)
    along = np.array([1.0, 0.0, 0.1 / 0.005])
    after = np.array(row["u0"]) + B * along + [0.0, P, 0.0]
    by_P = np.sign(stop) * p["friction"] * slides * along + [0.0, 1.0, 0.0]
    by_speed = -(1 + p["restitution"]) * by_P + [0.0, 1.0, 0.0]
    return after, by_speed, np.sign(stop) * P * slides * along, 2.0 * by_P


def test_a_disc_slips_or_grips_by_hand():
    by, found = _impacts(zoo.DISC, DISCS.values(), derivative=True)
    assert not np.any(found.status)
    for k, (name, row) in enumerate(DISCS.items()):
        after, by_speed, by_friction, by_restitution = _disc_by_hand(row)
        np.testing.assert_allclose(found.u[k] + found.jump[k], after, atol=1e-12, err_msg=name)
        np.testing.assert_allclose(found.after[k], row.get("restitution", 0.5) * 2.0, atol=1e-12, err_msg=name)
        np.testing.assert_allclose(by["u0"][k][:, 1], by_speed, atol=1e-11, err_msg=name)
        np.testing.assert_allclose(by["restitution"][k], by_restitution, atol=1e-11, err_msg=name)
        # Where there is no friction a derivative by it is of one side.
        if row["friction"] > 0:
            np.testing.assert_allclose(by["friction"][k], by_friction, atol=1e-11, err_msg=name)


# Four balls, the first two of which touch where nothing else is said.
MEET = {"q0": [1.0, 1.2, 5.0, 6.0], "mass": [1.0, 3.0, 1.0, 1.0], "restitution": 0.5}
ROWS = {
    # u+ = u -+ (1 + e) v m_other / (m1 + m2).
    "two meet": (MEET | {"u0": [2.0, 0.0, 0.0, 0.0]}, [2.0 - 2.25, 0.75, 0.0, 0.0], 0),
    # Others approach faster and are far away: they are not struck.
    "others are faster": (MEET | {"u0": [2.0, 0.0, 9.0, -9.0]}, [2.0 - 2.25, 0.75, 9.0, -9.0], 0),
    # Moreau's law of a row that touches: impulses of (4, 2) / 3.
    "a cradle": (
        {"q0": [1.0, 1.2, 1.4, 6.0], "u0": [1.0, 0.0, 0.0, 0.0], "restitution": 1.0},
        [-1 / 3, 2 / 3, 2 / 3, 0.0],
        0,
    ),
    "a wall": (
        {"q0": [0.1, 2.0, 3.0, 4.0], "u0": [-2.0, 0.0, 0.0, 0.0], "restitution": 0.5},
        [1.0, 0.0, 0.0, 0.0],
        None,
    ),
    "none approaches": (MEET | {"u0": [0.0, 1.0, 0.0, 0.0]}, [0.0, 1.0, 0.0, 0.0], -1),
}


def test_balls_in_a_row_by_hand():
    _, found = _impacts(zoo.ROW, [row for row, _, _ in ROWS.values()])
    assert not np.any(found.status)
    for k, (name, (_, after, contact)) in enumerate(ROWS.items()):
        np.testing.assert_allclose(found.u[k] + found.jump[k], after, atol=1e-12, err_msg=name)
        struck = found.contact[k]
        if contact == -1:
            assert (struck, np.max(np.abs(found.jump[k]))) == (-1, 0.0)
        else:
            assert found.before[k][struck] < 0 < found.impulse[k][struck], name
    # The wall's contact is another one than that of the first pair, which is the same in all other rows.
    pair, wall = found.contact[0], found.contact[list(ROWS).index("a wall")]
    assert found.contact[1] == found.contact[2] == pair != wall


def test_two_discs_lose_energy_and_keep_their_momenta(rng):
    """At random, obliquely and with spin: Newton's law, Coulomb's cone, all momenta, no gain of energy."""
    angle, n = rng.uniform(0, 2 * np.pi, 64), 64
    way = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    q = np.concatenate([np.zeros((n, 3)), 0.5 * way, np.zeros((n, 1))], axis=1)
    u = rng.normal(size=(n, 6)) * [1, 1, 5, 1, 1, 5]
    approach = np.einsum("ni,ni->n", u[:, 3:5] - u[:, :2], way)
    # All approach.
    u[:, 3:5] -= (approach + np.abs(approach) + 0.1)[:, None] * way
    mass, radius, e = rng.uniform(0.5, 2.0, (n, 2)), np.array([0.3, 0.2]), rng.uniform(0, 1, n)
    rows = [{"q0": q[k], "u0": u[k], "mass": mass[k], "restitution": e[k], "friction": 0.3, "tangential_restitution":
             e[k] / 2} for k in range(n)]  # fmt: skip
    _, found = _impacts(zoo.TWO_DISCS, rows)
    assert not np.any(found.status)
    after = found.u + found.jump
    np.testing.assert_allclose(found.after[:, 0], -e * found.before[:, 0], rtol=1e-9, atol=1e-12)
    inertia = np.repeat(mass, 3, axis=1)
    inertia[:, [2, 5]] *= radius**2 / 2
    energy = np.sum(inertia * (after**2 - u**2), axis=1)
    assert np.all(energy <= 1e-12)
    momentum = inertia * found.jump
    np.testing.assert_allclose(momentum[:, :2] + momentum[:, 3:5], 0, atol=1e-12)
    spin = momentum[:, 2] + momentum[:, 5] + q[:, 3] * momentum[:, 4] - q[:, 4] * momentum[:, 3]
    np.testing.assert_allclose(spin, 0, atol=1e-12)
    size = np.linalg.norm(found.friction[:, 0], axis=1)
    assert np.all(size <= 0.3 * found.impulse[:, 0] * (1 + 1e-9))
    # Both are among them: those that slip, and those that grip.
    slips = size >= 0.3 * found.impulse[:, 0] * (1 - 1e-9)
    assert 0.1 < np.mean(slips) < 0.95


def test_an_impact_that_is_none_is_refused():
    away = {name: np.asarray(value) for name, value in zoo.BALL.params.items()}
    with pytest.raises(ValueError, match="expected a closed contact that approaches; the smallest gap is 1"):
        dc.impact(zoo.BALL.system, away, 0.0, [1.0], [-1.0])
    # A law that leaves [0, 1] at the speed of an impact says so, and takes 0 for it.
    hit = dc.impact(zoo.BALL.system, away | {"slope": np.asarray(0.5)}, 0.0, [0.0], [-2.0])
    assert hit.status == Status.BAD_RESTITUTION
