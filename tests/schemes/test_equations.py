"""The published schemes, one program each: the equations of their steps, their derivatives, and what they refuse."""

import numpy as np
import published
import pytest
import references
import zoo
from programs import run, transposed

import diffcontact as dc
from diffcontact import Status

VELOCITY, CATCHING, ELASTIC, PERCUSSION = (
    dc.VelocityProjection(),
    dc.CatchingUp(),
    dc.ElasticProjection(),
    dc.PercussionFriction(),
)
# A point falls on a round hill beside a slope that rises: an impact, then it slides in between.
HILL = {
    "q0": [0.2, 1.02],
    "u0": [0.5, -0.4],
    "gravity": [0.3, -9.81],
    "mass": [[1.0, 0.2], [0.2, 2.0]],
    "restitution": 0.0,
    "centre": [0.0, 0.0],
    "angle": -0.3,
    "floor": 0.99,
    "amplitude": 0.1,
    "end": 0.4,
}
FALLING = {"gravity": -9.81, "q0": [0.4, 1.0, 1.45, 900.0], "u0": [0.0, -1.0, 0.0, 0.0], "end": 0.6}
UNEVEN = {name: value for name, value in FALLING.items() if name != "end"}
UNEVEN["times"] = np.cumsum([0.0, *[0.02, 0.01] * 10])
ROUND = {"centre": [0.0, 0.0], "floor": -zoo.FAR, "gravity": 0.0, "restitution": 0.0}
BOWL = ROUND | {"side": -1.0, "q0": [0.0, -1.0], "u0": [1.0, 0.0]}
PRESSED = {"q0": [0.0, 1.0], "u0": [2.0, 0.0], "gravity": [0.0, -9.81]}


def _point(motion, t, q):
    """(n, 3) gaps of the zoo's point and (n, 3, 2) their gradients."""
    p = motion.params
    way = q - p["centre"]
    distance = np.linalg.norm(way, axis=1)
    lean = np.array([-np.sin(p["angle"]), np.cos(p["angle"])])
    floor = q @ lean - p["floor"] - p["amplitude"] * np.sin(p["omega"] * t)
    gaps = np.stack([floor, p["ceiling"] - q[:, 1], distance - p["radius"]], axis=1)
    normals = np.stack([np.broadcast_to(lean, q.shape), np.broadcast_to([0.0, -1.0], q.shape), way / distance[:, None]])
    return gaps, np.moveaxis(normals, 0, 1)


def _row(motion, q):
    """(n, 14) gaps of four balls in a row, and (14, 4) their gradients."""
    radius, first, second = motion.params["radius"], *np.triu_indices(4, 1)
    pairs = np.eye(4)[second] - np.eye(4)[first]
    # Neighbours and others alike: they keep their order.
    gaps = [q - radius, zoo.FAR - radius - q, q @ pairs.T - radius[first] - radius[second]]
    return np.concatenate(gaps, axis=1), np.concatenate([np.eye(4), -np.eye(4), pairs])


@pytest.fixture(scope="module")
def hill():
    """Each scheme's run, and the four around it by which its derivative is that by differences."""
    aside = {f"{k}": HILL | {"u0": [0.5 + 1e-4 * k, -0.4]} for k in (-2, -1, 1, 2)}
    return {scheme: run(zoo.POINT, {"hill": HILL} | aside, scheme) for scheme in (VELOCITY, CATCHING)}


@pytest.mark.parametrize("scheme", [VELOCITY, CATCHING], ids=["velocity", "catching up"])
def test_derivatives_are_those_of_the_scheme_itself(hill, scheme):
    motion, (back2, back1, on1, on2) = hill[scheme]["hill"], (hill[scheme][f"{k}"].end for k in (-2, -1, 1, 2))
    # Fourth order at 1e-4: truncation and rounding about 1e-11, times derivatives of some hundreds.
    by_differences = (8 * (on1 - back1) - (on2 - back2)) / 12e-4
    np.testing.assert_allclose(motion.jacobian("u0")[:, 0], by_differences, rtol=1e-6, atol=1e-7)


