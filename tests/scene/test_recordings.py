"""What trackers write, as small files made by hand: recognised by their header, with times, units and lost samples."""

import numpy as np
import pytest
from tables import cases

from diffcontact.scene.measurements import Reading, read_measurements

QUALISYS = """\
NO_OF_FRAMES\t4
NO_OF_CAMERAS\t6
NO_OF_MARKERS\t2
FREQUENCY\t200
NO_OF_ANALOG\t0
ANALOG_FREQUENCY\t0
DESCRIPTION\t--
TIME_STAMP\t2026-01-02, 10:00:00.000\t12.5
DATA_INCLUDED\t3D
MARKER_NAMES\tleft\tright
TRAJECTORY_TYPES\tMeasured\tMeasured
1.0\t2.0\t3.0\t4.0\t5.0\t6.0
1.5\t0.000\t3.0\t0.000\t0.000\t0.000
2.0\t2.0\t3.0\t4.5\t5.0\t6.0\t
2.5\t2.0\t3.0\t4.5\t5.0\t6.0
"""
WITH_TIMES = QUALISYS.partition("1.0\t")[0] + (
    "Frame\tTime\tleft X\tleft Y\tleft Z\tright X\tright Y\tright Z\n"
    "3\t0.010\t1\t2\t3\t4\t5\t6\n4\t0.015\t0\t0\t0\t4\t5\t6\n"
)
TRACKER = "\tmass A\t\t\nt\tx\ty\t\n0,000\t-4,796\t13,51\t\n0,033\t-6,786\t11,37\t\n0,067\t\t\t\n"
TWO_TRACKS = "mass_A,,,mass_B,,\nt,x,y,t,x,y\n0.0,1,2,0.0,5,6\n0.1,1.5,2,,,\n"
DEEPLABCUT = """\
scorer,net,net,net,net,net,net
bodyparts,ball,ball,ball,hand,hand,hand
coords,x,y,likelihood,x,y,likelihood
0,245.3,189.2,0.98,1,2,0.99
1,246.3,192.2,0.12,1,2,0.99
2,247.3,199.2,0.97,1,2,0.30
"""
ONE_AXIS = "scorer,net,net\nbodyparts,ball,ball\ncoords,x,likelihood\n0,1,0.9\n1,3,0.1\n"
ANIMALS = "scorer,net,net\nindividuals,a,a\nbodyparts,ball,ball\ncoords,x,y\n0,1,2\n1,3,4\n"
KINOVEA = """\
#Kinovea Trajectory data export
#T X Y

# ball
0 1.0 2.0
0.04 1.5 2.5

# hand
0.04 7 8
0.08 9 10
"""
OLD_KINOVEA = "#Kinovea Trajectory data export\r\n#T X Y\r\n0:00:00:00 866.00 320.00 \r\n0:00:01:03 847.00 321.00 \r\n"
KINOVEA_CSV = '"Time","ball/0/X","ball/0/Y","man/hand/X","man/hand/Y"\n'
KINOVEA_CSV += '"0,00","1,5","2,0",,\n"0,04","1,0","2,5","7","8"\n'
PHYPHOX = '"Bounce 0 (s)","Height 0 (m)","Bounce 1 (s)","Height 1 (m)","Bounce 2 (s)","Bounce 3 (s)"\n'
PHYPHOX += "1.234000000E0,5.0E-1,1.834000000E0,3.0E-1,2.314000000E0,0.000000000E0\n"
STOPWATCH = "Start (s);Stop 1 (s);Stop 2 (s)\n0,5;1,1;1,58\n"


ONE_BELOW = """\
,y,x,mass,frame,particle
0,20.0,12.5,900,0,0
1,20.4,300.1,901,0,1
2,20.0,13.1,900,1,0
3,20.3,300.2,902,2,1
4,20.1,14.2,900,2,0
"""
NAMED_BELOW = "label;time [s];x [cm]\nleft;0,00;1,5\nleft;0,04;1,0\nright;0,00;7,5\nright;0,04;7,0\n"


