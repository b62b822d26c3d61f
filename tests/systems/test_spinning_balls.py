"""Balls that spin: how they slip, how they turn, and what a collision conserves."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc
from diffcontact import qp
from diffcontact.inputs import _require_rows, require_shapes, require_values
from diffcontact.qp.rows import dense as spread_out
from diffcontact.status import Status
from diffcontact.system import contacts, slip_rows, slips
from diffcontact.systems.poses import _POLE, tangents, turned, turning
from diffcontact.systems.poses import turning_dexpinv as dexpinv

COUNT = 4


def _planes(t, params):
    del t
    normals = np.array([[1.0, 2.0, 2.0], [0.0, 0.0, 1.0]]) / [[3.0], [1.0]]
    normals = normals if params["gravity"].size == 3 else np.array([[0.6, 0.8], [0.0, 1.0]])
    return jnp.asarray(normals), np.array([-3.0, -2.0])


def _belt(t, params):
    walls = 2 * params["gravity"].size + 2
    return params["belt"] * jnp.cos(t + jnp.arange(walls * params["gravity"].size)).reshape(walls, -1)


def _scene(dimension, **options):
    """Balls in a box, above planes and beside a fixed ball, with surfaces that run."""
    return dc.systems.balls(
        COUNT, dimension, box=(-4.0, 5.0), planes=_planes, fixed=1, spin=True, belt=_belt, **options
    )


def _params(dimension, count=COUNT):
    rng = np.random.default_rng(dimension)
    return {
        "mass": rng.uniform(1.0, 2.0, count),
        "radius": rng.uniform(0.1, 0.3, count),
        "gravity": rng.normal(size=dimension),
        "restitution": 0.5,
        "friction": 0.3,
        "belt": 0.7,
        "fixed_centre": np.ones((1, dimension)),
        "fixed_radius": 0.4 * np.ones(1),
    }


def _state(dimension, seed, count=COUNT):
    """Any positions, unit quaternions and velocities."""
    rng = np.random.default_rng(seed)
    place, velocity = rng.normal(size=(count, dimension)), rng.normal(size=(count, {2: 3, 3: 6}[dimension]))
    turn = rng.normal(size=(count, {2: 1, 3: 4}[dimension]))
    turn = turn / np.linalg.norm(turn, axis=1, keepdims=True)
    return np.hstack([place, turn]).ravel(), velocity.ravel()


def _at_surface(velocity, arm):
    """(m,) the velocity of a body's point at `arm` from its centre."""
    if arm.size == 3:
        return velocity[:3] + np.cross(velocity[3:], arm)
    return velocity[:2] + velocity[2] * np.array([-arm[1], arm[0]])


