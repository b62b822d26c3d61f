"""What a certificate says of four balls in a row, and of one whose restitution bends: a row for each reason."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import zoo

import diffcontact as dc
from diffcontact.certify.singularity import Singularity

FIRST_PAIR = "ball 0 and ball 1"


def certify(model, times, q0=None, u0=None, **changed):
    params = {name: np.broadcast_to(changed.get(name, value), np.shape(value)) for name, value in model.params.items()}
    start = model.params["q0"] if q0 is None else q0, model.params["u0"] if u0 is None else u0
    return dc.certify(model.system, params, *start, times, substeps=1, percussions=16)


def _until(end):
    return np.linspace(0.0, end, 21)


def _thrown_up(clearance):
    """At a ceiling 1 m higher; the other balls fall, far below."""
    u0 = [0.0, 0.0, 0.0, np.sqrt(20 * (1 - clearance))]
    return {"q0": [10.0, 20.0, 30.0, zoo.FAR - 1.1], "u0": u0, "gravity": -10.0, "end": 0.55}


def _cradle(apart):
    return {"q0": [1.0, 1.5, 1.7 + apart, 1.9 + 2 * apart], "u0": [1.0, 0.0, 0.0, 0.0], "end": 1.0}


def _carried(e):
    """A ball falls on one that rests on the floor under its weight."""
    return {"q0": [0.1, 0.8, 50.0, 90.0], "u0": np.zeros(4), "gravity": -9.81, "restitution": e, "end": 0.5}


def _dropped(e, end):
    return {"q0": [1.1, 20.0, 50.0, 90.0], "u0": np.zeros(4), "gravity": -9.81, "restitution": e, "end": end}


GRAZES = (Singularity.GRAZING, np.sqrt(0.2), "ball 3 and side 1 of the box")
TOUCH = [(Singularity.UNLOADED, 0.0, "ball 1 and ball 2"), (Singularity.UNLOADED, 0.0, "ball 2 and ball 3")]
LANDS = "ball 0 and side 0 of the box"
# What is found, with times and names by hand, and whether nothing of it speaks against the derivative.
ROWS = {
    "just reaches the ceiling": (_thrown_up(0.0), [GRAZES], False),
    "reaches it to rounding": (_thrown_up(1e-10), [GRAZES], False),
    "strikes it by rounding": (_thrown_up(-1e-10), [GRAZES], False),
    "misses it by a millimetre": (_thrown_up(1e-3), [], True),
    "strikes it from a millimetre below": (_thrown_up(-1e-3), [], True),
    "a touching cradle": (_cradle(0.0), [*TOUCH, (Singularity.SIMULTANEOUS, 0.3, FIRST_PAIR)], False),
    "a cradle with gaps": (_cradle(0.05), [], True),
    "struck from both sides": (
        {"q0": [1.0, 1.5, 2.0, 3.0], "u0": [1.0, 0.0, -1.0, 0.0], "restitution": 0.8, "end": 1.0},
        [(Singularity.SIMULTANEOUS, 0.3, FIRST_PAIR)],
        False,
    ),
    # They meet after 0.5 s, go on together at half the speed, and come to the wall 1.05 m further.
    "stays together at e = 0": (
        {"q0": [1.15, 1.85, 5.0, 6.0], "u0": [0.0, -1.0, 0.0, 0.0], "restitution": 0.0, "end": 4.0},
        [(Singularity.STAYED, 2.6, FIRST_PAIR)],
        True,
    ),
    "falls on one that rests": (_carried(0.6), [], True),
    "falls on one that rests and stays": (_carried(0.0), [], True),
    "meets at the last time": (
        {"q0": [1.0, 1.5, 2.0, 3.0], "u0": [1.0, 0.0, 0.0, 0.0], "end": 0.3 + 1e-8},
        [(Singularity.AT_THE_END, 0.3, FIRST_PAIR)],
        False,
    ),
    # A flight of 4.5 ms, where an eighth of a step is 6.25 ms.
    "would bounce for less than a step resolves": (
        _dropped(0.005, 1.0),
        [(Singularity.SLOW, np.sqrt(2 / 9.81), LANDS)],
        False,
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_what_is_found_in_a_row_of_balls(name):
    row, expected, clear = ROWS[name]
    row = dict(row)
    certificate = certify(zoo.ROW, _until(row.pop("end")), **row)
    found = [(one.singularity.name, one.name) for one in certificate.findings]
    assert found == [(singularity.name, contact) for singularity, _, contact in expected]
    # To the square root of what counts as closed, where it grazes.
    atol = 1e-4 if expected == [GRAZES] else 1e-7
    np.testing.assert_allclose([one.time for one in certificate.findings], [time for _, time, _ in expected], atol=atol)
    assert certificate.clear == clear
    assert (certificate.first()[0] == Singularity.NONE) == clear


def test_a_cradle_that_all_but_touches_has_no_derivative():
    """Besides, its balls pass so close to each other that all these count as grazes."""
    certificate = certify(zoo.ROW, _until(1.0), **{k: v for k, v in _cradle(1e-9).items() if k != "end"})
    assert certificate.first() == (
        Singularity.SIMULTANEOUS,
        pytest.approx(0.3, abs=1e-7),
        certificate.findings[0].contact,
    )
    assert certificate.findings[0].name == FIRST_PAIR


def test_bounces_that_end_in_rest_are_told_of_their_last():
    """From 1 m with e = 1/2: the k-th flight is of 2 e^k sqrt(2 h / g)."""
    certificate = certify(zoo.ROW, _until(2.0), **{k: v for k, v in _dropped(0.5, 2.0).items() if k != "end"})
    assert {one.singularity for one in certificate.findings} >= {Singularity.ZENO_END}
    last = max(one.time for one in certificate.findings)
    flights = 2 * np.sqrt(2 / 9.81) * 0.5 ** np.arange(1, 12)
    assert np.min(np.abs(np.sqrt(2 / 9.81) + np.cumsum(flights) - last)) < 1e-9


FALL = np.sqrt(2 * 9.81)


@pytest.mark.parametrize(
    ("bend", "names"),
    [(FALL * (1 + 1e-4), ["KINK"]), (FALL * (1 - 1e-4), ["KINK"]), (2.0, []), (FALL * 1.01, [])],
    ids=["just above", "just below", "far below", "above"],
)
def test_a_restitution_that_jumps_at_the_speed_of_an_impact(bend, names):
    certificate = certify(zoo.BALL, _until(0.6), bend=bend, below=0.5, e=0.8)
    assert [one.singularity.name for one in certificate.findings] == names


def test_percussions_are_listed_with_time_and_impulse():
    happened = certify(zoo.BALL, _until(1.5), e=0.8).trajectory.percussions
    times = [FALL / 9.81, FALL / 9.81 * 2.6]
    np.testing.assert_allclose(happened.time, [*times, *[0.0] * 14], atol=1e-12)
    assert happened.contact.tolist() == [0, 0, *[-1] * 14]
    impulse, after, before = (np.asarray(x)[:2, 0] for x in (happened.impulse, happened.after, happened.before))
    np.testing.assert_allclose(impulse, [1.8 * FALL, 1.44 * FALL], rtol=1e-12)
    np.testing.assert_allclose(after, -0.8 * before, atol=1e-12)


def test_only_event_timed_on_a_system_lists_percussions():
    given = zoo.QUADRICS.params, *zoo.QUADRICS.start(zoo.QUADRICS.params), [0.0, 1.0]
    with pytest.raises(ValueError, match="only EventTimed"):
        dc.simulate(zoo.QUADRICS.system, *given, scheme=dc.VelocityProjection(), percussions=4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"percussions": 0}, r"^percussions=0: expected an integer of at least 1$"),
        ({"change": np.nan}, r"^change=nan: expected a number between 0 and 1$"),
        ({"change": 0.0}, r"^change=0.0: expected a number between 0 and 1$"),
        ({"change": 2.0}, r"^change=2.0: expected a number between 0 and 1$"),
        ({"change": "small"}, r"^change='small': expected a number between 0 and 1$"),
    ],
)
def test_what_would_leave_a_certificate_blind_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        dc.certify(zoo.BALL.system, zoo.BALL.params, [1.0], [0.0], [0.0, 1.0], **options)


def test_a_line_has_no_contacts_to_certify():
    with pytest.raises(ValueError, match="certify: expected a System"):
        dc.certify(zoo.CHAIN.system, zoo.CHAIN.params, *zoo.CHAIN.start(zoo.CHAIN.params), [0.0, 1.0])


BALL = dc.systems.balls(1, 1, box=(0.0, jnp.inf))

FALLS = {"mass": np.ones(1), "radius": np.zeros(1), "gravity": np.array([-9.81]), "restitution": 0.8}

TIMES = np.linspace(0.0, 1.5, 151)


@pytest.mark.full
def test_gaps_of_ones_own_are_not_called_by_the_names_of_those_of_balls():
    """One wall for one of two balls, which touch nothing else."""
    one = replace(dc.systems.balls(2, 1), gap=lambda t, q, params: 9.0 - q[1:])
    params = {"mass": np.ones(2), "radius": np.ones(2), "gravity": np.zeros(1), "restitution": 0.5}
    certificate = dc.certify(one, params, [1.0, 2.0], [2.0, 1.0], np.linspace(0.0, 8.0, 81))
    assert certificate.clear
    np.testing.assert_allclose(certificate.trajectory.percussions.time[0], 7.0, atol=1e-12)


@pytest.mark.full
def test_a_certificate_is_for_values_that_are_known():
    with pytest.raises(ValueError, match="certify works outside transformations only"):
        jax.jit(lambda q0: dc.certify(BALL, FALLS, q0, [0.0], TIMES, substeps=1).first()[1])(jnp.ones(1))


@pytest.mark.full
def test_a_bounce_at_the_threshold_of_rest():
    # What leaves the floor slower than h g / 16 = 0.04905 / 8 m/s stays there; this one is 0.01 % faster.
    v = 0.04905 / 8 / 0.8 * 1.0001
    certificate = dc.certify(BALL, FALLS, [0.0], [-v], TIMES[:2], substeps=1)
    assert certificate.first()[0] == Singularity.THRESHOLD
    # Within 1e-5 of it nothing changes, but that its next rebound is slower.
    certificate = dc.certify(BALL, FALLS, [0.0], [-v], TIMES[:2], substeps=1, change=1e-5)
    assert certificate.first()[0] == Singularity.ZENO_END
    # A single impact is no Zeno sequence.
    assert (
        dc.certify(BALL, FALLS, [0.0], [-0.999 * v], TIMES[:2], substeps=1, change=1e-5).first()[0] == Singularity.SLOW
    )


@pytest.mark.full
def test_a_slow_landing_has_a_derivative_whatever_the_step():
    # It is slow against what a step makes of it, h g / 16 = 6 mm/s, not against its own motion.
    assert dc.certify(BALL, {**FALLS, "restitution": 0.0}, [0.0], [-0.005], TIMES[:2], substeps=1).clear


TWO = dc.systems.balls(2, 2)

DISCS = {"mass": np.ones(2), "radius": 0.5 * np.ones(2), "gravity": np.zeros(2), "restitution": 1.0}


@pytest.mark.full
@pytest.mark.parametrize(
    ("apart", "grazes"), [(1.0, True), (1 + 1e-10, True), (1 - 1e-10, True), (1.01, False), (0.9, False)]
)
def test_discs_that_pass_at_the_sum_of_their_radii(apart, grazes):
    run = [-1.5, apart, 0.0, 0.0], [3.0, 0.0, 0.0, 0.0], np.linspace(0.0, 1.0, 11)
    certificate = dc.certify(TWO, DISCS, *run, substeps=1)
    assert certificate.first()[0] == (Singularity.GRAZING if grazes else Singularity.NONE)


@pytest.mark.full
def test_a_touching_cradle_says_by_which_parameters_it_has_a_derivative():
    """What opens or presses the contact of the balls that rest has two sides; masses and the blow have not."""
    params = {"mass": jnp.array([1.0, 1.0, 2.0]), "radius": 0.1 * jnp.ones(3), "gravity": jnp.zeros(1)}
    run = {**params, "restitution": 0.95}, [-0.5, 0.0, 0.2], [1.0, 0.0, 0.0], np.linspace(0.0, 1.0, 11)
    certificate = dc.certify(dc.systems.balls(3, 1), *run, substeps=1)
    assert {Singularity.SIMULTANEOUS, Singularity.UNLOADED} <= {one.singularity for one in certificate.findings}
    # A larger first ball comes earlier, and no more.
    expected = {"radius[1]", "radius[2]", "q0[1]", "q0[2]", "u0[1]", "u0[2]"}
    assert set(certificate.differing) == expected
    assert "differ by q0[1], q0[2], radius[1]" in str(certificate)


@pytest.mark.full
def test_a_lift_off_has_a_derivative():
    # A spring whose end accelerates upwards takes a mass off the floor.
    lifted = dc.System(
        lambda t, q, p: q,
        lambda t, q, u, p: p["k"] * (p["w"] * t**2 - q) - p["g"],
        lambda q, p: jnp.ones(1),
        lambda p: 0.0,
    )
    params, times = {"k": 100.0, "w": 1.3, "g": 20.0}, np.linspace(0.0, 0.8, 81)
    certificate = dc.certify(lifted, params, [0.0], [0.0], times, substeps=1)
    assert certificate.clear, str(certificate)
    assert not np.any(np.asarray(certificate.trajectory.percussions.contact) >= 0)


@pytest.mark.full
def test_balls_with_a_cell_list_are_certified_as_without():
    box = (0.0, 1.0)
    params = {"mass": jnp.ones(3), "radius": 0.1 * jnp.ones(3), "gravity": jnp.zeros(2), "restitution": 0.9}
    # One disc between two that come from both sides at once.
    run = [0.22, 0.5, 0.5, 0.5, 0.78, 0.5], [0.5, 0.0, 0.0, 0.0, -0.5, 0.0], np.linspace(0.0, 0.5, 6)
    listed = dc.certify(dc.systems.balls(3, 2, box, cell=0.3), params, *run, substeps=1).findings
    dense = dc.certify(dc.systems.balls(3, 2, box), params, *run, substeps=1).findings
    assert [(f.singularity, f.contact, f.name) for f in listed] == [(f.singularity, f.contact, f.name) for f in dense]
    assert listed[0].singularity == Singularity.SIMULTANEOUS
    assert listed[0].name in ("ball 0 and ball 1", "ball 1 and ball 2")
    # Both gaps of 0.08 m close at 0.5 m/s.
    np.testing.assert_allclose(listed[0].time, 0.16, atol=1e-12)


@pytest.mark.full
def test_two_walls_at_once_have_a_derivative_whatever_else_is_far_away():
    # Contacts that are open do not couple the two walls of a corner.
    box = dc.systems.balls(3, 2, (0.0, 1.0))
    params = {"mass": jnp.ones(3), "radius": 0.1 * jnp.ones(3), "gravity": jnp.zeros(2), "restitution": 0.9}
    run = [0.225, 0.225, 0.7, 0.3, 0.3, 0.7], [-1.0, -1.0, 0.0, 0.0, 0.0, 0.0], np.linspace(0.0, 0.5, 6)
    assert dc.certify(box, params, *run, substeps=1).clear
    found = dc.sensitivity(box, params, *run, wrt=["q0", "u0"])
    # Each coordinate returns by itself: q = 0.1 + e (gap / v - t) v, with respect to q0 and u0.
    np.testing.assert_allclose(found.dq["q0"][-1][:2, :2], -0.9 * np.eye(2), atol=1e-12)
    np.testing.assert_allclose(found.dq["u0"][-1][:2, :2], -0.45 * np.eye(2), atol=1e-12)


@pytest.mark.full
def test_steps_are_found_where_none_are_given():
    # One step of eight seconds leaves out flights below a second.
    coarse = dc.certify(BALL, FALLS, [1.0], [0.0], [0.0, 8.0], substeps=1)
    assert coarse.first()[0] == Singularity.SLOW
    assert "status TOO_COARSE" in str(coarse)
    fine = dc.certify(BALL, FALLS, [1.0], [0.0], [0.0, 1.0])
    assert fine.clear
    fall, speed = np.sqrt(2 / 9.81), np.sqrt(2 * 9.81)
    bounced = 0.8 * speed * (1 - fall) - 9.81 / 2 * (1 - fall) ** 2
    np.testing.assert_allclose(fine.trajectory.q[:, 0], [1.0, bounced], atol=1e-12)
    np.testing.assert_allclose(fine.trajectory.impulse[:, 0], [1.8 * speed], rtol=1e-12)