def read(folder, content, columns, time, **keys):
    path = folder / "recording.txt"
    path.write_text(content)
    return read_measurements(path, columns, Reading(time=time, **keys))


QUOTED = '"' + DEEPLABCUT.replace(",", '","').replace("\n", '"\n"').removesuffix('"')
BETWEEN = KINOVEA_CSV.replace('","', '";"').replace(",,", ";;")
CONTENTS = {**globals(), "VERSION_2": f"FILE_VERSION\t2.0.0\n{QUALISYS}"}
QTM = "a Qualisys export, 2 markers (left, right), 200 frames a second, in mm; 0 0 0 is a lost marker"
NET = "a DeepLabCut export, ball, hand in px, y downwards, one row per frame; samples of small likelihood"
UNSTATED = "lengths in the unit of the calibration"


# Columns as name = values, ! for a lost sample.
@cases(
    "content time times columns understood",
    f"""
    QUALISYS | time [s] | 0 .005 .01 .015 | left x [mm] = 1 1.5 2 2.5; right z [mm] = 6 ! 6 6 | {QTM}
    VERSION_2 | time [s] | 0 .005 .01 .015 | left y [mm] = 2 0 2 2; right z [mm] = 6 ! 6 6 | {QTM}
    WITH_TIMES | time [s] | .01 .015 | left x [mm] = 1 !; right x [mm] = 4 4 | a Qualisys export
    TRACKER | time [s] | 0 .033 .067 | mass A y = 13.51 11.37 ! | track mass A, time in s, {UNSTATED}, decimal commas
    TWO_TRACKS | time [s] | 0 .1 | mass_A x = 1 1.5; mass_B y = 6 ! | tracks mass_A, mass_B
    DEEPLABCUT | frame | 0 1 2 | ball x [px] = 245.3 ! 247.3; hand y [px] = 2 2 ! | {NET}
    QUOTED | frame | 0 1 2 | ball x [px] = 245.3 ! 247.3; hand y [px] = 2 2 ! | {NET}
    ONE_AXIS | frame | 0 1 | ball x [px] = 1 ! | a DeepLabCut export, ball in px
    ANIMALS | frame | 0 1 | a ball y [px] = 2 4 | a DeepLabCut export, a ball in px
    KINOVEA | time [s] | 0 .04 .08 | ball x = 1 1.5 !; hand y = ! 8 10 | an export of Kinovea, ball, hand, {UNSTATED}
    ONE_BELOW | frame | 0 1 2 | particle 0 x = 12.5 13.1 14.2; particle 1 x = 300.1 ! 300.2 | rows of 2 points
    NAMED_BELOW | time [s] | 0 .04 | left x [cm] = 1.5 1; right x [cm] = 7.5 7 | rows of 2 points
    OLD_KINOVEA | time [s] | 0 1.03 | trajectory 1 x = 866 847 | an export of Kinovea, trajectory 1
    KINOVEA_CSV | Time | 0 .04 | ball x = 1.5 1; man hand y = ! 8 | Kinovea, ball, man hand, {UNSTATED}, decimal commas
    BETWEEN | Time | 0 .04 | ball y = 2 2.5 | Kinovea
    PHYPHOX | impact [s] | 1.234 1.834 2.314 |  | an export of phyphox, 3 impacts that were heard
    STOPWATCH | impact [s] | .5 1.1 1.58 |  | an export of phyphox, 3 impacts
    """,
)
def test_writers_are_known_by_their_header(tmp_path, content, time, times, columns, understood):
    expected = dict(part.strip().split(" = ") for part in columns.split(";") if part)
    found = read(tmp_path, CONTENTS[content], list(expected), time)
    np.testing.assert_allclose(found.times, numbers(times), atol=1e-12)
    for name, values in expected.items():
        np.testing.assert_allclose(found.columns[name], numbers(values), atol=1e-12)
    assert understood in found.understood


