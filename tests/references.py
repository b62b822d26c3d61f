"""The event-exact states and derivatives of `tests/reference` as rows of the zoo's models.

A reference is a row of a model whose parameters are more, and whose coordinates may be: `places` says where each of its
own parameters stands there, by name, index and sign.
"""

import json
from dataclasses import dataclass

import numpy as np
import zoo
from programs import run, transposed

from diffcontact import Status


@dataclass(frozen=True)
class Place:
    """Where a parameter of a reference stands among those of the model: which entry of which one, with a factor."""

    name: str
    index: tuple | int = ()
    factor: float = 1.0


@dataclass(frozen=True)
class Reference:
    """How a file's problem is run: a parameter may stand at several places, and one without any is not compared."""

    path: str
    model: object
    given: dict
    places: dict
    q: list
    # Coordinates of the velocity, where they are not those of the position.
    u: list = None
    # Of states and derivatives, relative to their largest entry where that is above 1.
    tolerance: float = 1e-10

    def rows(self, folder):
        """Label -> (row, exact state, exact derivative (state, parameters)) of each end time."""
        file = json.loads((folder / f"{self.path}.json").read_text())
        row = {name: self._full(name, value) for name, value in self.given.items()}
        for parameter, places in self.places.items():
            for place in places:
                row.setdefault(place.name, self._full(place.name, self.model.params[place.name]))
                row[place.name][place.index] = file["parameters"][parameter] * place.factor
        columns = [list(file["parameters"]).index(parameter) for parameter in self.places]
        return {
            f"{self.path} until {each['T']}": (
                row | {"end": each["T"]},
                np.array(each["state"]),
                np.array(each["jacobian"])[:, columns],
            )
            for each in file["runs"]
            if self.path != "exact/onto_resting_ball" or each["T"] > 0.32
        }

    def state(self, motion):
        return motion.end[self.kept(motion.q.shape[1])]

    def derivative(self, motion):
        """(state, parameters) of the end."""

        def by(place):
            index = place.index if isinstance(place.index, tuple) else (place.index,)
            return motion.by[place.name][-1][(slice(None), *index)] * place.factor

        columns = [sum(by(place) for place in places) for places in self.places.values()]
        return np.stack(columns, axis=1)[self.kept(motion.q.shape[1])]

    def kept(self, dimension):
        """Which numbers of q, of this dimension, and then of u are those of the file."""
        return [*self.q, *(dimension + k for k in self.u or self.q)]

    def _full(self, name, value):
        known = name in self.model.params
        return np.array(np.broadcast_to(value, np.shape(self.model.params[name])), float) if known else value


def of(model):
    """Names of the references that are rows of this model."""
    return [name for name, reference in REFERENCES.items() if reference.model is model]


def check(folder, name, scheme=None, tolerance=None):
    """States and derivatives are the exact ones, at every end time of the file."""
    reference = REFERENCES[name]
    rows, tolerance = reference.rows(folder), tolerance or reference.tolerance
    found = run(reference.model, {label: row for label, (row, _, _) in rows.items()}, scheme)
    for label, (_, state, derivative) in rows.items():
        assert found[label].status == Status.OK, f"{label}: {Status(found[label].status).name}"
        _near(reference.state(found[label]), state, tolerance, f"{label}: state")
        _near(reference.derivative(found[label]), derivative, tolerance, f"{label}: derivative")


def check_reversed(folder, name):
    """The exact derivative of a weighted sum of the last end's state, by one pass of reverse mode."""
    reference = REFERENCES[name]
    row, state, derivative = list(reference.rows(folder).values())[-1]
    q0, u0 = map(np.asarray, reference.model.start(reference.model.params))
    weights, full = np.cos(np.arange(state.size)), np.zeros(q0.size + u0.size)
    full[reference.kept(q0.size)] = weights
    back = transposed(reference.model, row, full)
    found = [sum(back[place.name][place.index] * place.factor for place in x) for x in reference.places.values()]
    _near(found, weights @ derivative, weights.size * reference.tolerance, name)


