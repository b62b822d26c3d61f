"""Contact gradients: the exact answers twice, what a row counts, and ours at rounding or at its order."""

import json
import time
from decimal import Decimal

import numpy as np
import pytest
from browser import BROWSER, DRIVER, Browser
from contact_gradients import __main__ as command
from contact_gradients import exact, measure, scene, second_way
from contact_gradients.page import page
from contact_gradients.peers import Peer, peer

# Whose derivatives take long in fifty digits: corners and swings are searched there.
LONG = {"box_tumbles", "cube_tumbles", "pendulum", "stick_slip"}


@pytest.mark.parametrize("name", scene.names())
def test_a_second_computation_agrees(name):
    # Where forces change steps of fourth order leave 1e-9; all else is exact, or integrated to 1e-13.
    assert second_way.disagreement(scene.read(name)) < (1e-8 if name == "stick_slip" else 1e-10)


@pytest.mark.parametrize("name", scene.names())
def test_what_stands_in_the_files_is_what_is_computed(name):
    """To the last bits of double precision; of the long ones the states."""
    problem = scene.read(name)
    digits = scene.read(name, Decimal)
    assert len(problem.exact) == len(problem.times) > 1
    if name in LONG:
        states, _ = exact.outputs(digits, [Decimal(x) for x in digits.theta])
        np.testing.assert_allclose(states.astype(float), [at["state"] for at in problem.exact], rtol=1e-15, atol=1e-30)
        return
    for new, kept in zip(exact.solution(digits), problem.exact, strict=True):
        assert new["events"] == kept["events"]
        for key in ("state", "jacobian", "zero"):
            np.testing.assert_allclose(new[key], kept[key], rtol=1e-15)


@pytest.mark.parametrize("name", scene.names())
def test_zeros_by_structure(name):
    """They are zero; and nothing depends on what only an impact reads before there was one."""
    problem = scene.read(name)
    for at in problem.exact:
        jacobian, zero = np.array(at["jacobian"]), np.array(at["zero"], bool)
        assert np.array_equal(jacobian == 0, zero)
        assert jacobian.shape == (len(problem.document["outputs"]), len(problem.parameters))
        if not at["events"] and "restitution" in problem.parameters:
            assert zero[:, problem.parameters.index("restitution")].all()
    # Something has to be there that can be wrong.
    assert np.any(np.array(problem.exact[-1]["jacobian"]) != 0)


@pytest.fixture(scope="module")
def ours():
    return peer("diffcontact")


def errors(ours, name, h):
    (row,) = measure._with_step(ours, scene.read(name), h, smoke=False)
    assert row.status == ""
    assert row.zeros[0] == row.signs[0] == 0
    return np.array([row.state, row.jacobian])


@pytest.mark.parametrize("name", ["bounce", "cradle", "disc_bounce", "sphere_rolls", "zeno"])
def test_ours_is_exact_where_forces_are_constant(ours, name):
    """To rounding, at a step that is shorter than the shortest bounce of the disc, 83 ms."""
    assert np.all(errors(ours, name, 0.02) < 1e-12)


@pytest.mark.parametrize("name", ["pendulum", "stick_slip"])
def test_ours_is_of_second_order_elsewhere(ours, name):
    coarse, fine = errors(ours, name, 0.02), errors(ours, name, 0.005)
    # Sixteen times more exact; twelve, where an event lies differently in its step. The error of the Jacobian of the
    # block that sticks and slips passes zero near 0.02 s: 4, 6, 1 and .07 e-4 at 20, 10, 5 and 2.5 ms.
    assert np.all(fine < coarse / np.array([12, 3 if name == "stick_slip" else 12]))
    assert np.all(fine < 1e-3)


def lever(wrong=0.0):
    """An engine that knows the bounce before its first impact, and whose velocity may answer wrongly to the height."""

    def states(problem, thetas, h, setting):
        height, v, g = thetas[:, 0], thetas[:, 1], thetas[:, 2]
        t = np.array(problem.times)[:, None]
        return np.stack([height + v * t + g * t**2 / 2, v + g * t + wrong * (height - 1.1)], -1).swapaxes(0, 1)

    steps = (1e-2,)
    return Peer("lever", steps, lambda problem: "", states, "", "")


@pytest.fixture
def flight():
    whole = scene.read("bounce").document
    return scene.Problem("bounce", {**whole, "times": whole["times"][:1], "exact": whole["exact"][:1]})


def test_a_row_counts_what_is_wrong(flight):
    (row,) = measure.rows(lever(), flight)
    assert (row.way, row.zeros, row.signs) == ("differences", (0, 3), (0, 5))
    # Differences of what is linear in all parameters.
    assert row.state < 1e-14
    assert row.jacobian < 1e-9
    # The velocity must not depend on the height: the derivative 0.5 is one broken zero, of 1 as the largest entry.
    (row,) = measure.rows(lever(0.5), flight)
    assert (row.zeros, row.signs) == ((1, 3), (0, 5))
    np.testing.assert_allclose(row.jacobian, 0.5, rtol=1e-6)


