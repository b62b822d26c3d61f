"""What the package offers: reachable under the names that its documents use, and annotated."""

import inspect
import re
import subprocess
import sys
from functools import reduce
from importlib.resources import files
from pathlib import Path

import pytest

import diffcontact as dc

ROOT = Path(__file__).resolve().parents[1]
ROOMS = {name: getattr(dc, name) for name in dc.__all__ if inspect.ismodule(getattr(dc, name))}


def documented():
    """Names in README, gallery, site and docstrings: `dc.identify.Impacts`, or `hypotheses.penetration` in quotes."""
    found = set()
    pages = (ROOT / "README.md", *(ROOT / "experiments").rglob("*.md"))
    for file in (*pages, *files("diffcontact").rglob("*.py")):
        text = file.read_text()
        found |= set(re.findall(r"\bdc\.([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)", text))
        found |= {name for name in re.findall(r"`([a-z]\w*(?:\.\w+)+)", text) if name.partition(".")[0] in ROOMS}
    return sorted(found)


def offered(owner):
    """Name -> what a module or a class offers; of a module without a list of it, what was written there."""
    if hasattr(owner, "__all__"):
        return {name: getattr(owner, name) for name in owner.__all__}
    module = owner.__module__ if inspect.isclass(owner) else owner.__name__
    return {
        name: value
        for name, value in vars(owner).items()
        if not name.startswith("_") and getattr(value, "__module__", module) == module
    }


def written_in(function):
    """The room of the package in which a function was written; None: in another package."""
    package, _, rest = function.__module__.partition(".")
    return rest.partition(".")[0] if package == "diffcontact" else None


def functions():
    """Name -> every function that is offered, and every method of a class that is, if it was written here."""
    for owner in (dc, *ROOMS.values()):
        for name, thing in offered(owner).items():
            members = offered(thing) if inspect.isclass(thing) else {}
            for label, member in {name: thing, **{f"{name}.{key}": value for key, value in members.items()}}.items():
                function = inspect.unwrap(getattr(member, "fget", None) or getattr(member, "__func__", member))
                if inspect.isfunction(function) and written_in(function):
                    yield f"{owner.__name__}.{label}", function


FUNCTIONS = dict(functions())


@pytest.mark.parametrize("name", documented())
def test_what_is_documented_can_be_reached(name):
    reduce(getattr, name.split("."), dc)


def test_there_is_something_to_look_at():
    assert {"hypotheses.penetration", "identify.Impacts", "systems.balls", "simulate"} <= set(documented())
    assert {"hypotheses", "identify", "qp", "systems"} <= ROOMS.keys()
    assert {"diffcontact.simulate", "diffcontact.identify.profile", "diffcontact.FitResult.save"} <= FUNCTIONS.keys()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_public_functions_are_annotated(name):
    signature = inspect.signature(FUNCTIONS[name])
    bare = [
        parameter.name
        for parameter in signature.parameters.values()
        if parameter.annotation is parameter.empty and parameter.name not in ("self", "cls")
    ]
    assert not bare
    assert signature.return_annotation is not signature.empty


def test_type_checkers_are_told_so():
    assert files("diffcontact").joinpath("py.typed").is_file()


def test_an_import_brings_no_optimiser_and_all_names():
    """A second process: `identify`, which needs scipy, is imported when something of it is used."""
    code = (
        "import sys, diffcontact as dc; print('scipy' in sys.modules, set(dc.__all__) <= set(dir(dc)), dc.fit.__name__)"
    )
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert said.split() == ["False", "True", "fit"]
    with pytest.raises(AttributeError, match="no attribute 'fitt'"):
        dc.fitt  # noqa: B018
