import hashlib

import numpy as np
import pytest

from diffcontact.scene import measurements
from diffcontact.scene.measurements import Reading, frame_clock, read_measurements

GOOD = "t,x,comment\n0.0,1.5,start\n0.1,,lost\n\n0.3, ,lost too\n"


def write(tmp_path, text):
    path = tmp_path / "run.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_columns_lost_samples_and_hash(tmp_path):
    path = write(tmp_path, GOOD)
    table = read_measurements(path, ["t", "x"], Reading(time="t"))
    np.testing.assert_array_equal(table.columns["t"], [0.0, 0.1, 0.3])
    np.testing.assert_array_equal(table.columns["x"], [1.5, np.nan, np.nan])
    assert table.sha256 == hashlib.sha256(GOOD.encode()).hexdigest()


def test_a_byte_order_mark_and_another_delimiter(tmp_path):
    path = write(tmp_path, b"\xef\xbb\xbft;x\r\n0;1\r\n1;2\r\n")
    assert read_measurements(path, ["t", "x"], Reading(time="t", delimiter=";")).columns["x"].tolist() == [1.0, 2.0]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_may_end_as_on_any_system(tmp_path, end):
    path = write(tmp_path, GOOD.replace("\n", end))
    np.testing.assert_array_equal(read_measurements(path, ["t"], Reading(time="t")).columns["t"], [0.0, 0.1, 0.3])
    with pytest.raises(ValueError, match="row 2, column 'comment': 'start' is not"):
        read_measurements(path, ["t", "comment"], Reading(time="t"))


def test_every_third_row(tmp_path):
    path = write(tmp_path, "t,x\n" + "".join(f"{i},{i * i}\n" for i in range(8)))
    table = read_measurements(path, ["t", "x"], Reading(time="t", every=3))
    assert table.columns["t"].tolist() == [0, 3, 6]
    assert table.columns["x"].tolist() == [0, 9, 36]
    with pytest.raises(ValueError, match="8 rows of data, of which one in 8 is 1, expected at least 2"):
        read_measurements(path, ["t", "x"], Reading(time="t", every=8))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("t,x\n0,1\n\n2,1\n2,3\n", "row 5, column 't': 2 follows 2, expected times that increase"),
        # One row out of order, or a clock that was set back, in a short file is no rounding.
        (
            "t,x\n0,1\n2,2\n1,3\n3,4\n",
            "row 4, column 't': 1 follows 2, expected times that increase; data.untimed = 'leave out' does without it",
        ),
        (
            "t,x\n0,1\n0,2\n1,3\n1,4\n2,5\n2,6\n",
            "row 3, column 't': 0 follows 0, expected times that increase; 3 do not, as if rounded: data.rate",
        ),
        (
            "t,x\n3,1\n2,2\n,3\n1,4\n0,5\n",
            "column 't': the times fall from 3 to 0, expected times that increase; sort the rows by this column",
        ),
        (
            "t,x\n0,1\n3,2\n1,3\n5,4\n4,5\n6,6\n2,7\n7,8\n",
            "row 4, column 't': 1 follows 3, expected times that increase; 3 go back, as if rows were out of order",
        ),
    ],
)
def test_every_mistake_is_named(tmp_path, text, message):
    path = write(tmp_path, text)
    with pytest.raises(ValueError) as caught:
        read_measurements(path, ["t", "x"], Reading(time="t"))
    assert str(caught.value).startswith(f"{path}: {message}")


@pytest.mark.parametrize("options", [{"rate": "from data"}, {"lost_frames": True}, {"leave_out": True}])
def test_rows_from_the_last_moment_to_the_first_are_told_whatever_is_done_about_times(tmp_path, options):
    path = write(tmp_path, "t,x\n" + "".join(f"{3 - i / 10},{i}\n" for i in range(20)))
    with pytest.raises(ValueError, match=r"column 't': the times fall from 3 to 1.1, expected times that increase"):
        read_measurements(path, ["t", "x"], Reading(time="t", **options))


@pytest.mark.parametrize("odd", ["", "1.5,2.5,", '"1.5",2.5,3.5', "0.5,nan,1", "0.5,1e-320,1", "41", "0.5,1_0,1"])
def test_a_long_text_is_read_alike_field_by_field_and_at_once(tmp_path, monkeypatch, rng, odd):
    """One odd row among plain ones: numbers and messages do not depend on the way in which columns are read."""
    rows = [",".join(map(str, row)) for row in np.column_stack([np.arange(40.0), rng.normal(size=(40, 2))])]
    path, found = tmp_path / "run.csv", []
    path.write_text("\n".join(["by me", "t,x,y", *rows, odd, "41.0,-9,1e-7"]) + "\n")
    reading = Reading(time="t", skip=(1, 0), missing=(("-9",),), leave_out=True)
    for at_once in (measurements._at_once, lambda *_: None):
        monkeypatch.setattr(measurements, "_at_once", at_once)
        try:
            read = read_measurements(path, ["y", "x"], reading)
            found.append([read.times.tolist(), *(column.tolist() for column in read.columns.values())])
        except ValueError as error:
            found.append(str(error))
    assert repr(found[0]) == repr(found[1])


def test_a_million_rows_are_not_read_field_by_field(tmp_path, monkeypatch):
    """It took ten seconds; a count does not depend on the machine."""
    monkeypatch.setattr(measurements, "_number", lambda *_: pytest.fail("asked"))
    path = write(tmp_path, "t;x;y\n" + "".join(f"{i}.5;{i % 7};-1e-3\n" for i in range(6000)))
    read = read_measurements(path, ["x", "y"], Reading(time="t", delimiter=";", every=700, missing=(("6",),)))
    assert read.times.tolist() == [700.0 * i + 0.5 for i in range(9)]
    np.testing.assert_array_equal(read.columns["x"], [700 * i % 7 if 700 * i % 7 != 6 else np.nan for i in range(9)])
    assert np.all(read.columns["y"] == -1e-3)


SPACING = 6.923e-3


@pytest.mark.parametrize("spacing", [None, SPACING])
def test_rows_are_put_on_their_frames(spacing, rng):
    """Times to a millisecond, of which one in ten is late by up to 4 ms, and with a tenth of the frames lost."""
    frames = np.flatnonzero(rng.uniform(size=200) > 0.1)
    written = 0.2 + SPACING * (frames - frames[0])
    late = np.where(rng.uniform(size=frames.size) < 0.1, 4e-3 * rng.uniform(size=frames.size), 0.0)
    times = frame_clock(np.maximum.accumulate(np.round(written + late, 3)), spacing)
    np.testing.assert_array_equal(np.round((times - times[0]) / SPACING), frames - frames[0])
    # What is left is common to all rows, and less than the late ones' mean; the spacing is known to a part in 10^4.
    off = times - written
    assert np.ptp(off) < (1e-12 if spacing else 3e-4)
    assert np.abs(off.mean()) < 5e-4


def test_many_lost_frames_in_a_row():
    frames = np.array([0, 1, 2, 3, 4, 5, 24, 25, 26, 27, 28, 29])
    times = frame_clock(np.round(SPACING * frames, 3))
    np.testing.assert_array_equal(np.round((times - times[0]) / SPACING), frames)


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (np.array([0.0, 1.0, np.nan, 3.0]), "2: expected at least 3 times, and none that is missing"),
        (np.zeros(5), "expected times that increase"),
        (np.cumsum(np.random.default_rng(0).uniform(0.5, 1.5, 60)), "off the straight line over frames"),
    ],
)
def test_what_is_no_film_is_refused(times, message):
    with pytest.raises(ValueError, match=message):
        frame_clock(times)