def test_what_cannot_be_and_what_fails_are_rows(flight):
    def broken(*given):
        raise RuntimeError("no such contact")

    (row,) = measure.rows(Peer("none", (1e-2,), lambda problem: "has no floor", broken, "", ""), flight)
    assert (row.note, row.state) == ("has no floor", None)
    (row,) = measure.rows(Peer("none", (1e-2,), lambda problem: "", broken, "", ""), flight)
    assert row.note == "RuntimeError: no such contact"


def test_the_first_gradient_is_timed_with_its_compilation(flight):
    """Nothing compiles before it; and with further steps, which the same program serves, its compilation counts too."""
    called, known = [], lever()

    def states(*given):
        called.append("states")
        return known.states(*given)

    def jacobian(problem, theta, h, setting):
        begin = time.process_time()
        while time.process_time() < begin + (0.02 if called else 0.2):
            pass
        called.append("jacobian")
        return known.states(problem, theta[None], h, setting)[0], np.zeros((1, 2, 4))

    engine = Peer("own", (1e-2, 5e-3), lambda problem: "", states, "", "", jacobian=jacobian, differences=False)
    coarse, fine = measure.rows(engine, flight)
    assert called == ["jacobian"] * 4
    assert min(coarse.first, fine.first) > 0.15
    assert max(coarse.seconds, fine.seconds) < 0.15


def test_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(command.peers.ALL, "nobody", "nothing_of_this_name")
    assert command.main(["--alone", "--peers", "nobody", "--problems", "bounce", "--out", str(tmp_path)]) == 0
    assert "nobody: left out, not installed here" in capsys.readouterr().out
    assert command.main(["--check", "--problems", "bounce", "zeno"]) == 0
    assert "zeno" in capsys.readouterr().out


def test_an_engine_that_dies_takes_no_other_with_it(tmp_path, capfd):
    """Each is measured in a process of its own, in every environment."""
    given = ["--peers", "CatchingUp", "--problems", "bounce", "--out", str(tmp_path), "--smoke"]
    assert command.main([*given, "--also", "/bin/false"]) == 0
    told = capfd.readouterr().out
    assert "CatchingUp: its process ended with 1" in told
    # No restitution is its scheme's, so that nothing is computed.
    assert "has no restitution" in told
    assert (tmp_path / "index.html").exists()


def test_a_folder_of_measurements_becomes_a_page(flight, tmp_path, monkeypatch):
    """What the charts are given, and each reason why there is no number."""
    monkeypatch.setitem(command.peers.ALL, "lever", "nowhere")
    file = documents(flight, tmp_path)
    text = file.read_text()
    assert "has no &lt;floor&gt;: cradle" in text
    data = json.loads(text.split('id="data">')[1].split("</script>")[0])
    assert data["engines"] == ["lever"]
    (row,) = data["rows"]
    assert (row["problem"], row["zeros"]) == ("bounce", [1, 3])
    # The worse of what is coloured: half the largest entry off is no derivative.
    assert '| <span class="bad">5e-01</span>' in text
    assert '<span class="bad">1/3</span> | <span class="good">0/5</span>' in text


@pytest.mark.skipif(BROWSER is None or DRIVER is None, reason="needs chromium and chromedriver")
def test_the_page_in_a_browser(flight, tmp_path, monkeypatch):
    """Four charts of the chosen problem, none of one that nobody could simulate; no window is too narrow."""
    monkeypatch.setitem(command.peers.ALL, "lever", "nowhere")
    file = documents(flight, tmp_path)
    try:
        browser = Browser(tmp_path)
    except RuntimeError as error:
        pytest.skip(f"no browser could be started: {error}")
    try:
        for width, scheme in ((1280, "light"), (390, "dark")):
            browser.media(prefers_color_scheme=scheme)
            browser.open(file, width=width)
            assert browser.run("return document.getElementById('problem').options.length") == len(scene.names())
            chosen = "const choice = document.getElementById('problem'); choice.value = '%s';"
            chosen += "choice.dispatchEvent(new Event('change')); return document.querySelectorAll('.uplot').length"
            assert browser.run(chosen % "bounce") == 4
            assert "two bounces" in browser.run("return document.getElementById('about').textContent")
            assert browser.run(chosen % "cradle") == 0
            assert browser.run("return document.documentElement.scrollWidth") <= width
        assert browser.complaints() == []
    finally:
        browser.close()


def documents(flight, folder):
    """A page of one engine that is wrong by a half, and cannot simulate something else."""
    cannot = measure.Row("cradle", "lever", note="has no <floor>")
    measure.save([*measure.rows(lever(0.5), flight), cannot], lever(), folder / "lever.json")
    file = folder / "index.html"
    file.write_text(page(measure.load(folder, list(command.peers.ALL))), encoding="utf-8")
    return file
