"""The reference of scenes has every key that the readers accept, and no other."""

import datetime
import re
from pathlib import Path

import pytest

from diffcontact.commands.cli import main
from diffcontact.commands.scene import FULL, reference, sections
from diffcontact.scene.document import parse_scene
from diffcontact.scene.keys import QUANTITY_KEYS, Table
from diffcontact.scene.kinds import KINDS
from diffcontact.scene.preparation import PREPARATIONS

START = {"value": 0.5, "prior": {"mean": 0.5, "sigma": 0.1}}


def values(*names):
    return {name: {"value": 0.5} for name in names}


def quantity(unit, value=1.0):
    return {"value": value, "unit": unit}


# One scene for every way to prepare columns, the systems with all that they can have.
SCENES = {
    "common line": {
        "system": {"kind": "carts"},
        "data": {"noise": quantity("mm"), "time": "t"},
        "preparation": {
            "first": ["x"],
            "second": ["y"],
            "exclude_contact": quantity("s"),
            "around_contact": quantity("s", 2),
        },
        "parameters": values("mass_ratio", "distance", "tilt", "sag", "drag", "q0", "u0") | {"restitution": START},
    },
    "coordinates": {
        "system": {"kind": "balls", "unit": "m", **FULL["balls"]},
        "data": {"noise": quantity("px"), "time": "t", "scale": {"value": 0.5, "sigma": 0.1, "unit": "mm/px"}},
        "preparation": {
            "columns": ["a", "b", "c", "d"],
            "angles": ["e", "f"],
            "angle_unit": "deg",
            "angle_noise": quantity("deg"),
        },
        "parameters": values(
            *("mass", "radius", "gravity", "plane_offset", "fixed_centre", "fixed_radius", "restitution", "friction"),
            *("drag", "damping", "magnus", "magnus_saturation", "q0", "u0", "spin0", "angle0"),
        ),
        "ties": {"mass[1]": "mass[0]"},
    },
    "poses": {
        "system": {
            "kind": "bodies",
            "dimension": 3,
            "planes": [[0, 0, 1]],
            "bodies": {"die": {"shape": "box", "sides": [0.1, 0.1, 0.1]}},
        },
        "data": {"noise": quantity("mm"), "time": "t"},
        "preparation": {
            "columns": ["x", "y", "z"],
            "quaternions": ["a", "b", "c", "d"],
            "angle_noise": quantity("deg"),
        },
        "parameters": values(
            *("mass", "gravity", "plane_offset", "restitution", "friction", "q0", "u0", "angle0", "spin0"),
        ),
    },
    "named": {
        "system": {"kind": "mechanism", "each": ["friction"], **FULL["mechanism"]},
        "data": {"noise": quantity("mm"), "time": "t"},
        "preparation": {
            "columns": {"hip": "a", "shin": ["x", "", "z"]},
            "angle_noise": quantity("deg"),
        },
        "parameters": values("restitution", "damping", "mass", "q0", "u0"),
    },
    "rebound": {
        "system": {"kind": "balls", "count": 1, "dimension": 2},
        "data": {"noise": quantity("mm"), "time": "t"},
        "preparation": {"columns": ["x", "y"], "up": "y"},
        "parameters": values("mass", "radius", "gravity", "restitution", "q0", "u0"),
    },
    "bounces": {
        "system": {"kind": "bouncing ball"},
        "data": {"noise": quantity("px")},
        "preparation": {"column": "y", "blur": quantity("frame")},
        "parameters": values("restitution", "gravity", "drag", "floor", "floor_drift", "q0", "u0"),
    },
    "sound": {
        "system": {"kind": "bouncing ball", "length": "m", "time": "s"},
        "data": {"noise": quantity("ms"), "time": "t"},
        "preparation": {},
        "parameters": values("restitution", "gravity", "drag", "floor", "floor_drift", "q0", "u0"),
    },
    "track": {
        "system": {"kind": "particle line", "drive": {"column": "F", "unit": "N"}},
        "data": {"noise": quantity("mm"), "time": "t"},
        "preparation": {"along": "x", "height": "y"},
        "parameters": values("mass", "stiffness", "damping", "gamma", "normal", "rest", "q0", "u0"),
    },
    "oscillation": {
        "system": {"kind": "pendulum"},
        "data": {"noise": quantity("deg"), "time": "t"},
        "preparation": {"column": "x"},
        "parameters": values("stiffness", "rest", "damping", "drag", "q0", "u0"),
    },
    "impacts": {
        "system": {"kind": "impact", "of": "body"},
        "data": {"noise": quantity("m/s")},
        "preparation": {
            "before": ["a", "b"],
            "after": ["c", "d"],
            "spin": ["e", "f"],
            "levers": ["g", "h"],
            "gyration": quantity("mm"),
        },
        "parameters": values("restitution", "friction", "u0"),
    },
    "slide": {
        "system": {"kind": "particle line"},
        "data": {"noise": quantity("mm"), "time": "t"},
        "preparation": {"columns": ["x", "y"]},
        "parameters": values("mass", "stiffness", "damping", "gamma", "normal", "rest", "q0", "u0"),
    },
}


