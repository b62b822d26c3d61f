"""The page in a browser: it plays, answers keys, fits its window and says nothing on the console."""

import numpy as np
import pytest
from browser import BROWSER, DRIVER, Browser

from diffcontact.report import Channel, Estimate, Event, Numbers, ProfileView, Report, RunView, page
from diffcontact.report.content import Curve, Impact, Mark, Restitution
from diffcontact.report.motion import Motion, Moving

pytestmark = pytest.mark.skipif(
    BROWSER is None or DRIVER is None, reason="needs chromium and chromedriver (Debian: chromium chromium-driver)"
)
T = np.linspace(0.0, 2.0, 41)
CHANNELS = (Channel("x", "mm", 1e3), Channel("y", "mm", 1e3))
WORST = 17


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    try:
        opened = Browser(tmp_path_factory.mktemp("browser"))
    except RuntimeError as error:
        pytest.skip(f"no browser could be started: {error}")
    yield opened
    opened.close()


def run(label, dimension=2, count=1):
    """Balls that swing, measured with one sample far off and one missing."""
    rng = np.random.default_rng(0)
    phase = rng.uniform(0, 6, size=count * dimension)
    places = np.sin(3 * T[:, None] + phase)
    off = 1e-3 * rng.normal(size=places.shape)
    off[WORST, 0], off[5, 0] = 0.2, np.nan
    turn = {"turn": np.tile([1.0, 0, 0, 0], (1, count))} if dimension == 3 else {}
    fields = {"centre": places, "radius": np.full((1, count), 0.05), **turn}
    wall = Moving("wall", {"normal": np.eye(dimension)[-1:], "offset": np.array([[-1.2]])}, {}, {})
    ball = Moving("ball", fields, {"count": count}, {"centre": off})
    shown = places[:, :2] if places.shape[1] > 1 else np.repeat(places, 2, axis=1)
    residual = np.broadcast_to(off[:, :1], shown.shape) * [1.0, 0.1]
    events = [Event(0.51, "impact of contact 0"), Event(1.23, "impact of contact 0")]
    moving = Motion(dimension, None, [wall, ball])
    far, late = np.zeros(residual.shape, bool), np.zeros(residual.shape, bool)
    far[WORST, 0], late[30:] = True, True
    marks = [Mark("residuals hold 1 far off", far, stretch=False), Mark("residuals grow", late)]
    noise = np.full(residual.shape, 1e-3)
    return RunView(label, T, shown, T, shown + residual, residual, events, moving, noise=noise, marks=marks)


def numbers():
    drag = Estimate("drag", "drag", "", 0.2, 0.1, np.inf, "0.20", "0.05", "[0.1, inf]", "1/s", "", 0.0, 1.0)
    own = [Estimate(f"e[{i}]", "e", f"run {i}", 0.8, 0.7, 0.9, "0.80", "0.05", "[0.7, 0.9]") for i in range(3)]
    reasons = ["residuals grow with time " * 8]
    starts = [1.0, 1.0, 2.0]
    profile = ProfileView("e[0]", np.linspace(0.6, 1.0, 5), np.array([8.0, 2.0, 0.0, 2.0, 8.0]), 3.8)
    found = ("partly", "explains the data", reasons, True, "fine", "95 %", [drag, *own], np.eye(2), ["a", "b"])
    e = np.full(5, 0.8)
    impacts = [Impact("run 0", 0.51, 2.0, 0.81, 0.79, 0.83, 0.8)] * 2
    law = Restitution("m/s", np.linspace(1.0, 3.0, 5), [Curve("constant", e, np.stack([e - 0.01, e + 0.01]))], impacts)
    return Numbers(*found, starts, [profile], restitution=law)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    made = {
        "fit": Report("A fit", CHANNELS, "s", [run(f"run {i}", dimension) for i, dimension in enumerate((2, 1, 3))]),
        "crowd": Report("A crowd", CHANNELS, "s", [run("crowd", 2, 100)]),
    }
    made["fit"] = Report("A fit", CHANNELS, "s", made["fit"].runs, numbers(), {"Model": "balls"})
    for name, report in made.items():
        (folder / f"{name}.html").write_text(page(report), encoding="utf-8")
    return folder


def now(browser):
    return float(browser.run("return document.getElementById('watch').dataset.now"))


def colours(browser):
    """How many colours the picture has."""
    return browser.run(
        "const c = document.querySelector('.picture canvas');"
        "const d = new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer);"
        "return new Set(d).size;"
    )