def numbers(text):
    return [np.nan if word == "!" else float(word) for word in text.split()]


def test_how_sure_a_net_must_be_is_a_key(tmp_path):
    found = read(tmp_path, DEEPLABCUT, ["ball x [px]"], "frame", likelihood=0.1)
    assert np.isfinite(found.columns["ball x [px]"]).all()


def test_a_likelihood_of_what_has_none_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"recording\.txt: data\.likelihood: 0\.1, but of no column that is used"):
        read(tmp_path, KINOVEA, ["ball x"], "time [s]", likelihood=0.1)


@pytest.mark.parametrize(
    ("content", "column", "message"),
    [
        (QUALISYS, "lef x [mm]", "no column 'lef x [mm]'; did you mean 'left x [mm]'? (a Qualisys export"),
        (QUALISYS.replace("FREQUENCY\t200", "FREQUENCY\t"), "left x [mm]", "key FREQUENCY: [''], expected a number"),
        (QUALISYS.replace("left\tright", "left"), "left x [mm]", "key MARKER_NAMES: 1 names, expected 2 as NO_OF"),
        (QUALISYS.replace("5.0\t6.0\n", "5.0\n", 1), "left x [mm]", "row 12 has 5 fields, expected 6, three for each"),
        (WITH_TIMES.replace("\t5\t6\n4", "\t5\n4"), "left x [mm]", "row 13 has 7 fields, expected 8, three for each"),
        (WITH_TIMES.replace("right Z", "right Z\tleft Q\tright Q"), "left x [mm]", "row 12 has 10 fields, expected 6,"),
        (QUALISYS.replace("1.5\t", "1.5x\t", 1), "left x [mm]", "row 13, column 'left x [mm]': '1.5x' is not a number"),
        (TRACKER.replace("-6,786", "-6,7a"), "mass A x", "row 4, column 'mass A x': '-6,7a' is not a number"),
        (DEEPLABCUT.replace("hand,hand,hand", "hand"), "ball x [px]", "rows 1 to 3 have [7, 5, 7] fields"),
        (KINOVEA.replace("0.04 1.5", "0.0.4 1.5"), "ball x", "row 6: '0.0.4', expected a time in seconds"),
        (KINOVEA.replace("hand", "ball"), "ball x", "row 8: a second trajectory 'ball', expected a name of its own"),
        (KINOVEA.replace("0.08", "0.04"), "ball x", "row 10: the time 0.04 is there twice, in row 9 too, and other"),
        (TWO_TRACKS.replace(",,,\n", ",,7,8\n").replace("0.0,5", "0.2,5"), "mass_B x", "row 4, field 4: '', expected"),
        (TWO_TRACKS.replace("2,,,", "2,,,,7"), "mass_A x", "row 4 has 7 fields, expected 6 as the header has"),
        (KINOVEA.replace("7 8", "7"), "ball x", "row 9 has 2 fields, expected a time and two coordinates"),
        (PHYPHOX.replace("2.314", "0.000"), "impact [s]", "row 2 has 2 times of impacts, expected at least 3"),
    ],
)
def test_mistakes_in_them_are_named(tmp_path, content, column, message):
    time = "frame" if "scorer" in content else "impact [s]" if "Bounce" in content else "time [s]"
    with pytest.raises(ValueError) as caught:
        read(tmp_path, content, [column], time)
    assert str(caught.value).startswith(f"{tmp_path}/recording.txt: {message}")


@pytest.mark.parametrize("header", ["Time,x", "Time,x,y", "Time,ball/x,ball/y", "Time,ball/0/X", "Time,a/0/X,b/0/Y"])
def test_a_time_and_columns_that_are_no_points_of_kinovea_are_a_csv(tmp_path, header):
    """The two columns of a point of Kinovea are named by their object, the point and the axis."""
    name = header.split(",")[-1]
    found = read(tmp_path, f"{header}\n{header.count(',') * '0,'}1\n{header.count(',') * '1,'}2\n", [name], "Time")
    assert found.columns[name].tolist() == [1.0, 2.0]
    assert found.understood == ""


