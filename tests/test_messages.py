import pytest

from diffcontact.messages import did_you_mean, shown


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