@pytest.mark.parametrize("number", [0, 1, 2])
def test_each_run_is_drawn_and_nothing_is_complained_of(browser, pages, number):
    browser.complaints()
    browser.open(pages / "fit.html", f"run={number}&t=0.5&open=1")
    assert browser.run("return document.documentElement.className") == "ready"
    assert colours(browser) > 10
    assert browser.run("return document.querySelectorAll('.stage .uplot').length") == 2
    # Noise: histogram and correlogram of two channels; where the starts ended; a profile.
    assert browser.run("return document.querySelectorAll('#statistics .uplot').length") == 6
    assert browser.complaints() == []


def test_a_simulation_that_is_not_finite_is_shown_beside_its_data(browser, pages):
    nothing = np.full((41, 2), np.nan)
    broken = RunView("broken", T, nothing, T, np.stack([T, T], axis=1), nothing)
    (pages / "broken.html").write_text(page(Report("x", CHANNELS, "s", [broken], numbers())), encoding="utf-8")
    browser.complaints()
    browser.open(pages / "broken.html", "open=1")
    browser.press("w", "n", "right")
    assert now(browser) == pytest.approx(T[1])
    assert browser.run("return document.querySelectorAll('.stage .uplot').length") == 1
    assert browser.complaints() == []


def test_keys_step_jump_and_play(browser, pages):
    browser.open(pages / "fit.html")
    assert now(browser) == 0.0
    browser.press("n")
    assert now(browser) == pytest.approx(0.51)
    browser.press("n")
    assert now(browser) == pytest.approx(1.23)
    browser.press("w")
    assert now(browser) == pytest.approx(T[WORST])
    browser.press("right", "right", "left")
    assert now(browser) == pytest.approx(T[WORST + 1])
    before = now(browser)
    browser.press(" ")
    assert browser.run("return document.querySelector('.play').textContent") == "❚❚"
    browser.run("return new Promise(done => setTimeout(done, 400))")
    browser.press(" ")
    stopped = now(browser)
    assert stopped > before
    browser.run("return new Promise(done => setTimeout(done, 200))")
    assert now(browser) == stopped


def test_the_cursor_of_the_charts_is_at_the_time_of_the_picture(browser, pages):
    browser.open(pages / "fit.html", "t=1.5")
    places = browser.run("return [...document.querySelectorAll('.now')].map(line => line.style.transform)")
    assert places == ["translateX(75%)"] * 2


def test_values_are_read_without_a_pointer(browser, pages):
    """The legends have the values at the time shown, which keys move; charts of numbers have tables."""
    browser.open(pages / "fit.html", "open=1")
    browser.press("w")
    browser.run("return new Promise(done => setTimeout(done, 100))")
    legends = "return [...document.querySelectorAll('.stage .u-legend')].map(legend => legend.textContent)"
    values, off = browser.run(legends)
    view = run("run 0")
    fitted = 1e3 * view.curve[WORST]
    assert f"x, fitted{fitted[0]:.5g}" in values
    assert "x, measured − fitted200" in off
    assert "± 2 standard deviations of the noise2" in off
    browser.press("right")
    assert browser.run(legends)[1] != off
    assert browser.run("return document.querySelectorAll('.values table').length") == 6
    rows = browser.run("return document.querySelectorAll('.values table')[4].textContent")
    assert rows == "startcost" + "11" + "21" + "32"


def test_complaints_are_in_the_legend_and_in_the_chart(browser, pages):
    browser.open(pages / "fit.html")
    told = browser.run("return [...document.querySelectorAll('.complaints li')].map(line => line.textContent)")
    assert told == [
        f"○residuals hold 1 far off (at {T[WORST]:.5g} s)",
        "▬residuals grow (at 1.5 to 2 s)",
    ]
    # Without marks and noise the chart is another picture.
    picture = "return document.querySelectorAll('.stage .uplot canvas')[1].toDataURL()"
    marked = browser.run(picture)
    plain = Report("A fit", CHANNELS, "s", [RunView(**(vars(run("run 0")) | {"marks": [], "noise": np.zeros((0, 0))}))])
    (pages / "plain.html").write_text(page(plain), encoding="utf-8")
    browser.open(pages / "plain.html")
    assert browser.run("return document.querySelectorAll('.complaints').length") == 0
    assert browser.run(picture) != marked