def test_velocity_projection_balances_momentum_on_the_linear_constraints(hill):
    """S1 (11)-(15): M (u' - u) - h f = N^T impulse, complementary to gap + h N u', both at (t', q)."""
    motion = hill[VELOCITY]["hill"]
    assert motion.status == Status.OK
    assert np.all(np.any(motion.impulse > 0, axis=0) == [True, False, True])
    h, p = 0.02, motion.params
    gap, normals = _point(motion, motion.t[1:], motion.q[:-1])
    push = np.diff(motion.u, axis=0) @ p["mass"] - h * p["mass"] @ p["gravity"]
    np.testing.assert_allclose(push, np.einsum("nc,ncd->nd", motion.impulse, normals), atol=1e-12)
    linear = gap + h * np.einsum("ncd,nd->nc", normals, motion.u[1:])
    assert np.min(linear) >= -1e-13
    np.testing.assert_allclose(motion.impulse * linear, 0.0, atol=1e-12)
    np.testing.assert_allclose(np.diff(motion.q, axis=0), h * motion.u[1:], atol=1e-15)


def test_catching_up_lands_on_the_nearest_point(hill):
    """S2 (25)-(28): q' - (q + h u + h^2 f) along M^-1 N^T at q', complementary to the gaps there; u' = (q' - q) / h."""
    motion = hill[CATCHING]["hill"]
    assert motion.status == Status.OK
    h, p = 0.02, motion.params
    gap, normals = _point(motion, motion.t[1:], motion.q[1:])
    push = np.diff(motion.u, axis=0) @ p["mass"] - h * p["mass"] @ p["gravity"]
    np.testing.assert_allclose(push, np.einsum("nc,ncd->nd", motion.impulse, normals), atol=1e-10)
    assert np.min(gap) >= -1e-12
    np.testing.assert_allclose(motion.impulse * gap, 0.0, atol=1e-12)
    np.testing.assert_allclose(np.diff(motion.q, axis=0), h * motion.u[1:], atol=1e-14)


@pytest.fixture(scope="module")
def elastic(reference):
    ball = {"q0": [1.0, 300.0, 600.0, 900.0], "radius": 1e-12, "gravity": -9.81, "restitution": 0.9}
    rows = {f"e = {e}": FALLING | {"restitution": e, "substeps": 1} for e in (0.0, 0.5, 1.0)}
    rows |= {"siconos": ball | {"end": 7.0, "substeps": 70}}
    aside = {f"{k}": FALLING | {"restitution": 0.5, "u0": [0.0, -1 + 1e-4 * k, 0.0, 0.0]} for k in (-2, -1, 1, 2)}
    return run(zoo.ROW, rows | aside, ELASTIC)


@pytest.mark.parametrize("e", [0.0, 0.5, 1.0])
def test_elastic_projection_projects_the_mean(elastic, e):
    """S3 (4)-(7): Z = (q'' + e q) / (1 + e) is the point of K nearest to W = (2 q' - (1 - e) q + h^2 f) / (1 + e)."""
    motion, h = elastic[f"e = {e}"], 0.03
    before, here, after = motion.q[:-2], motion.q[1:-1], motion.q[2:]
    wanted = (2 * here - (1 - e) * before + h**2 * motion.params["gravity"]) / (1 + e)
    found = (after + e * before) / (1 + e)
    gap, normals = _row(motion, found)
    away = found - wanted
    assert np.any(away > 1e-3)
    assert np.min(gap) > -1e-12
    # Along the gradients of gaps that are closed, with multipliers that push.
    for way, gaps in zip(away, gap, strict=True):
        closed = gaps < 1e-9
        push = np.linalg.lstsq(normals[closed].T, way, rcond=None)[0] if np.any(closed) else np.zeros(0)
        np.testing.assert_allclose(normals[closed].T @ push, way, atol=1e-11)
        assert np.all(push > -1e-11)