@pytest.mark.parametrize("delimiter", ["\t", ";"])
def test_tracks_of_other_frames_are_joined_by_their_times(tmp_path, delimiter):
    """The second track was marked two frames later: each of its places belongs to the time beside it."""
    header = "\tA\t\t\tB\t\nt\tx\ty\tt\tx\ty\n"
    rows = [f"{i / 10:.1f}\t{i}\t0\t{(i + 2) / 10:.1f}\t{100 + i + 2}\t0\n" for i in range(4)]
    content = (header + "".join(rows)).replace(".", ",").replace("\t", delimiter)
    found = read(tmp_path, content, ["A x", "B x"], "time [s]")
    np.testing.assert_allclose(found.times, np.arange(6) / 10, atol=1e-12)
    np.testing.assert_array_equal(found.columns["A x"], [0, 1, 2, 3, np.nan, np.nan])
    np.testing.assert_array_equal(found.columns["B x"], [np.nan, np.nan, 102, 103, 104, 105])


def test_tracks_that_share_rounded_times_keep_their_rows(tmp_path):
    """Also where one of them was not marked, and has no time either."""
    content = "A,,B,\nt,x,t,x\n" + "0.0,0,0.0,5\n0.0,1,,\n0.1,2,0.1,7\n0.1,3,0.1,8\n"
    found = read(tmp_path, content, ["A x", "B x"], "time [s]", rate="from data")
    np.testing.assert_array_equal(found.columns["A x"], [0, 1, 2, 3])
    np.testing.assert_array_equal(found.columns["B x"], [5, np.nan, 7, 8])


@pytest.mark.parametrize(
    ("heading", "before"),
    [
        ("Frame\tTime\tleft X\tleft Y\tleft Z\tright X\tright Y\tright Z\n", "{i}\t{t:.3f}\t"),
        ("Time\tleft X\tleft Y\tleft Z\tright X\tright Y\tright Z\n", "{t:.3f}\t"),
        ("", "{i}\t{t:.3f}\t"),
        ("", "{i}\t"),
        ("", ""),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\t\n"])
@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_marker_with_three_empty_fields_is_lost_and_moves_none(tmp_path, heading, before, end, lost):
    """Whichever row it is in; rows that are empty are no frames."""
    left, right = np.arange(12.0).reshape(4, 3), 20 + np.arange(12.0).reshape(4, 3)
    places = [["\t".join(f"{x:g}" for x in place) for place in marker] for marker in (left, right)]
    places[1][lost] = "\t\t"
    rows = [before.format(i=i + 1, t=i / 200) + "\t".join(row) + end for i, row in enumerate(zip(*places, strict=True))]
    content = QUALISYS.partition("1.0\t")[0] + heading + rows[0] + "\n" + "".join(rows[1:]) + "\n\n"
    found = read(tmp_path, content, [f"{name} {axis} [mm]" for name in ("left", "right") for axis in "xyz"], "time [s]")
    right[lost] = np.nan
    np.testing.assert_array_equal(np.transpose(list(found.columns.values())[:6]), np.hstack([left, right]))
    np.testing.assert_allclose(found.times, np.arange(4) / 200, atol=1e-12)


def test_a_frame_in_which_all_markers_are_lost_takes_its_time(tmp_path):
    found = read(
        tmp_path, QUALISYS.replace("1.5\t0.000\t3.0\t0.000\t0.000\t0.000", 5 * "\t"), ["left x [mm]"], "time [s]"
    )
    np.testing.assert_array_equal(found.columns["left x [mm]"], [1, np.nan, 2, 2.5])
    np.testing.assert_allclose(found.times, np.arange(4) / 200, atol=1e-12)
