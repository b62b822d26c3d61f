import numpy as np
import pytest

from diffcontact.report import FittedRun, Report, page

T = np.linspace(0.0, 1.0, 5)
MEASURED = np.stack([T, np.where(T == 0.5, np.nan, -T)], axis=1)


def report(**changed):
    drag = {"name": "drag", "value": 0.0213, "stderr": 0.0034, "interval95": [0.0145, None], "note": "", "unit": "1/s"}
    run = FittedRun("a < b.csv", {"1 lost sample": "in y", "kept": "all"}, T, MEASURED, MEASURED - [3e-3, 0.0])
    given = {
        "title": "Two & two",
        "converged": True,
        "message": "converged",
        "estimates": [drag],
        "channels": ("x", "y"),
        "length": "mm",
        "scale": 1e3,
        "time": "s",
        "runs": [run],
        "method": {"Model": "x < y"},
    }
    return Report(**(given | changed))


def test_a_page_shows_what_it_is_given():
    text = page(report())
    assert "<h1>Two &amp; two</h1>" in text
    assert "<h3>a &lt; b.csv</h3>" in text
    assert "<td>drag</td><td>0.0213</td><td>0.0034</td><td>[0.0145, inf]</td><td>1/s</td>" in text
    assert "<dt>Model</dt><dd>x &lt; y</dd>" in text
    for axis in ("time [s]", "position [mm]", "measured - fitted [mm]"):
        assert f">{axis}</text>" in text


def test_residuals_are_in_the_unit_of_the_page_and_without_lost_samples():
    # 3 mm in the five samples of x, none in the four of y.
    assert f"residuals: {3 * np.sqrt(5 / 9):.3g} mm" in page(report())


@pytest.mark.parametrize("converged", [True, False])
def test_a_fit_that_did_not_converge_is_marked(converged):
    text = page(report(converged=converged, message="stopped"))
    assert ("<p class=bad>stopped</p>" in text) != converged
    assert ("<p>stopped</p>" in text) == converged


def test_every_run_has_its_two_charts():
    (run,) = report().runs
    assert page(report(runs=[run] * 3)).count("<svg") == 6
