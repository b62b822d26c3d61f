import math
import re

import pytest
from tables import cases

from diffcontact.scene.units import Unit, factor


@pytest.mark.parametrize(
    ("unit", "wanted", "expected"),
    [
        ("mm", "m", 1e-3),
        ("min", "s", 60.0),
        ("deg", "rad", math.pi / 180.0),
        ("turn", "deg", 360.0),
        ("rpm", "turn/s", 1 / 60.0),
        ("deg/ms", "rad/s", 1e3 * math.pi / 180.0),
        ("", "1", 1.0),
        ("%", "", 1e-2),
        ("mm/s^2", "m/s^2", 1e-3),
        ("kg*m/s^2", "N", 1.0),
        ("g*cm^2", "kg*m^2", 1e-7),
        ("1/ms", "Hz", 1e3),
        ("s^-1", "1/s", 1.0),
    ],
)
def test_converts(unit, wanted, expected):
    assert math.isclose(factor(unit, wanted), expected, rel_tol=1e-15)  # a few rounded products


@cases(
    "unit wanted",
    """
    mm | s
    kg | N
    px | m
    rad/s | Hz
    m/s | m/s^2
    N | kg*m/s
    """,
)
def test_other_dimension_is_refused(unit, wanted):
    with pytest.raises(ValueError, match=re.escape(f"unit '{unit}' cannot be converted to '{wanted}'")):
        factor(unit, wanted)


@pytest.mark.parametrize(("unit", "wanted"), [("Hz", "rad/s"), ("1/min", "rad/s"), ("", "rad")])
def test_a_number_is_no_angle(unit, wanted):
    """5 Hz are five turns a second to one, 5 rad/s to another: a factor of 2 pi."""
    with pytest.raises(
        ValueError, match=f"cannot be converted to '{wanted}': of no angle, .* '{wanted}', 'deg.*', 'turn"
    ):
        factor(unit, wanted)


@pytest.mark.parametrize("unit", ["inch", "m^1.5", "m//s", "m s", "kg*", "/s"])
def test_unknown_unit_is_refused(unit):
    with pytest.raises(ValueError, match="unknown unit"):
        Unit.parse(unit)
