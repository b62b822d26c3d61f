import ast
from pathlib import Path

import pytest

import diffcontact
from diffcontact.host.messages import did_you_mean, printable, say, shown


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("restituton", ("drag", "restitution"), "restitution"),
        ("hz", ("s", "min", "Hz"), "Hz"),
        ("Mass", ("masses", "mass"), "mass"),
        # One letter of two is right, and one of three.
        ("q1", ("u0", "q0"), "q0"),
        ("abc", ("axy",), None),
    ],
)
def test_what_is_near_is_named_and_nothing_else(name, known, meant):
    assert did_you_mean(name, known) == (f"did you mean {meant!r}?" if meant else f"known are {known[0]!r}")


def test_long_lists_and_long_names_are_cut():
    listed = did_you_mean("?", [f"column {i}" for i in range(1000)], listed="the header has")
    assert listed.startswith("the header has 'column 0', 'column 1', ")
    assert len(listed) < 400
    assert len(did_you_mean("?" * 10_000, ["?" * 9_999])) < 120


@pytest.mark.parametrize(
    "value", ["x" * 10_000, list(range(10_000)), 10**5000, [[[[[[1]]]]]] * 50], ids=["text", "list", "number", "nested"]
)
def test_values_of_any_size_are_shown_short(value):
    assert len(shown(value)) < 500


@pytest.mark.parametrize("text", ["two carts", "Wurf  (zweimal)", "پرتاب می\u200cکنم", "投球 №2 ½", "e = 0.8 ± 0.1"])
def test_ordinary_text_is_printed_as_it_is(text):
    assert printable(text) == text


@pytest.mark.parametrize(
    "letter", [*map(chr, range(32)), *map(chr, range(0x7F, 0xA0)), *"\u2028\u2029\u202e\u2066\udc1b"]
)
def test_no_control_character_is_printed(letter, capsys):
    say(f"carts{letter}the model explains the data")
    said = capsys.readouterr().out
    assert said.count("\n") == 1
    assert said.strip().isprintable()


def test_everything_is_printed_in_one_place():
    """Else a title could speak to the terminal there."""
    package = Path(diffcontact.__file__).parent
    found = {
        file.relative_to(package).as_posix()
        for file in package.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    }
    assert found == {"host/messages.py"}
