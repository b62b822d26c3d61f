"""The page of a report: what it says without JavaScript, and what it hands to its scripts."""

import base64
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from diffcontact.report import Channel, Estimate, Event, Numbers, Report, RunView, page
from diffcontact.report.content import Curve, Impact, Mark, Restitution
from diffcontact.report.motion import Motion, Moving
from diffcontact.report.page import packed, residual_sizes, restitution_picture, script_json, ticks

T = np.linspace(0.0, 1.0, 5)
MEASURED = np.stack([T, np.where(T == 0.5, np.nan, -T)], axis=1)
EVIL = "</script><img src=x onerror=alert(1)>&\"'"


def unpacked(field):
    """(n, w) the numbers of a packed field, in their precision."""
    if "values" in field:
        return np.array([[np.nan if x is None else float(x) for x in field["values"]]], np.float32)
    numbers = np.frombuffer(base64.b64decode(field["base64"]), "<f8" if field.get("double") else "<f4")
    return numbers.reshape(-1, field["width"])


def estimate(name, run="", **changed):
    given = {"value": 0.0213, "low": 0.0145, "high": np.inf, "text": "0.0213", "error": "0.0034"}
    parameter = name.partition("[")[0]
    return Estimate(name, parameter, run, **(given | {"interval": "[0.0145, inf]", "unit": "1/s"} | changed))


def report(**changed):
    residual = np.broadcast_to([3e-3, 0.0], MEASURED.shape) + 0 * MEASURED
    run = RunView("folder/a < b.csv", T, MEASURED[:, :1] * [1, -1], T, MEASURED, residual, notes={"lost": "one in y"})
    headline, reasons = "does not explain the data: do not use these intervals", ["residuals are < 3 mm"]
    found = ("no", headline, reasons, True, "converged", "within this run", [estimate("drag")], np.eye(1), ["drag"])
    numbers = Numbers(*found, caveat="another run may differ")
    channels = (Channel("x", "mm", 1e3), Channel("y", "mm", 1e3))
    given = {"channels": channels, "runs": [run], "numbers": numbers, "method": {"Model": "x < y"}}
    return Report(**({"title": "Two & two", "time": "s"} | given | changed))


class Tree(HTMLParser):
    """Elements that are open where something is found, and all texts."""

    VOID = ("meta", "link", "input", "br", "img")

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.texts, self.tags, self.attributes = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag in self.open:
            while self.open.pop() != tag:
                pass

    def handle_data(self, data):
        if not {"script", "style"} & set(self.open):
            self.texts.append(data.strip())


def data_of(text):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S).group(1))


def test_a_page_can_be_read_without_javascript():
    tree = Tree(page(report()))
    texts = " ".join(tree.texts)
    assert "The model does not explain the data: do not use these intervals." in texts
    assert "residuals are < 3 mm" in texts
    cells = ["drag", "0.0213", "0.0034", "[0.0145, inf]", "1/s", "within this run", "x < y", "one in y", "another run"]
    for cell in cells:
        assert any(cell in text for text in tree.texts)
    assert tree.tags.count("noscript") == 1
    assert tree.open == []


def test_a_page_needs_nothing_else():
    text = page(report())
    tree = Tree(text)
    assert not {attributes.get("src") for _, attributes in tree.attributes} - {None}
    assert [attributes["href"] for tag, attributes in tree.attributes if tag == "link"] == ["data:,"]
    assert not re.search(r"@import|url\((?!['\"]?data:)", text)
    # Its charts are by a library whose licence asks to be kept with it.
    assert "Leon Sorokin" in text


def test_what_users_write_stays_text():
    run = RunView("<b>&", T, T[:, None], T, T[:, None], 0 * T[:, None], [Event(0.5, EVIL)], notes={EVIL: EVIL})
    found = Numbers(EVIL, EVIL, [EVIL], False, EVIL, EVIL, [estimate(EVIL, unit=EVIL, note=EVIL)], np.eye(0), [])
    many = [estimate(f"{EVIL}[{i}]", EVIL) for i in range(2)]
    found = Numbers(**(vars(found) | {"estimates": [*found.estimates, *many], "hints": [EVIL], "facts": {EVIL: EVIL}}))
    text = page(Report(EVIL, [Channel(EVIL, EVIL)], EVIL, [run], found, {EVIL: EVIL}))
    assert "img" not in Tree(text).tags
    assert text.count("</script>") == 3
    data = data_of(text)
    assert (data["title"], data["runs"][0]["label"], data["runs"][0]["events"][0][1]) == (EVIL, "<b>&", EVIL)


def test_json_in_a_script_survives_whatever_is_in_it():
    document = {"text": "</script><!--\u2028&", "number": 0.1}
    assert not set("<>&\u2028") & set(script_json(document))
    assert json.loads(script_json(document)) == document


