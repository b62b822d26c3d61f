"""Terms of a model that a scene holds fixed: set free where the residuals ask for them, and nowhere else."""

import numpy as np
import pytest
from problems.recordings import make

from diffcontact.identify import FitResult
from diffcontact.scene import read_study
from diffcontact.scene.draft import draft, survey


def drafted(folder, fault, more=""):
    """The study of two pucks on a table, as `new` drafts it."""
    recording = make("pucks", fault, 2)
    path = folder / "pucks.csv"
    path.write_text(recording.text)
    _, text = draft(survey(path), folder, "pucks.toml")
    path.with_suffix(".toml").write_text(text.replace("[fit]\n", f"[fit]\n{more}\n"))
    return read_study(path.with_suffix(".toml")), recording.truth


@pytest.fixture(scope="module")
def tilted(tmp_path_factory):
    study, truth = drafted(tmp_path_factory.mktemp("tilted"), "tilt")
    return *study.selected(), truth


def test_a_slope_that_the_residuals_ask_for_is_set_free(tilted):
    study, result, truth = tilted
    (term,) = result.freed
    assert (term.name, term.held) == ("gravity[0]", 0.0)
    assert term.chi2 > 3 * result.chi2_per_dof
    low, high = result.interval95["restitution"]
    assert low <= truth["restitution"] <= high
    assert result.verdict.explains == "yes"
    # What is reported is the study that was fitted: gravity along x is free, along y it is held.
    assert study.scene.parameters["gravity"].held == (1,)


def test_a_term_that_was_set_free_is_told_in_one_line_and_stored(tilted, tmp_path):
    _, result, _ = tilted
    (told,) = result.verdict.freed
    assert told.startswith("set free: gravity[0] = ")
    assert "held at 0 m/s^2 before" in told
    assert told in str(result.verdict)
    result.save(tmp_path / "result.json")
    again = FitResult.load(tmp_path / "result.json")
    assert again.freed == result.freed
    assert again.verdict.freed == (told,)


@pytest.mark.full
def test_as_written_nothing_is_set_free(tmp_path):
    study, _ = drafted(tmp_path, "tilt", 'terms = "as written"')
    result = study.fit()
    assert result.freed == ()
    assert result.verdict.explains != "yes"
    assert "held fixed" in result.verdict.codes
    np.testing.assert_array_equal(result.params["gravity"], 0.0)


@pytest.mark.full
def test_a_film_of_air_that_the_scene_does_not_name_is_set_free(tmp_path):
    study, truth = drafted(tmp_path, "drag")
    study, result = study.selected()
    assert [term.name for term in result.freed] == ["damping"]
    assert study.scene.parameters["damping"].unit == "1/s"
    low, high = result.interval95["restitution"]
    assert low <= truth["restitution"] <= high
    assert result.verdict.explains == "yes"