def test_elastic_projection_beside_siconos_and_by_differences(elastic, reference):
    table = np.loadtxt(reference / "siconos" / "schatzman_paoli_ball.csv", delimiter=",", skiprows=1)
    steps = np.round(table[:, 0] / 0.005).astype(int)
    motion, known = elastic["siconos"], dict(zip(steps, table[:, 1], strict=True))
    expected = [known[70 * k] for k in range(21)]
    # Beyond, the accumulation of bounces amplifies rounding.
    np.testing.assert_allclose(motion.q[:, 0], expected, atol=1e-9)
    back2, back1, on1, on2 = (elastic[f"{k}"].end for k in (-2, -1, 1, 2))
    by_differences = (8 * (on1 - back1) - (on2 - back2)) / 12e-4
    np.testing.assert_allclose(elastic["e = 0.5"].jacobian("u0")[:, 1], by_differences, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("scheme", [VELOCITY, CATCHING, ELASTIC], ids=["velocity", "catching up", "elastic"])
def test_forces_that_grow_evenly_and_floors_that_rise_evenly_are_exact(scheme):
    """The force is its mean over a step; u+ - w = -e (u- - w) where the floor rises at w."""
    e = 0.6 if scheme == ELASTIC else 0.0
    rows = {
        "pushed": {"push": 1.0, "grows": 3.0, "mass": [2.0]},
        "meet": {"rises": 0.5, "u0": [-1.0], "restitution": e},
    }
    found = run(zoo.PUSHED, rows, scheme, derivative=False)
    assert {motion.status for motion in found.values()} == {Status.OK}
    t = found["pushed"].t
    if scheme != ELASTIC:
        np.testing.assert_allclose(found["pushed"].u[:, 0], (t + 1.5 * t**2) / 2, rtol=1e-12)
    np.testing.assert_allclose(found["meet"].u[-1], 0.5 + e * 1.5, rtol=1e-10)


def test_percussion_friction_is_first_order_and_its_percussions_are_exact(reference):
    """S4 (3.10)-(3.16): the slider's error falls with the step; a percussion takes off gamma nu a / m."""
    known = references.REFERENCES["slider_percussions"]
    rows = known.rows(reference)
    row, state, derivative = list(rows.values())[-1]
    free = {"damping": 0.0, "stiffness": 0.0, "load": 0.0, "normal": [10.0, 5.0], "mass": [1.0, 0.5], "end": 0.5}
    struck = free | {"u0": [3.0, 3.0], "percussion": [0.01, 0.02, 0.1]}
    carried = free | {"u0": 0.0, "belt": 0.5, "percussion": 0.0, "end": 1.0}
    steps = {str(n): row | {"substeps": n} for n in (10, 40)}
    found = run(zoo.CHAIN, steps | {"struck": struck, "carried": carried}, PERCUSSION)
    chain = references.REFERENCES["two_particle_chain"]
    row, exact, _ = list(chain.rows(reference).values())[-1]
    springs = run(zoo.CHAIN, {str(n): row | {"substeps": n} for n in (10, 40)}, PERCUSSION)
    off = [np.max(np.abs(chain.state(springs[n]) - exact)) for n in ("10", "40")]
    assert off[1] < off[0] / 2.5
    errors = {
        n: np.array(
            [
                np.max(np.abs(known.state(found[n]) - state)),
                np.max(np.abs(known.derivative(found[n]) - derivative)),
            ]
        )
        for n in ("10", "40")
    }
    # Four times the steps: a quarter of the error, or less.
    assert np.all(errors["10"] / errors["40"] > 3.8)
    # Sliding throughout, implicit Euler is exact for constant friction: only the jumps matter.
    passed = np.array(
        [0.01 * (t >= 0.1 - 1e-9) + 0.02 * (t >= 0.25 - 1e-9) + 0.1 * (t >= 0.3 - 1e-9) for t in found["struck"].t]
    )
    expected = 3.0 - 2.0 * (found["struck"].t + passed)[:, None] * np.ones(2)
    np.testing.assert_allclose(found["struck"].u, expected, atol=1e-12)
    np.testing.assert_allclose(found["struck"].jacobian("percussion")[2:], -2.0, atol=1e-11)
    # The belt's speed after 0.25 s, and no friction from then on.
    np.testing.assert_allclose(found["carried"].u[-1], 0.5, atol=1e-12)
    np.testing.assert_allclose(found["carried"].impulse[-10:], 0.0, atol=1e-12)


def test_velocity_projection_rubs():
    """Coulomb's law in each step, exact where it slides throughout: x = a t (t + h) / 2."""
    g, slope, h = 9.81, 0.3, 0.05
    rows = {
        "sticks": {"slope": slope, "friction": 0.5},
        "is carried": {"belt": 1.0},
        "slides": {"slope": slope, "friction": 0.2},
        "goes up and stops": {"slope": slope, "friction": 0.4, "u0": [2.0, 0.0, 0.0], "substeps": 20},
        "rolls": {"radius": 0.1, "q0": [0.0, 0.1, 0.0], "u0": [1.5, 0.0, 0.0], "substeps": 20},
    }
    found = run(zoo.DISC, rows, VELOCITY)
    assert {motion.status for motion in found.values()} == {Status.OK}
    np.testing.assert_allclose(found["sticks"].q, 0.0, atol=1e-14)
    np.testing.assert_allclose(found["is carried"].u[-1], [1.0, 0.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(found["sticks"].friction[:, 0, 0], h * g * np.sin(slope), rtol=1e-12)
    a, t = g * (np.sin(slope) - 0.2 * np.cos(slope)), found["slides"].t
    np.testing.assert_allclose(found["slides"].q[:, 0], -a * t * (t + h) / 2, atol=1e-12)
    np.testing.assert_allclose(found["slides"].friction[:, 0, 0], 0.2 * found["slides"].impulse[:, 0], rtol=1e-12)
    by_friction = found["slides"].jacobian("friction")[0, 0]
    np.testing.assert_allclose(by_friction, g * np.cos(slope) * 1.05 / 2, rtol=1e-12)
    # To a step's way, 5 mm.
    stop = 4 / (2 * g * (np.sin(slope) + 0.4 * np.cos(slope)))
    np.testing.assert_allclose(found["goes up and stops"].q[-1, 0], stop, atol=5e-3)
    np.testing.assert_allclose(found["rolls"].u[-1], [1.0, 0.0, -10.0], atol=1e-12)


@pytest.mark.parametrize(
    ("model", "scheme", "row", "status"),
    [
        (zoo.POINT, VELOCITY, {"restitution": 0.5}, Status.RESTITUTION_IGNORED),
        (zoo.POINT, CATCHING, {"restitution": 0.5}, Status.RESTITUTION_IGNORED),
        # Steps of 2 m meet what they pass by, those of 0.28 m leave what they slide on.
        (zoo.POINT, VELOCITY, ROUND | {"q0": [-10.0, 1.5], "u0": [1.0, 0.0], "end": 40.0}, Status.TOO_COARSE),
        (zoo.POINT, VELOCITY, ROUND | {"q0": [-10.0, 1.5], "u0": [1.0, 0.0], "end": 20.0}, Status.OK),
        (zoo.POINT, CATCHING, ROUND | PRESSED | {"end": 2.8}, Status.TOO_COARSE),
        # Along the inside of a bowl of 1 m, in steps of 0.3 and 0.2 m.
        (zoo.POINT, VELOCITY, BOWL | {"end": 6.0}, Status.TOO_COARSE),
        (zoo.POINT, VELOCITY, BOWL | {"end": 4.0}, Status.OK),
        # From one side of a disc of 1 m to the other in one step.
        (
            zoo.POINT,
            CATCHING,
            ROUND | {"radius": 0.5, "q0": [-1.0, 0.1], "u0": [1.0, 0.0], "end": 40.0},
            Status.TOO_COARSE,
        ),
        (zoo.ROW, ELASTIC, FALLING | {"q0": [0.11, 1.0, 1.45, 900.0], "u0": [-5.0, 0, 0, 0]}, Status.TOO_COARSE),
        (zoo.ROW, ELASTIC, UNEVEN, Status.UNEVEN_STEPS),
        (
            zoo.ROW,
            ELASTIC,
            {"q0": [0.4, 0.9, 500.0, 900.0], "u0": [-1.0, -1.0, 0, 0], "mass": [1.0, 4.0, 1, 1], "end": 2.0},
            Status.COUPLED_IMPACTS,
        ),
    ],
)
def test_what_a_scheme_cannot_is_told(model, scheme, row, status):
    motion = run(model, {"row": row}, scheme)["row"]
    assert Status(motion.status).name == status.name
    assert np.all(np.isfinite(motion.q))


# A row for each scheme; the steps of the third are even in single precision, too.
EVEN = FALLING | {"q0": [0.4, 1.0, 1.45, 9.0], "restitution": 0.5, "end": 0.625}
EACH = {
    "velocity": (zoo.POINT, HILL, VELOCITY),
    "catching up": (zoo.POINT, HILL, CATCHING),
    "elastic": (zoo.ROW, EVEN, ELASTIC),
    "percussions": (zoo.CHAIN, {"belt": 0.2, "percussion": [0.02, 0.03, 0.01], "end": 0.4}, PERCUSSION),
}


@pytest.mark.full
@pytest.mark.parametrize("name", EACH)
def test_reverse_mode_is_the_transpose_and_single_precision_is_near(name):
    model, row, scheme = EACH[name]
    motion = run(model, {"row": row}, scheme)["row"]
    weights = np.cos(1.0 + np.arange(motion.end.size))
    for parameter, found in transposed(model, row, weights, scheme).items():
        ahead = np.tensordot(weights, motion.by[parameter][-1], axes=1)
        # Rounding through 20 steps and their solves.
        np.testing.assert_allclose(found, ahead, rtol=1e-9, atol=1e-9 * (1 + np.max(np.abs(ahead))), err_msg=parameter)
    single = run(model, {"row": row}, scheme, derivative=False, single=True)["row"]
    # Impacts of the third act on each other, which is told in either precision.
    assert (single.q.dtype, single.status) == (np.float32, motion.status)
    # 20 steps of h = 0.02; velocities are position differences over h: eps / h each, of places of up to 1000 m.
    size = np.max(np.abs(motion.q))
    np.testing.assert_allclose(single.end, motion.end, atol=3e-4 * max(1.0, size / 10))


@pytest.mark.parametrize("name", EACH)
def test_the_other_kind_of_system_is_refused(name):
    _, _, scheme = EACH[name]
    other = zoo.POINT if scheme is PERCUSSION else zoo.CHAIN
    with pytest.raises(ValueError, match=f"{type(scheme).__name__} steps a "):
        dc.simulate(other.system, other.params, *other.start(other.params), [0.0, 0.1], scheme=scheme)


@pytest.mark.full
@pytest.mark.parametrize("scheme", [VELOCITY, CATCHING, ELASTIC])
def test_a_heavy_body_that_flies_elsewhere_hides_nothing(scheme):
    """Discs pass each other at 8 m/s in steps of 25 ms, 0.2 m, with their centres 0.26 m apart."""

    def status(others):
        discs, rest = dc.systems.balls(2 + others, 2), others * [0.0, 1e3]
        params = {
            "mass": np.array([1.0, 1.0] + others * [1e3]),
            "radius": np.full(2 + others, 0.13),
            "gravity": np.zeros(2),
            "restitution": float(scheme is ELASTIC),
        }
        q0, u0 = [-1.0, 0.18, 0.0, 0.0, *rest], [8.0, 0.0, 0.0, 0.0, *others * [100.0, 0.0]]
        return dc.simulate(discs, params, q0, u0, np.linspace(0, 0.5, 21), scheme=scheme).status

    assert status(0) == status(1) == Status.TOO_COARSE


@pytest.mark.full
def test_total_variation_stays_bounded():
    coarse, fine = published.trajectories(published.balls_in_box(3, 0.0), VELOCITY, (50, 200))
    # Proposition 2.4 of S1: a velocity that chattered would have four times the variation with four times the steps.
    assert published.total_variation(fine.u) < 1.3 * published.total_variation(coarse.u)