def parsed(preparation, path=(), key=None, value=None):
    """The base scene, with a key of one of its tables changed."""
    scene = {"fit": {}, "output": {}, **SCENES[preparation]}
    scene["preparation"] = {"kind": preparation, **scene["preparation"]}
    table = scene
    for name in path:
        table[name] = dict(table[name])
        table = table[name]
    if key is not None:
        table[key] = value
    return parse_scene(Table(scene, "scene.toml"), Path())


# What stands for NAME in the scenes.
NAMES = {("parameters",): "restitution", ("system", "bodies"): "die"}


def general(path):
    """Parameters are all alike, and so are bodies."""
    for table in NAMES:
        if path[: len(table)] == table and len(path) > len(table):
            return (*table, "NAME", *path[len(table) + 1 :])
    return path


def test_every_table_that_is_read_is_in_the_reference(monkeypatch):
    expected, read = Table.expect, set()

    def expect(self, *known):
        kind = self.data.get("kind", "") if self.path in (("system",), ("preparation",)) else ""
        read.add((general(self.path), kind, frozenset(known)))
        expected(self, *known)

    monkeypatch.setattr(Table, "expect", expect)
    assert SCENES.keys() == PREPARATIONS.keys()
    assert KINDS.keys() == {scene["system"]["kind"] for scene in SCENES.values()}
    for preparation in SCENES:
        parsed(preparation)
    of_parameters = {entry for entry in read if entry[0] == ("parameters",)}
    of_quantities = {entry for entry in read if entry[2] == frozenset(QUANTITY_KEYS)}
    # What may be tied is what there are parameters.
    told = {(part.path, part.kind, frozenset(part.keys)) for part in sections() if part.path != ("ties",)}
    assert read - of_parameters - of_quantities == told
    names = [frozenset(part.quantities) for part in sections() if part.quantities]
    # A film's scale is a parameter that no table names.
    assert any(of in names for _, _, of in of_parameters)
    assert all(any(of <= each for each in names) for _, _, of in of_parameters)
    assert of_quantities


def places():
    """Every key of the reference, with a scene in whose table it may stand."""
    for part in sections():
        for key in part.keys:
            for preparation, scene in SCENES.items():
                path = tuple(NAMES[part.path[:i]] if name == "NAME" else name for i, name in enumerate(part.path))
                table, there = {"fit": {}, "output": {}, **scene}, True
                for name in path:
                    there = there and name in table
                    table = table.get(name, {}) if there else {}
                if there and part.kind in ("", scene["system"]["kind"], preparation):
                    yield preparation, path, key.strip('"')
                    break
            else:
                raise AssertionError(f"no scene for {part.path} {key}")


@pytest.mark.parametrize(("preparation", "path", "key"), list(places()))
def test_every_key_of_the_reference_is_read(preparation, path, key):
    """No key takes a date, so that whoever reads it says so."""
    place = ".".join((*path, key))
    with pytest.raises(ValueError, match=f"^scene.toml: {re.escape(place)}: ") as refused:
        parsed(preparation, path, key, datetime.date(2020, 2, 20))
    assert "unknown key" not in str(refused.value)


def test_the_command_prints_it(capsys):
    assert main(["scene"]) == 0
    assert capsys.readouterr().out == reference() + "\n"
    assert max(map(len, reference().splitlines())) <= 120


def test_the_noise_of_impacts_that_are_heard_is_one_of_times():
    with pytest.raises(ValueError, match=r"data\.noise\.unit: unit 'mm' cannot be converted to 's'"):
        parsed("sound", ("data",), "noise", quantity("mm"))