def _near(value, truth, tolerance, label):
    np.testing.assert_allclose(value, truth, rtol=0, atol=tolerance * max(1.0, np.max(np.abs(truth))), err_msg=label)


def _at(**places):
    """The file's name of a parameter -> its places, each given as a name or (name, index, factor)."""
    return {name: (Place(*([place] if isinstance(place, str) else place)),) for name, place in places.items()}


def _entries(name, parameters, first=0):
    """Parameters that are entries of a vector, in order."""
    return {parameter: (Place(name, first + k),) for k, parameter in enumerate(parameters)}


FREE = {"floor": -zoo.FAR, "gravity": 0.0, "centre": 0.0}
PLANE = _entries("q0", ["x0", "y0"])
THROWN = PLANE | _entries("u0", ["vx0", "vy0"]) | _at(radius="radius", restitution=("restitution", 2))
UP = _at(q0=("q0", 1), restitution=("restitution", 0), gravity=("gravity", 1, -1.0))
BLOCK = _at(v0=("u0", 0), mu="friction", angle="slope", gravity="gravity")
COULOMB = _at(mu="friction", e="restitution", et="tangential_restitution", r="radius")
DISC = COULOMB | _at(inertia="inertia", gravity="gravity", y0=("q0", 1)) | _entries("u0", ["vx", "vy", "spin"])
SPHERE = COULOMB | _at(gravity=("gravity", 2, -1.0)) | _entries("u0", ["vx", "vy", "vz", "wx", "wy", "wz"])
LANDS = {name: place for name, place in DISC.items() if name != "e"}
# It lies on the floor where it starts.
LIES = {name: place for name, place in SPHERE.items() if name not in ("vz", "e")}
LIES |= {"r": (Place("radius"), Place("q0", 2))}
BOX = _at(mu="friction", e="restitution", a=("half", 0), b=("half", 1), gravity=("force", 1, -1.0), y0=("q0", 1))
BOX |= _at(angle0=("q0", 2)) | _entries("u0", ["vx", "vy", "spin"])
LADDER = _at(L="length", mu="friction", gravity="gravity", angle="angle", spin="spin")
DISCS = _at(mu="friction", e="restitution") | _entries("radius", ["r1", "r2"]) | _entries("mass", ["m1", "m2"])
DISCS |= _entries("q0", [f"q{k}" for k in range(6)]) | _entries("u0", [f"u{k}" for k in range(6)])
BALLS = _entries("mass", ["mass[0]", "mass[1]"]) | _at(restitution="restitution")
BALLS |= _entries("q0", [f"q0[{k}]" for k in range(4)]) | _entries("u0", [f"u0[{k}]" for k in range(4)])
CARRIED = _entries("mass", ["mass_1", "mass_2"]) | _at(restitution="restitution", height=("q0", 1))
CARRIED |= _at(gravity=("gravity", 0, -1.0))
RODS = _entries("q0", ["theta1", "theta2"]) | _entries("u0", ["omega1", "omega2"])
RODS |= _entries("mass", ["mass1", "mass2"]) | _entries("length", ["length1", "length2"])
RODS |= _at(gravity="gravity", restitution="restitution")
SLIDER = _at(mass=("mass", 0), gamma="friction", q0=("q0", 0), u0=("u0", 0))
SLIDER |= {"percussion[0]": (Place("percussion", 0),), "percussion[1]": (Place("percussion", 2),)}
CHAIN = _entries("mass", ["mass[0]", "mass[1]"]) | _at(stiffness="stiffness", damping="damping", gamma="friction")
CHAIN |= _entries("q0", ["q0[0]", "q0[1]"]) | _entries("u0", ["u0[0]", "u0[1]"]) | _at(load=("load", 1))
CHAIN |= {"percussion[0]": (Place("percussion", 1),)}
ONE = {"stiffness": 0.0, "damping": 0.0, "load": 0.0, "normal": 19.62, "u0": 0.0, "q0": 0.0, "percussion": 0.0}

