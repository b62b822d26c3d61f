"""Small readers of texts and columns: what each makes of one example, and how it refuses another."""

import numpy as np
import pytest

from diffcontact.commands import ensemble, options
from diffcontact.host.messages import one_line, printable, shown
from diffcontact.report.content import number as printed
from diffcontact.report.content import short
from diffcontact.scene import recordings, units
from diffcontact.scene.draft import layout, motion
from diffcontact.scene.draft.survey import is_angle
from diffcontact.scene.measurements import lines_of
from diffcontact.scene.preparation import bounces
from diffcontact.scene.study import without_unit

UNIT = layout.Headings()
T = np.linspace(0.0, 2.0, 801)

ONE_BY_ONE = [
    (UNIT.unit, {"x [mm]": "mm", "t/ms": "ms", "height (inches)": "in", "x_cm": "cm", "v_m_s": "m/s", "x (left)": ""}),
    (UNIT.quantity, {"v [m/s]": "a velocity", "F_N": "a force", "theta [deg]": "an angle", "y [mm]": ""}),
    (
        layout.axis_of,
        {"ball x [mm]": ("x", "ball"), "X2": ("x", "2"), "cy": ("y", "c"), "left cart": ("", "left cart")},
    ),
    (layout.is_spacing, {"dt": True, "delta_t [ms]": True, "time step (s)": True, "t": False, "distance": False}),
    (layout.read_unit, {"MM": "mm", "µs": "us", "in pixels": "px", "cm, from the wall": "cm", "yd": "", "1": ""}),
    (is_angle, {"angle": True, "theta 2": True, "disc_phi": True, "x": False, "photo": False}),
    (units.is_unit, {"mm/s^2": True, "mn": False, "m^12": False, ";0.25": False}),
    (units.number, {" -1.5e3 ": -1500.0}),
    (units.moment, {"00:01:02,5": 62.5, "1970-01-02T00:00:00.25Z": 86400.25}),
    (units.is_number, {"-1.5e3": True, "-": False, "nan": False}),
    (units.sizable, {0.0: True, -9.81: True, 1e300: False, 1e-320: False}),
    (units.has_decimal_comma, {"-1,5": True, "1.5": False}),
    (lambda text: units.is_plain(text, ";"), {"-1,5": True, "1,234.5": False}),
    (lambda text: units.is_meant(text, ";"), {"\u22121.5": True, "3 mm": True, "2026-01-02": False, "1A": False}),
    (without_unit, {"x1 [mm]": "x1"}),
    (one_line, {"2 of 60 samples of height\n[mm]": "2 of 60 samples of height [mm]"}),
    (printable, {"\x1b[31mred\u202e": "\\x1b[31mred\\u202e"}),
    (shown, {10**400: "100000000000000000...0000000000000000000"}),
    (lines_of, {"a\r\nb\rc\n": ["a", "b", "c"]}),
    (recordings.listed, {"abcdefghijk": "a, b, c, d, e, f, g, h and 3 more"}),
]
REFUSED = [
    (units.number, "2_00.1", "'2_00.1' is not a number"),
    (units.number, "nan", "'nan', expected a finite number"),
    (units.Unit.parse, "mn", "unknown unit 'mn'; did you mean 'mN'?"),
    (units.require_word, "1,234.5", "'1,234.5' has a separator of thousands, expected digits alone"),
    (lambda text: units.factor(text, "rad/s"), "Hz", "of no angle, expected as in 'rad/s', 'deg/s', 'turn/s'"),
    (options.count, "1_0", "'1_0' is not a whole number"),
    (options.path, " ", "' ', expected the name of a file or folder"),
    (
        ensemble.parse_variation,
        "restitution=0.5",
        "'0.5', expected LOW:HIGH:COUNT, two numbers and a count of at least 2",
    ),
]


@pytest.mark.parametrize(("read", "text", "found"), [(f, *row) for f, rows in ONE_BY_ONE for row in rows.items()])
def test_one_by_one(read, text, found):
    assert read(text) == found


@pytest.mark.parametrize(("read", "text", "message"), REFUSED)
def test_refused(read, text, message):
    with pytest.raises(Exception, match=r".*") as error:
        read(text)
    assert message in str(error.value)


def test_numbers_with_the_digits_that_errors_deserve():
    rows = [(0.99563, 0.0062), (9.81, 0.0), (1.25e12, 2e10), (1 / 3e10, 1e-149)]
    assert [printed(*row) for row in rows] == ["0.9956", "9.81", "1.25e+12", "3.33333333333e-11"]
    assert short(["x/a.csv", "y/a.csv"]) == ["x/a.csv", "y/a.csv"]
    assert short(["data/a.csv, stretch 1 of 2", "data/a.csv, stretch 2 of 2"]) == ["stretch 1 of 2", "stretch 2 of 2"]


def test_motions():
    x, v, a = 1 - np.cos(2 * T), 2 * np.sin(2 * T), 4 * np.cos(2 * T)
    np.testing.assert_allclose(motion.pushed(T, x, 3 * a + 2 * v + np.sign(v)), [3.0, 2.0, 1.0], atol=5e-3)
    np.testing.assert_allclose(motion.fall(T, np.where(T < 1, T, 2 - T) - 9.81 * T**2 / 2), 9.81, atol=5e-3)
    # A fall of which four of twelve samples are of a hand that keeps still.
    t = np.arange(12.0)
    (fall,) = bounces.flights(t, np.where((t > 3) & (t < 8), 390.0, 4 * t**2))
    np.testing.assert_allclose(fall.parabola.coef, [0.0, 0.0, 4.0], atol=1e-9)
