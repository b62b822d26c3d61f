"""Small readers of texts and columns: what each makes of one example, and how it refuses another."""

import numpy as np
import pytest

from diffcontact.commands import ensemble, options
from diffcontact.host.messages import one_line, printable, shown
from diffcontact.report.content import short
from diffcontact.report.table import number as printed
from diffcontact.scene import clock, units
from diffcontact.scene.draft import headings, layout, motion
from diffcontact.scene.draft.survey import _ticks, is_angle, quaternions_in
from diffcontact.scene.measurements import lines_of
from diffcontact.scene.preparation import bounces
from diffcontact.scene.preparation.free_decay import harmonic
from diffcontact.scene.recordings import recognised, sheet
from diffcontact.scene.study import without_unit

UNIT = headings.Headings()
T = np.linspace(0.0, 2.0, 801)

ONE_BY_ONE = [
    (UNIT.unit, {"x [mm]": "mm", "t/ms": "ms", "height (inches)": "in", "x_cm": "cm", "v_m_s": "m/s", "x (left)": ""}),
    (UNIT.quantity, {"v [m/s]": "a velocity", "F_N": "a force", "theta [deg]": "an angle", "y [mm]": ""}),
    (
        headings.axis_of,
        {"ball x [mm]": ("x", "ball"), "X2": ("x", "2"), "cy": ("y", "c"), "left cart": ("", "left cart")},
    ),
    (headings.is_spacing, {"dt": True, "delta_t [ms]": True, "time step (s)": True, "t": False, "distance": False}),
    (headings.read_unit, {"MM": "mm", "µs": "us", "in pixels": "px", "cm, from the wall": "cm", "yd": "", "1": ""}),
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
    (sheet.listed, {"abcdefghijk": "a, b, c, d, e, f, g, h and 3 more"}),
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
    assert short(["data/a.csv, stretch 1 of 2", "data/a.csv, stretch 2 of 2"]) == ["stretch 1 of 2", "stretch 2 of 2"]


def test_clocks():
    rounded = clock.straight_clock(np.array([0.0, 0.0, 0.01, 0.01, 0.02, 0.02, 0.03]))
    np.testing.assert_allclose(rounded, [-0.002, 0.003, 0.008, 0.013, 0.018, 0.023, 0.028], atol=5e-4)
    # The fourth row is late, two frames are lost after it.
    late = clock.frame_clock(np.array([0.0, 0.007, 0.014, 0.024, 0.042, 0.049, 0.056]))
    np.testing.assert_allclose(late, [0.0006, 0.0076, 0.0145, 0.0215, 0.0423, 0.0493, 0.0562], atol=5e-5)
    assert clock.resolution(np.array([0.25, 0.5, 1.0])) == 0.01
    assert clock.summed(np.array([np.nan, 0.5, 0.25])).tolist() == [0.0, 0.5, 0.75]
    assert [clock.backwards(np.array(t)) for t in ([0.3, 0.2, np.nan, 0.1], [0.0, 0.2, 0.1, 0.3])] == [True, False]
    later = clock.increasing(np.array([0.0, 1.0, 1.0, np.nan, 0.5, 2.0]))
    assert later.tolist() == [True, True, False, False, False, True]
    steady = [_ticks(x) for x in (np.array([0.0, 0.3, 0.7, 1.0, 1.3, 1.7]), np.sqrt(np.arange(30.0)))]
    assert steady == [True, False]


def test_layouts_and_headers():
    found = layout.layout_of(["tracked by hand", "t;x", "s;mm", "0,0;1,5", "0,1;-", "0,2;2,5"])
    read = found.reading
    assert (read.delimiter, read.decimal, read.skip, read.missing) == (";", ",", (1, 1), (("-",),))
    assert layout.stated_rate(["Frame rate;240", "cut off at 6 Hz"]) == (240.0, 1)
    assert layout.stated_rate(["ANALOG_FREQUENCY\t1000", "Capture Frame Rate,240,Export Frame Rate,120"]) == (120.0, 2)
    assert [layout.encoding_of("Höhe".encode(x)) for x in ("utf-8", "utf-16", "latin-1")] == [
        "UTF-8",
        "UTF-16",
        "Latin-1",
    ]
    lines = ["scorer,net,net", "bodyparts,ball,ball", "coords,x,y", "0,12.5,20.0"]
    assert recognised(lines).names == ("frame", "ball x [px]", "ball y [px]")
    assert [row.fields for row in sheet.rows_of(["a,b", '1,"2', '3"'], ",", 1)] == [["1", "2\n3"]]
    assert [row.fields for row in sheet.rows_of(["0.1  2 3"], " ")] == [["0.1", "2", "3"]]
    tracks = [[sheet.Sample(3, 0.0, {1: "5"}), sheet.Sample(4, 0.5, {1: "6"})], [sheet.Sample(7, 0.5, {2: "8"})]]
    assert [row.fields for row in sheet.joined(tracks, 2, ",")] == [["0,0", "5", ""], ["0,5", "6", "8"]]
    turned = np.full(3, 0.5)
    columns = {"t": np.arange(3.0), "qw": turned, "qx": turned, "qy": turned, "qz": -turned}
    assert quaternions_in(columns) == (("qw", "qx", "qy", "qz"),)


def test_motions():
    x, v, a = 1 - np.cos(2 * T), 2 * np.sin(2 * T), 4 * np.cos(2 * T)
    np.testing.assert_allclose(motion.pushed(T, x, 3 * a + 2 * v + np.sign(v)), [3.0, 2.0, 1.0], atol=5e-3)
    np.testing.assert_allclose(motion.fall(T, np.where(T < 1, T, 2 - T) - 9.81 * T**2 / 2), 9.81, atol=5e-3)
    wave = harmonic(T, 0.3 + (1.0 - 0.05 * T) * np.sin(2.0 * T), 2.0)
    np.testing.assert_allclose([wave.centre, wave.value, wave.slope], [0.3, 0.3, 2.0], atol=1e-9)
    height = np.abs(T[::20] - 0.76)[:, None]
    np.testing.assert_allclose(motion.kinks(T[::20], height, np.full(height.shape, 1e-3))[0], [0.76], atol=1e-9)
    # A fall of which four of twelve samples are of a hand that keeps still.
    t = np.arange(12.0)
    (fall,) = bounces.flights(t, np.where((t > 3) & (t < 8), 390.0, 4 * t**2))
    np.testing.assert_allclose(fall.parabola.coef, [0.0, 0.0, 4.0], atol=1e-9)
    steady = bounces.steady_rhythm(np.isin(np.arange(30), [8, 9, 13, 18, 23]))
    assert np.flatnonzero(steady).tolist() == [3, 8, 13, 18, 23, 28]