REFERENCES = {
    "bounce": Reference("exact/bounce", zoo.POINT, {}, UP | _at(u0=("u0", 1)), [1]),
    "vibrating_table": Reference(
        "exact/vibrating_table", zoo.POINT, {}, UP | _at(amplitude="amplitude", omega="omega"), [1]
    ),
    "landing_slope": Reference(
        "exact/landing_slope",
        zoo.POINT,
        {"restitution": 0.0},
        PLANE | _at(gravity=("gravity", 1, -1.0), angle="angle"),
        [0, 1],
    ),
    "round_obstacle": Reference("exact/round_obstacle", zoo.POINT, FREE, THROWN, [0, 1]),
    "inelastic_obstacle": Reference("exact/inelastic_obstacle", zoo.POINT, FREE, THROWN, [0, 1]),
    # Fourth order along a curve, at steps of 1e-3: 1e-11.
    "landing_bowl": Reference(
        "exact/landing_bowl",
        zoo.POINT,
        {"floor": -zoo.FAR, "centre": 0.0, "side": -1.0, "restitution": 0.0, "substeps": 50},
        PLANE | _at(gravity=("gravity", 1, -1.0)),
        [0, 1],
    ),
    "slope_stop": Reference("coulomb/slope_stop", zoo.DISC, {}, BLOCK, [0, 1]),
    "slope_back": Reference("coulomb/slope_back", zoo.DISC, {}, BLOCK, [0, 1]),
    # Its last bounce takes 44 ms.
    "disc_bounce": Reference("coulomb/disc_bounce", zoo.DISC, {"substeps": 4}, DISC, [0, 1, 2]),
    "disc_superball": Reference("coulomb/disc_superball", zoo.DISC, {}, DISC, [0, 1, 2]),
    "disc_land": Reference("coulomb/disc_land", zoo.DISC, {}, LANDS, [0, 1, 2]),
    # Fourth order at steps of 2e-3: 1e-11.
    "driven_block": Reference(
        "coulomb/driven_block",
        zoo.DISC,
        {"substeps": 38},
        BLOCK | _at(amplitude="amplitude", frequency="frequency"),
        [0, 1],
    ),
    "sphere_bounce": Reference(
        "coulomb/sphere_bounce", zoo.SPHERE, {}, SPHERE | _at(z0=("q0", 2)), [0, 1, 2], [*range(6)]
    ),
    "sphere_masse": Reference("coulomb/sphere_masse", zoo.SPHERE, {"substeps": 25}, LIES, [0, 1, 2], [*range(6)]),
    "two_discs": Reference("coulomb/two_discs", zoo.TWO_DISCS, {}, DISCS, [*range(6)]),
    "box_corner": Reference("coulomb/box_corner", zoo.BOX, {}, BOX, [0, 1, 2]),
    # At steps of 1e-3.
    "ladder": Reference("coulomb/ladder", zoo.LADDER, {"substeps": 15}, LADDER, [0, 1, 2]),
    # Nine impacts amplify what is rounded.
    "two_balls_box_2d": Reference("exact/two_balls_box_2d", zoo.TWO_BALLS, {}, BALLS, [0, 1, 2, 3], tolerance=1e-9),
    "onto_resting_ball": Reference(
        "exact/onto_resting_ball",
        zoo.ROW,
        {"q0": [1e-12, 0.0, 500.0, 900.0], "u0": 0.0, "radius": 1e-12, "substeps": 5},
        CARRIED,
        [0, 1],
    ),
    # Two rods, and M(q): at steps of 1e-3: 1e-10.
    "double_pendulum_wall": Reference(
        "exact/double_pendulum_wall", zoo.PENDULUM, {"substeps": 50}, RODS, [0, 1], tolerance=1e-9
    ),
    "slider_percussions": Reference("exact/slider_percussions", zoo.CHAIN, ONE, SLIDER, [0]),
    # At steps of 5e-4: 6e-8 in the state, 4e-7 in the derivative.
    "two_particle_chain": Reference(
        "exact/two_particle_chain", zoo.CHAIN, {"substeps": 60}, CHAIN, [0, 1], tolerance=2e-6
    ),
}
