"""Sentences of a verdict in the words of a scene: nothing is fitted."""

import re
from importlib.resources import files

import pytest
from tables import cases

from diffcontact.identify.verdict.reasons import Reason, Verdict, Words
from diffcontact.scene.study import PHRASES

WORDS = Words(("height", "way"), ("A2_1.csv", "A2_2.csv", "A2_3.csv", "A2_4.csv"), ("drag",), PHRASES)


@cases(
    "text told",
    """
    scale of channel 0 by 0.2 | scale of height by 0.2
    zeros of channels 0 and 1 | zeros of height and way
    perspective in channel 7 | perspective in channel 7
    Try loss='soft_l1' | Try [fit] loss = "soft_l1"
    Try more starts; another one, and more starts | Try more starts ([fit] starts = 20); another one, and more starts
    Try a law of the speed, restitution(params, speed) | Try [system] restitution = "power", or fit with --laws
    State the noise as it is, or noise='estimated' | State the noise as it is ([data] noise), or [fit] noise = "rough"
    drag[2] and drag[3,1] with e[1] | drag[A2_3] and drag[A2_4,1] with e[1]
    friction; a shorter window | friction; a shorter [data] window
    """,
)
def test_a_scene_has_its_own_words(text, told):
    assert WORDS.told(text) == told


def test_what_fit_is_asked_is_in_the_words_of_a_scene():
    """A phrase that no sentence holds any more would say nothing: each is one of the package's."""
    source = "".join(file.read_text() for file in files("diffcontact").joinpath("identify").rglob("*.py"))
    # Sentences are broken into lines, and names of losses and numbers stand in braces.
    flat = re.sub(r'"\s*\n\s*f?"', "", source).replace("{loss.name!r}", "'huber'")
    for pattern, _ in PHRASES:
        assert re.search(pattern, flat), pattern


@pytest.mark.parametrize("runs", [(1, 3), (1, 2, 3)])
def test_reasons_that_differ_only_in_the_run_are_one(runs):
    bound = "drag[{}] = 0 1/s is at its bound, and the data would go {}.5 standard errors beyond"
    broken = "the simulation of {} cannot be trusted: too many events"
    reasons = [Reason(bound.format(i, 3 + i)) for i in runs]
    reasons += [Reason(broken.format(WORDS.runs[i]), fatal=True) for i in runs] + [Reason("residuals grow")]
    one, two, other = WORDS.grouped(reasons)
    others = "A2_4.csv" if len(runs) == 2 else "A2_3.csv and A2_4.csv"
    assert one.text == f"{bound.format(1, 4).replace('[1]', '[A2_2]')}; likewise {others}"
    assert two.text == f"{broken.format('A2_2.csv')}; likewise {others}"
    assert (one.fatal, two.fatal) == (False, True)
    assert other.text == "residuals grow"


def test_what_is_not_said_of_a_run_is_named_by_its_element():
    one, other = (
        Reason(f"the data and the prior of {name} are 4.{i} apart") for i, name in enumerate(("e[0]", "e[2]"))
    )
    assert [reason.text for reason in WORDS.grouped([one, other])] == [f"{one.text}; likewise e[2]"]


def test_a_headline_has_three_reasons_of_its_severity():
    mild, grave = [Reason(f"mild {i}") for i in range(5)], [Reason(f"grave {i}", fatal=True) for i in range(2)]
    told = str(Verdict.of(mild)).splitlines()
    assert told[1:4] == ["  - mild 0", "  - mild 1", "  - mild 2"]
    assert told[4:] == ["  (2 more: `verdict.reasons`, in the report and in result.json)"]
    verdict = Verdict.of([*mild[:1], *grave])
    assert str(verdict).splitlines()[1:3] == ["  - grave 0", "  - grave 1"]
    assert Verdict.from_dict(verdict.to_dict()) == verdict
    assert len(verdict.reasons) == 3
