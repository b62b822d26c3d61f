"""What a certificate says of four balls in a row, and of one whose restitution bends: a row for each reason."""

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