@pytest.mark.parametrize("dimension", [2, 3])
def test_the_slip_is_the_tangential_velocity_of_one_surface_on_the_other(dimension):
    system, params, (q, u), t = _scene(dimension), _params(dimension), _state(dimension, 1), 0.3
    # A contact's directions are what its rows have in the velocity of the first ball.
    surfaces = system.surfaces

    @jax.jit
    def seen(t, q, u, params):
        slip, rows = system.slip(t, q, u, params), system.tangents(t, q, params)
        return slip, [row.normals for row in rows], surfaces.normals(t, params, float), _belt(t, params)

    slip, rows, normals, belts = jax.tree.map(np.asarray, seen(t, q, u, params))
    first, second = surfaces.pairs(2)
    centre = np.vstack([q.reshape(COUNT, -1)[:, :dimension], params["fixed_centre"]])
    radius = np.concatenate([params["radius"], params["fixed_radius"]])
    velocity = np.vstack([u.reshape(COUNT, -1), np.zeros(u.size // COUNT)])
    assert slip.shape == (first.size, dimension - 1)
    for c, (i, j) in enumerate(zip(first, second, strict=True)):
        if j < COUNT + 1:
            n = (centre[j] - centre[i]) / np.linalg.norm(centre[j] - centre[i])
            relative, sign = _at_surface(velocity[j], -radius[j] * n) - _at_surface(velocity[i], radius[i] * n), -1
        else:
            n = normals[j - COUNT - 1]
            relative, sign = _at_surface(velocity[i], -radius[i] * n) - belts[j - COUNT - 1], 1
        frame = np.array([sign * row[c, 0, :dimension] for row in rows])
        np.testing.assert_allclose(frame @ frame.T, np.eye(dimension - 1), atol=1e-15)
        np.testing.assert_allclose(frame @ n, 0, atol=1e-15)
        # Rounding of sums of some ten numbers of order 1.
        np.testing.assert_allclose(slip[c], frame @ relative, atol=1e-14)
        np.testing.assert_allclose(slip[c] @ frame, relative - n * (n @ relative), atol=1e-14)


def test_signs_of_the_slip_are_those_of_the_documentation():
    q, u = np.array([0.0, 0.0, 0.1, 0.3, 0.4, 0.2]), np.arange(1.0, 7.0)
    params = _params(2, 2) | {"radius": np.array([0.3, 0.2])}
    floor = dc.systems.balls(2, 2, planes=lambda t, p: (np.array([[0.0, 1.0]]), np.zeros(1)), spin=True)
    along = np.array([-0.8, 0.6])
    expected = [1 + 0.3 * 3, 4 + 0.2 * 6, np.array([3.0, 3.0]) @ along - 0.3 * 3 - 0.2 * 6]
    ground = dc.systems.balls(1, 3, planes=lambda t, p: (np.array([[0.0, 0.0, 1.0]]), np.zeros(1)), spin=True)
    ball, alone = np.array([0.0, 0.0, 0.3, 1.0, 0.0, 0.0, 0.0]), params | {"radius": np.array([0.3])}
    slips = jax.jit(lambda u: (floor.slip(0.0, q, u, params)[:, 0], ground.slip(0.0, ball, u, alone)))
    flat, round_one = slips(u)
    np.testing.assert_allclose(flat, expected, rtol=1e-15)
    # v + w x (-r z), along x and y.
    np.testing.assert_allclose(round_one, [[1 - 0.3 * 5, 2 + 0.3 * 4]])


@pytest.mark.full
@pytest.mark.parametrize("dimension", [2, 3])
def test_sparse_rows_and_listed_contacts_have_the_slip_of_all(dimension):
    params, (q, u), t = _params(dimension), _state(dimension, 2), 0.1
    dense = _scene(dimension)
    table = np.array([[0.1, 0.2], [0.2, 0.4]])
    materials = [0, 1, 0, 1, 1, *[0] * (2 * dimension), 1, 0]
    listed = _scene(dimension, cell=2.0, materials=materials)
    tables = params | {"friction": table, "restitution": table, "tangential_restitution": -table}
    found = listed.within(tables, t, q, 2.0)
    few = listed.listed_contacts(found)
    there = np.asarray(found.taken)
    surfaces = dense.surfaces
    numbers = np.stack(surfaces.pairs(2))
    order = [int(np.argmax(np.all(pair == numbers.T, axis=1))) for pair in np.stack(found.surfaces, axis=1)[there]]
    assert 3 < there.sum() < there.size
    assert not found.full
    np.testing.assert_array_equal(few.slip(t, q, u, tables)[there], dense.slip(t, q, u, params)[np.array(order)])
    kinds = np.asarray(materials)[numbers[:, order]]
    np.testing.assert_array_equal(few.friction(tables)[there], table[kinds[0], kinds[1]])
    np.testing.assert_array_equal(few.tangential_restitution(tables)[there], -table[kinds[0], kinds[1]])
    for system, given in ((dense, params), (few, tables)):
        rows, drift = slip_rows(system, given, t, q, u.size)
        truth = slips(system, given, t, q, u.size)
        np.testing.assert_array_equal(drift, truth.drift)
        for k, row in enumerate(rows):
            np.testing.assert_allclose(spread_out(row), truth.tangents[:, k], atol=1e-15)
        normals = system.linearised(given, t, q)[1]
        np.testing.assert_allclose(spread_out(normals), contacts(system, given, t, q).normals, atol=1e-15)


def _collision(system, params, q, u, friction=0.3):
    """The velocity after an inelastic percussion of all contacts."""
    here, slip = contacts(system, params, 0.0, q), slips(system, params, 0.0, q, u.size)
    mu = jnp.full(here.gap.shape, friction)
    offset = jnp.where(jnp.abs(here.gap) < 1e-9, here.drift, jnp.inf)
    return qp.coulomb(system.mass(q, params), here.normals, slip.tangents, offset, slip.drift, mu, u)


def _cluster(dimension, count):
    """Balls that touch ball 0 and come towards it, spinning."""
    params, (_, u) = _params(dimension, count), _state(dimension, 4, count)
    rng = np.random.default_rng(5)
    around = np.linalg.qr(rng.normal(size=(dimension, dimension)))[0][: count - 1]
    radius, place = np.asarray(params["radius"]), np.zeros((count, {2: 3, 3: 7}[dimension]))
    place[1:, :dimension] = (radius[0] + radius[1:])[:, None] * around
    place[:, dimension:] = np.eye({2: 1, 3: 4}[dimension])[0]
    velocity = np.array(u).reshape(count, -1)
    velocity[1:, :dimension] -= 3 * around
    return params, jnp.asarray(place.ravel()), jnp.asarray(velocity.ravel())


@pytest.mark.full
@pytest.mark.parametrize(("dimension", "count"), [(2, 3), (3, 4)])
def test_a_free_collision_conserves_linear_and_angular_momentum(dimension, count):
    system = dc.systems.balls(count, dimension, spin=True)
    params, q, u = _cluster(dimension, count)
    hit = _collision(system, params, q, u)
    assert hit.status == Status.OK
    assert jnp.sum(hit.normal > 0) == count - 1
    assert jnp.max(jnp.linalg.norm(hit.tangential, axis=1)) > 0.1
    place = np.asarray(q).reshape(count, -1)[:, :dimension]
    mass = np.asarray(system.mass(q, params)).reshape(count, -1)

    def momenta(u):
        momentum = mass * np.asarray(u).reshape(count, -1)
        p, angular = momentum[:, :dimension], momentum[:, dimension:]
        x, y = (np.pad(vectors, ((0, 0), (0, 3 - dimension))) for vectors in (place, p))
        return np.concatenate([p.sum(axis=0), (np.cross(x, y)[:, -angular.shape[1] :] + angular).sum(axis=0)])

    # Rounding of sums of numbers up to 10.
    np.testing.assert_allclose(momenta(hit.u), momenta(u), atol=1e-13)
    assert mass.ravel() @ (np.square(hit.u) - np.square(u)) < 0


@pytest.mark.full
def test_directions_and_their_derivatives_are_finite_whatever_the_normal():
    rng = np.random.default_rng(7)
    axes = np.vstack([np.eye(3), -np.eye(3), np.zeros((1, 3)), _POLE, -_POLE, rng.normal(size=(50, 3))])
    sizes = np.linalg.norm(axes, axis=1, keepdims=True)
    normals = jnp.asarray(axes / np.where(sizes > 0, sizes, 1))

    @jax.jit
    def frames(normals, wall):
        return jnp.stack(tangents(normals, wall), axis=1)

    for wall in (True, False):
        mask = jnp.full(len(normals), wall)
        frame, slope = jax.jvp(lambda n, mask=mask: frames(n, mask), (normals,), (jnp.ones_like(normals),))
        assert jnp.all(jnp.isfinite(slope))
        whole = jnp.concatenate([frame, normals[:, None]], axis=1)
        products = np.asarray(whole @ whole.swapaxes(1, 2))
        # There is no contact along zero, and opposite to the pole of pairs the directions are not defined.
        defined = (sizes[:, 0] > 0) & (wall | (np.arange(len(normals)) != 8))
        np.testing.assert_allclose(products[defined], np.broadcast_to(np.eye(3), (defined.sum(), 3, 3)), atol=1e-14)
        along = np.asarray(frame[:6])
        assert not wall or np.all((np.abs(along) == 1) | (along == 0))
    assert jnp.all(jnp.isfinite(frames(normals.astype(jnp.float32), mask)))


PAIR = {
    "mass": np.ones(2),
    "radius": 0.1 * np.ones(2),
    "gravity": np.zeros(3),
    "restitution": 0.5,
    "friction": 0.3,
}
APART = np.array([0.0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0])


def _checked(params, q0, u0, **options):
    """What a simulation looks at before it begins."""
    system = dc.systems.balls(**options, spin=True)
    require_shapes(system, params, 0.0, q0, u0)
    require_values(system, params, q0, u0, np.arange(2.0))


@pytest.mark.full
@pytest.mark.parametrize("cell", [None, 1.0], ids=["all pairs", "cell list"])
@pytest.mark.parametrize(
    ("line", "changes"),
    [
        (r"q0: expected shape \(14,\), 2 balls that spin of 7, got \(6,\)", {"q0": np.zeros(6)}),
        (r"u0: expected shape \(12,\), 2 balls that spin of 6, got \(14,\)", {"u0": np.zeros(14)}),
        (
            r"q0: expected unit quaternions, but that of ball 1 has length 1\.1",
            {"q0": np.where(np.arange(14) == 10, 1.1, APART)},
        ),
        (r"radius: expected positive of balls that spin", {"radius": np.array([0.1, 0.0])}),
        (r"inertia: expected positive, got \[ ?0\. -1\.\]", {"inertia": np.array([0.0, -1.0])}),
        (r"params\['inertia'\]: expected shape \(2,\), got \(3,\)", {"inertia": np.ones(3)}),
        (r"friction: expected at least 0, got", {"friction": -0.1}),
        (r"tangential_restitution: expected within \[-1, 1\], got", {"tangential_restitution": 1.5}),
        (r"friction.*expected .*shape \(\).*got \(3,\)", {"friction": np.ones(3)}),
        (r"'friction'.*restitution", {"friction": None}),
    ],
)
def test_bad_input_is_refused_in_one_line(line, changes, cell):
    given = {"q0": APART, "u0": np.zeros(12)} | {name: changes[name] for name in ("q0", "u0") if name in changes}
    params = {name: value for name, value in (PAIR | changes).items() if name not in given and value is not None}
    with pytest.raises(ValueError, match=line) as error:
        _checked(params, **given, count=2, dimension=3, cell=cell)
    assert "\n" not in str(error.value)


@pytest.mark.full
@pytest.mark.parametrize(
    ("line", "options"),
    [
        (r"balls\(dimension=1, spin=True\): expected dimension 2 or 3", {"dimension": 1}),
        (r"balls\(belt=\.\.\.\): expected spin=True and walls", {"belt": _belt}),
        (r"balls\(belt=.*\): expected a function", {"belt": 3.0, "box": (0.0, 1.0)}),
        (r"friction: expected a symmetric table", {"materials": [0, 1]}),
        (r"params: expected 'inertia'", {"radius": lambda t, params: params["radius"] * (1 + t)}),
        (r"balls\(belt=.*\): expected shape \(6, 3\), got \(3,\)", {"belt": lambda t, p: np.ones(3), "box": (-9, 9)}),
    ],
)
def test_systems_that_make_no_sense_are_refused(line, options):
    table = np.array([[0.1, 0.2], [0.3, 0.4]])
    params = PAIR | ({"friction": table, "restitution": np.ones((2, 2))} if "materials" in options else {})
    with pytest.raises(ValueError, match=line):
        _checked(params, APART, np.zeros(12), **({"count": 2, "dimension": 3} | options))


@pytest.mark.full
def test_rows_that_are_not_those_of_the_slip_are_refused():
    system, params, (q, u) = _scene(2), _params(2), _state(2, 9)
    wrong = replace(system, tangents=lambda t, q, params: (system.normals(t, q, params),))
    _require_rows(system, params, 0.0, q, u)
    with pytest.raises(ValueError, match=r"System\.tangents: expected the gradients of slip, but row 0"):
        _require_rows(wrong, params, 0.0, q, u)


@jax.jit
def _moved(q, theta, u):
    here, along = jax.jvp(lambda x: turned(q, x, 1.0), (theta,), (dexpinv(theta, u),))
    return along, turning(here, u)


@pytest.mark.parametrize("size", [0.0, 1e-4, 0.3, 2.5])
def test_rotation_vectors_follow_the_spin(size):
    """theta' = dexpinv(theta, w) moves `turned` as w moves the quaternion: both sides by forward mode."""
    rng = np.random.default_rng(3)
    theta, u = size * rng.normal(size=12), rng.normal(size=12)
    np.testing.assert_allclose(*_moved(_state(3, 5, 2)[0], theta, u), atol=1e-13)