@pytest.mark.parametrize("double", [False, True])
def test_tracks_come_back_in_their_precision(rng, double):
    rows = rng.normal(size=(7, 3))
    rows[2, 1] = np.nan
    np.testing.assert_array_equal(unpacked(packed(rows, double)), rows.astype(np.float64 if double else np.float32))
    np.testing.assert_array_equal(unpacked(packed(np.array([[1.0, np.nan, -np.inf]]))), [[1.0, np.nan, -np.inf]])


def test_residuals_are_in_the_unit_of_the_page_and_without_lost_samples():
    # 3 mm in the five samples of x, none in the four of y.
    made = report()
    assert residual_sizes(made.runs[0], made.channels) == [f"{3 * np.sqrt(5 / 9):.3g} mm"]
    data = data_of(page(made))["runs"][0]
    np.testing.assert_allclose(unpacked(data["residual"])[:, 0], 3.0, rtol=1e-6)


def test_angles_are_in_charts_of_their_own():
    angles = report(channels=(Channel("x", "mm", 1e3), Channel("turn", "deg", 180 / np.pi)))
    titles = [group["title"] for group in data_of(page(angles))["groups"]]
    assert titles == ["x [mm]", "turn [deg]"]
    assert residual_sizes(angles.runs[0], angles.channels) == ["3 mm", "0 deg"]


def test_heights_grow_upwards_whatever_the_system_counts():
    made = report(channels=(Channel("height", "mm", -1e3), Channel("y", "mm", 1e3)))
    data = data_of(page(made))
    np.testing.assert_allclose(unpacked(data["runs"][0]["measured"])[:, 0], -1e3 * T, rtol=1e-6)
    # The picture has its own scale, in which a length is a length.
    assert data["length"] == {"unit": "mm", "factor": 1e3}
    assert residual_sizes(made.runs[0], made.channels) == [f"{3 * np.sqrt(5 / 9):.3g} mm"]


def test_a_run_without_samples_has_no_residuals():
    heard = RunView("ball.csv", T, T[:, None], events=[Event(0.3, "heard", "heard")])
    text = page(report(runs=[heard], channels=(Channel("height", "m"),)))
    assert "root mean square" not in text
    assert "measured" not in data_of(text)["runs"][0]


def test_reasons_that_do_not_decide_unfold():
    told = [f"reason {i}" for i in range(4)]
    numbers = Numbers(**(vars(report().numbers) | {"reasons": told, "gravest": 2}))
    text = page(report(numbers=numbers))
    assert "<li>reason 0</li><li>reason 1</li></ul>" in text
    assert "<details><summary>2 more</summary><ul><li>reason 2</li><li>reason 3</li></ul></details>" in text


def test_runs_have_one_line_each_with_their_names():
    own = [estimate(f"q0[{i},{j}]", f"data/{name}.csv", value=i + j) for i, name in enumerate("ab") for j in (0, 1)]
    found = Numbers(**(vars(report().numbers) | {"estimates": own}))
    tree = Tree(page(report(numbers=found)))
    names = [attributes["title"] for tag, attributes in tree.attributes if tag == "span" and "title" in attributes]
    assert names == ["data/a.csv", "data/a.csv", "data/b.csv", "data/b.csv"]
    assert [text for text in tree.texts if text in ("a.csv", "b.csv")] == ["a.csv", "a.csv", "b.csv", "b.csv"]
    assert [text for text in tree.texts if ".csv [" in text] == ["a.csv [0]", "a.csv [1]", "b.csv [0]", "b.csv [1]"]


@pytest.mark.parametrize("ends", [(0.7996, 0.8004), (159, 245), (-2.0, -0.6), (0, 1e-5), (-1.2e9, 3e9), (0.31, 0.97)])
def test_axes_have_round_numbers_where_these_are(ends):
    low, high = ends
    found = ticks(low, high)
    assert 2 <= len(found) <= 4
    for at, text in found:
        assert low + at / 100 * (high - low) == pytest.approx(float(text), abs=1e-3 * (high - low))
        assert 0 <= at <= 100
    assert ticks(1.0, 1.0) == []


def test_every_interval_has_an_axis_of_its_own():
    told = [estimate("drag", high=0.03), estimate("mass", value=1.3, low=1.2986, high=1.3001), estimate("open")]
    text = page(report(numbers=Numbers(**(vars(report().numbers) | {"estimates": told}))))
    rows = re.findall(r"<td class=bar>(.*?)</td>", text, re.DOTALL)
    numbers = [[float(x) for x in re.findall(r'<span style="left:[\d.]+%">([^<]+)</span>', row)] for row in rows]
    assert len(numbers) == 3
    for one, axis in zip(told, numbers, strict=True):
        assert len(axis) >= 2
        # The interval, not zero and not a bound, gives the scale; an open one goes on as far as it is known.
        width = one.high - one.low if np.isfinite(one.high) else 2 * (one.value - one.low)
        assert max(axis) - min(axis) <= 1.3 * width
        assert one.low - 0.1 * width <= min(axis) < max(axis) <= one.low + 1.1 * width


