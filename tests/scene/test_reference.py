"""The reference of scenes has every key that the readers accept, and no other."""

import datetime
import re
import tomllib
from pathlib import Path

import pytest

from diffcontact.commands.cli import main
from diffcontact.commands.scene import FULL, reference, sections
from diffcontact.scene.document import parse_scene
from diffcontact.scene.keys import QUANTITY_KEYS, Table
from diffcontact.scene.kinds import KINDS
from diffcontact.scene.preparation import PREPARATIONS

# One scene for every way to prepare columns, the systems with all that they can have; MM is a quantity in mm.
TEXT = """
["common line"]
system = { kind = "carts" }
data = { noise = MM, time = "t" }
preparation = { first = ["x"], second = ["y"], exclude_contact = S, around_contact = { value = 2, unit = "s" } }
parameters = "mass_ratio distance tilt sag drag dry_friction restitution q0 u0"
[coordinates]
system = { kind = "balls", unit = "m" }
data = { noise = PX, time = "t", scale = { value = 0.5, sigma = 0.1, unit = "mm/px" } }
preparation = { columns = ["a", "b", "c", "d"], angles = ["e", "f"], angle_unit = "deg", angle_noise = DEG }
parameters = '''mass radius gravity plane_offset fixed_centre fixed_radius restitution friction
  drag damping dry_friction magnus magnus_saturation q0 u0 spin0 angle0'''
ties = { "mass[1]" = "mass[0]" }
[poses]
system = { kind = "bodies", dimension = 3, planes = [[0, 0, 1]], bodies.die = { shape = "box", sides = [1, 1, 1] } }
data = { noise = MM, time = "t" }
preparation = { columns = ["x", "y", "z"], quaternions = ["a", "b", "c", "d"], angle_noise = DEG }
parameters = "mass gravity plane_offset restitution friction q0 u0 angle0 spin0"
[named]
system = { kind = "mechanism", each = ["friction"] }
data = { noise = MM, time = "t" }
preparation = { columns = { hip = "a", shin = ["x", "", "z"] }, angle_noise = DEG }
parameters = "restitution damping mass q0 u0"
[rebound]
system = { kind = "balls", count = 1, dimension = 2 }
data = { noise = MM, time = "t" }
preparation = { columns = ["x", "y"], up = "y" }
parameters = "mass radius gravity restitution q0 u0"
[bounces]
system = { kind = "bouncing ball" }
data = { noise = PX }
preparation = { column = "y", blur = FRAME }
parameters = "restitution gravity drag floor floor_drift q0 u0"
[sound]
system = { kind = "bouncing ball", length = "m", time = "s" }
data = { noise = S, time = "t" }
preparation = {}
parameters = "restitution gravity drag floor floor_drift q0 u0"
[track]
system = { kind = "particle line", drive = { column = "F", unit = "N" } }
data = { noise = MM, time = "t" }
preparation = { along = "x", height = "y" }
parameters = "mass stiffness damping gamma normal rest q0 u0"
[oscillation]
system = { kind = "pendulum" }
data = { noise = DEG, time = "t" }
preparation = { column = "x" }
parameters = "stiffness rest damping drag q0 u0"
[impacts]
system = { kind = "impact", of = "body" }
data = { noise = { value = 1, unit = "m/s" } }
preparation = { before = ["a", "b"], after = ["c", "d"], spin = ["e", "f"], levers = ["g", "h"], gyration = MM }
parameters = "restitution friction u0"
[slide]
system = { kind = "particle line" }
data = { noise = MM, time = "t" }
preparation = { columns = ["x", "y"] }
parameters = "mass stiffness damping gamma normal rest q0 u0"
"""
SCENES = tomllib.loads(
    re.sub(r"\b(MM|PX|DEG|S|FRAME)\b", lambda unit: f'{{ value = 1, unit = "{unit[0].lower()}" }}', TEXT)
)
for made in SCENES.values():
    made["parameters"] = {name: {"value": 0.5} for name in made["parameters"].split()}
SCENES["common line"]["parameters"]["restitution"]["prior"] = {"mean": 0.5, "sigma": 0.1}
SCENES["coordinates"]["system"] |= FULL["balls"]
SCENES["named"]["system"] |= FULL["mechanism"]


def parsed(preparation, path=(), key=None, value=None):
    """The base scene, with a key of one of its tables changed."""
    changed = {"fit": {}, "output": {}, **SCENES[preparation]}
    changed["preparation"] = {"kind": preparation, **changed["preparation"]}
    table = changed
    for name in path:
        table[name] = dict(table[name])
        table = table[name]
    if key is not None:
        table[key] = value
    return parse_scene(Table(changed, "scene.toml"), Path())


# What stands for NAME in the scenes.
NAMES = {("parameters",): "restitution", ("system", "bodies"): "die"}


def general(path):
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
    assert KINDS.keys() == {one["system"]["kind"] for one in SCENES.values()}
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
            for preparation, one in SCENES.items():
                path = tuple(NAMES[part.path[:i]] if name == "NAME" else name for i, name in enumerate(part.path))
                table, there = {"fit": {}, "output": {}, **one}, True
                for name in path:
                    there = there and name in table
                    table = table.get(name, {}) if there else {}
                if there and part.kind in ("", one["system"]["kind"], preparation):
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
        parsed("sound", ("data",), "noise", {"value": 1.0, "unit": "mm"})