def test_residuals_can_be_magnified(browser, pages):
    browser.open(pages / "fit.html", "go=worst")
    plain = browser.run("return document.querySelector('.picture canvas').toDataURL()")
    browser.run(
        "const slider = document.querySelector('.magnify input');"
        "slider.value = 1; slider.dispatchEvent(new Event('input'));"
    )
    assert browser.run("return document.querySelector('.magnify output').textContent") == "10"
    assert browser.run("return document.querySelector('.picture canvas').toDataURL()") != plain


def test_what_users_write_is_shown_as_text(browser, pages):
    evil = "<img src=x onerror=\"document.title='hit'\">"
    odd = Report(evil, [Channel(evil, evil), Channel("y", evil)], evil, [run(evil)], numbers(), {evil: evil})
    (pages / "odd.html").write_text(page(odd), encoding="utf-8")
    browser.open(pages / "odd.html", "open=1")
    browser.run("return new Promise(done => setTimeout(done, 200))")
    assert browser.run("return document.images.length") == 0
    assert browser.run("return document.title") == evil


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_is_as_wide_as_its_window(browser, pages, width):
    browser.open(pages / "fit.html", "open=1&t=2", width)
    assert browser.run("return document.scrollingElement.scrollWidth") <= width
    # Tables that are wider scroll within themselves, and nothing else sticks out.
    beyond = browser.run(
        "return [...document.querySelectorAll('body *')]"
        "  .filter(e => !e.closest('.scroll, .now') && e.getBoundingClientRect().right > innerWidth + 0.5)"
        "  .map(e => e.outerHTML.slice(0, 80))"
    )
    assert beyond == []
    assert browser.run("return getComputedStyle(document.querySelector('.scroll')).overflowX") == "auto"


def test_what_was_measured_is_in_the_picture_unless_it_is_far_off(browser, pages):
    still = np.zeros((41, 2))
    still[:, 0] = T
    off = np.zeros((41, 2))
    off[:, 1], off[3, 1] = 1.5, 40.0  # beside a way of 2 m: most by 1.5 m, one false reading
    ball = Moving("ball", {"centre": still, "radius": np.full((1, 1), 0.1)}, {"count": 1}, {"centre": off})
    seen = RunView("a", T, still, T, still + off, off, motion=Motion(2, None, [ball]))
    (pages / "beside.html").write_text(page(Report("x", CHANNELS, "s", [seen])), encoding="utf-8")
    browser.open(pages / "beside.html", "t=1")
    # Of the fitted motion alone the picture would be low; the scale is at its left.
    assert browser.run("return document.querySelector('.picture canvas').dataset.kind") == "plane"
    ghost = browser.run(
        "const c = document.querySelector('.picture canvas');"
        "const d = c.getContext('2d').getImageData(200, 0, c.width - 200, Math.round(c.height / 3)).data;"
        "return d.filter((x, i) => i % 4 === 3 && x > 0).length;"
    )
    assert ghost > 100


def test_paper_is_white_and_holds_every_chart(browser, pages):
    browser.media(prefers_color_scheme="dark")
    browser.open(pages / "fit.html")
    browser.run("dispatchEvent(new Event('beforeprint')); document.body.offsetWidth")
    assert browser.run("return getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    # What was folded away is drawn at once: a page is printed before anything else happens.
    right = browser.run("return [...document.querySelectorAll('.uplot')].map(c => c.getBoundingClientRect().right)")
    assert len(right) == 2 + 6
    assert max(right) <= 720  # between the margins of letter and A4 paper
    browser.run("dispatchEvent(new Event('afterprint'))")
    assert browser.run("return getComputedStyle(document.body).backgroundColor") != "rgb(255, 255, 255)"
    browser.media()


def test_correlations_of_a_short_run_go_no_farther_than_it_does(browser, pages):
    browser.open(pages / "fit.html", "open=1")
    # Forty lags of forty samples: the last would be that of one pair.
    last = browser.run("return [...document.querySelectorAll('#statistics .chart')].map(c => c.dataset.last)")
    assert last[1::2][:2] == ["10", "10"]


def test_a_hundred_balls_leave_time_for_sixty_frames_a_second(browser, pages):
    browser.open(pages / "crowd.html")
    spent = browser.run(
        "const slider = document.querySelector('.time');"
        "const spent = Array.from({ length: 60 }, (_, i) => {"
        "  const begin = performance.now();"
        "  slider.value = 16 * i; slider.dispatchEvent(new Event('input'));"
        "  return performance.now() - begin;"
        "});"
        "return spent.sort((a, b) => a - b)[30];"
    )
    assert spent < 1000 / 60