def test_residuals_have_their_noise_and_what_is_complained_of():
    rows = np.zeros(MEASURED.shape, bool)
    rows[1:4, 0], rows[4, 1] = True, True
    marks = [Mark("residuals are a smooth curve", rows), Mark("residuals hold 1 far off", rows, stretch=False)]
    run = report().runs[0]
    shown = RunView(**(vars(run) | {"noise": np.full(MEASURED.shape, 2e-3), "marks": marks}))
    # Channels may be counted downwards: noise has no sign.
    channels = (Channel("x", "mm", -1e3), Channel("y", "mm", 1e3))
    data = data_of(page(report(runs=[shown], channels=channels)))["runs"][0]
    np.testing.assert_allclose(unpacked(data["noise"]), 2.0)
    assert [(mark["text"], mark["stretch"]) for mark in data["marks"]] == [(m.text, m.stretch) for m in marks]
    assert data["marks"][0]["places"] == [[[1, 3]], [[4, 4]]]


def law():
    speeds = np.linspace(0.5, 2.5, 5)
    e = 0.9 - 0.1 * speeds
    curves = [
        Curve("linear", e, np.stack([e - 0.01, e + 0.01])),
        Curve("constant", 0 * e + 0.75, np.full((2, 5), np.nan)),
    ]
    impacts = [Impact("a.csv", 0.25, 1.0, 0.81, 0.78, 0.84, 0.8), Impact("b.csv", 0.75, 2.0, 0.7, 0.2, 1.2, 0.7)]
    return Restitution("m/s", speeds, curves, impacts, 3)


def test_a_law_of_restitution_is_drawn_with_its_impacts_and_told_in_a_table():
    text = page(report(numbers=Numbers(**(vars(report().numbers) | {"restitution": law()}))))
    tree = Tree(text)
    assert tree.open == []
    assert (tree.tags.count("polyline"), tree.tags.count("polygon")) == (2, 1)
    # Two impacts, and the two runs of the legend.
    assert tree.tags.count("circle") == 4
    for cell in ("0.8100", "[0.7800, 0.8400]", "b.csv", "speed of approach [m/s]", "linear, with its 95 % interval"):
        assert cell in tree.texts
    assert any(told.startswith("3 impacts are left out") for told in tree.texts)
    assert page(report()).count("<polyline") == 0


def test_restitution_lies_on_its_axes():
    drawn = restitution_picture(law())
    first, second = drawn["points"]
    assert (first["x"], second["x"]) == (25.0, 75.0)
    (top, up), (bottom, down) = drawn["y"][-1], drawn["y"][0]
    scale = (float(up) - float(down)) / (top - bottom)
    assert float(down) + scale * (first["y"] - bottom) == pytest.approx(0.81)
    assert float(down) + scale * (first["high"] - bottom) == pytest.approx(0.84)
    # An interval that says nothing does not flatten the others, and ends at the picture's edge.
    assert (second["low"], second["high"]) == (100.0, 0.0)


def test_what_scrolls_can_be_reached_by_keys():
    matrix = np.array([[1.0, 0.95], [0.95, 1.0]])
    found = Numbers(
        **(vars(report().numbers) | {"restitution": law(), "correlation": matrix, "correlated": ["drag", "e"]})
    )
    scrolled = [a for _, a in Tree(page(report(numbers=found))).attributes if a.get("class") == "scroll"]
    assert len(scrolled) == 3
    assert all(a["tabindex"] == "0" and a["role"] == "region" and a["aria-label"] for a in scrolled)


def test_displacements_that_are_residuals_are_not_sent_twice(rng):
    residual = rng.normal(size=(5, 2))
    residual[3, 1] = np.nan
    offsets = {"centre": np.stack([residual[:, 1], 0 * T, rng.normal(size=5)], axis=1)}
    ball = Moving("ball", {"centre": np.zeros((5, 3))}, {"count": 1}, offsets)
    run = RunView("a", T, MEASURED, T, MEASURED, residual, motion=Motion(3, None, [ball]))
    sent = data_of(page(report(runs=[run])))["runs"][0]["motion"]["shapes"][0]["offsets"]["centre"]
    assert [(entry["column"], entry.get("channel")) for entry in sent] == [(0, 1), (2, None)]
    # Residuals are in mm on the page, displacements in m.
    assert sent[0]["factor"] == pytest.approx(1e-3)
    np.testing.assert_allclose(unpacked(sent[1]["track"])[:, 0], offsets["centre"][:, 2], rtol=1e-6)


def test_ten_runs_of_a_thousand_samples_are_below_a_megabyte(rng):
    t, rows = np.linspace(0.0, 10.0, 1000), rng.normal(size=(1000, 2))
    bodies = [
        Moving("ball", {"centre": rows, "radius": np.ones((1, 1))}, {"count": 1}, {"centre": 1e-3 * rows}) for _ in "ab"
    ]
    run = RunView("run", t, rows, t, rows, 1e-3 * rows, motion=Motion(2, None, bodies))
    assert len(page(report(runs=[run] * 10)).encode()) < 1_000_000
