"""Whatever is wrong with what a command is given: exit code 2, and one line that names file, row, key or option.

Nothing of it is simulated: bad input is refused before anything is compiled.
"""

import os
from dataclasses import dataclass, field

import pytest
from command_line import BALL, ROWS, SCENE, assert_one_line

from diffcontact.commands.cli import main

MANY_DIGITS, TOO_MANY_DIGITS = "9" * 400, "9" * 5000
SIZES = "expected 0 or a size from 1e-40 to 1e+40"


@dataclass(frozen=True)
class Case:
    """A part of the message; the command, in which {} is the folder; files that are not as they should be."""

    expected: str
    arguments: tuple[str, ...] = ("fit", "{}/carts.toml", "--out", "{}/out")
    files: dict = field(default_factory=dict)


def text(rows, end="\n"):
    return end.join(rows) + end


def data(content, expected):
    return Case(
        f"carts.csv: {expected}", files={"carts.csv": content if isinstance(content, str | bytes) else text(content)}
    )


def row(number, content, expected):
    """Carts with one other row, the header being row 1."""
    return data([*ROWS[: number - 1], content, *ROWS[number:]], expected)


def field_(content, expected):
    return row(7, f"0.5,{content},0,25,0", f"row 7, column 'x1 [mm]': {expected}")


def document(content, expected):
    return Case(f"carts.toml: {expected}", files={"carts.toml": content})


def scene(old, new, expected):
    """Carts with another line in their scene."""
    assert SCENE.count(old) == 1
    return document(SCENE.replace(old, new), expected)


RESTITUTION = 'restitution = { value = "from data", bounds = [0, 1] }'
MASS = "mass_ratio = { value = 1, bounds = [0.1, 10] }"
Q0 = 'q0 = { value = "from data", unit = "mm", per_run = true }'
FILES = 'files = ["carts.csv"]'
FIRST = 'first = ["x1 [mm]", "y1 [mm]"]'


def place(old, template, key):
    """What makes the cases of one place in the scene: its new content, and what is expected of the key."""
    return lambda new, expected: scene(old, template.replace("...", new), f"{key}{expected}")


bounds = place("bounds = [0, 1] }", "bounds = ... }", "parameters.restitution.bounds: ")
mass = place(MASS, "mass_ratio = { ... }", "parameters.mass_ratio.")
unit = place('"mm", per_run = true }\ntilt', "..., per_run = true }\ntilt", "parameters.distance.unit: ")
noise = place("value = 0.1, unit", "value = ..., unit", "data.noise")
fit_option = place("[parameters]", "[fit]\n...\n[parameters]", "fit.")
system = place('kind = "carts"', "...", "system")
balls = place('kind = "carts"', 'kind = "balls"\ncount = 2\ndimension = 1\n...', "system")


def command(*arguments, expected):
    return Case(expected, arguments)


VARY, TIMES = ("--vary", "q0=0:1:3"), ("--times", "0:1000:7")


def ensemble(*options, expected, out="{}/runs.h5", **files):
    return Case(expected, ("ensemble", "{}/ball.toml", "--out", out, *options), files)


def vary(values, expected):
    return ensemble("--vary", values, *TIMES, expected=expected)


def times(values, expected):
    return ensemble(*VARY, f"--times={values}", expected=expected)


RANGE = "expected LOW:HIGH:COUNT, two numbers and a count of at least 2"

CASES = [
    # Measurements.
    data([ROWS[0].replace("y2", "z2"), *ROWS[1:]], "no column 'y2 [mm]'; did you mean"),
    row(7, "0.5,-18,zero,25,0", "row 7, column 'y1 [mm]': 'zero' is not a number"),
    row(7, "0.4,-18,0,25,0", "row 7, column 'time [s]': 0.4 follows 0.4"),
    row(7, ",-18,0,25,0", "row 7, column 'time [s]': the time is missing"),
    row(7, "0.5,-18,0,25", "row 7 has 4 fields, expected 5"),
    data(ROWS[:1], "0 rows of data, expected at least 2"),
    data(ROWS[:15], "the distance changes at"),
    data("", "no column 'time [s]'; the header has nothing"),
    data(ROWS[1:], "no column 'time [s]'; the header has '0.0', '-17.00', '0'"),
    data([ROWS[0], *(f"{i},,,1,0" for i in range(20))], "both markers are seen in 0 rows, expected at least 8"),
    data([f"{r},{r.split(',')[1]}" for r in ROWS], "row 1: column 'x1 [mm]' is there 2 times, expected once"),
    data(text(ROWS).replace(",", ";"), "no column 'time [s]'; its fields seem to be between ';', expected ','"),
    Case(
        "carts.csv: row 2, column 'time [s]': '0,0' is not a number",
        files={
            "carts.toml": SCENE.replace("[data]", '[data]\ndelimiter = ";"'),
            "carts.csv": text(ROWS).replace(",", ";").replace(".", ","),
        },
    ),
    data(text(ROWS).encode("utf-16"), "byte 0 is no UTF-8 text, expected a CSV file"),
    data(text(ROWS).encode("utf-16-le"), "row 1: a null byte, expected a CSV file in UTF-8"),
    row(7, f'0.5,"{"1" * 140_000}",0,25,0', "row 7: field larger than field limit (131072), expected fields"),
    row(7, '0.5,"18,0,25,0', "row 7 has 2 fields, as a quote holds it together with all up to row 32, expected 5"),
    field_("１２", "'１２' is not a number"),
    field_("18 mm", "'18 mm' is not a number"),
    field_("nan", "'nan', expected a finite number; a lost sample is an empty field"),
    field_("inf", "'inf', expected a finite number"),
    field_("1e300", f"'1e300', {SIZES}"),
    field_(TOO_MANY_DIGITS, "'99999"),
    # Scenes.
    scene(MASS, MASS.replace("bounds", "bound"), "parameters.mass_ratio.bound: unknown key; did you"),
    mass(f"{'v' * 5000} = 1", "'vvv"),
    scene("[system]", "[sytem]", "sytem: unknown key; did you mean 'system'"),
    system('kind = "carst"', ".kind: no such kind 'carst'; did you mean 'carts'"),
    system(f'kind = "{"c" * 5000}"', ".kind: no such kind 'ccc"),
    system("kind = 1", ".kind: 1, expected a text"),
    system("", ".kind: missing, expected a text"),
    scene("[system]", "[[system]]", "system: [{'kind': 'carts'}], expected a table"),
    scene(f"{MASS}\n", "", "parameters.mass_ratio: missing"),
    scene("[data]", "[output]", "data: missing, expected a table"),
    mass("bounds = [0.1, 10]", "value: missing, expected a number"),
    scene(MASS, "mass_ratio = 1", "parameters.mass_ratio: 1, expected a table"),
    scene('title = "Two simulated carts"', "title = 1", "title: 1, expected a text"),
    scene('noise = { value = 0.1, unit = "mm" }', "noise = 0.1", "data.noise: 0.1, expected a table"),
    noise("-0.1", ": -0.0001 m, expected above 0"),
    noise("nan", ".value: nan, expected a number"),
    unit('"kg"', "unit 'kg' cannot be converted to 'm'"),
    scene('time_unit = "s"', 'time_unit = "sec"', "data.time_unit: unknown unit 'sec'"),
    unit("5", "5, expected a text"),
    unit('"km^1000"', "unit 'km^1000': power 1000, expected at most 9"),
    unit(f'"{"km*" * 40}m{"/m" * 40}"', "unit 'km*km"),
    unit('"mm^٢"', "unknown unit 'mm^٢'; did you mean 'mm'?"),
    scene(MASS, f"mass_ratio = {{ value = {TOO_MANY_DIGITS} }}", "line 20: a number of more than 4300 digits"),
    mass(f"value = {MANY_DIGITS}", "value: 9999"),
    mass(f"value = 0x{'f' * 9000}", "value: a number of 36000 bits"),
    mass("value = 1e300", f"value: 1e+300, {SIZES}"),
    mass("value = true", "value: True, expected a number"),
    mass('value = "one"', "value: 'one', expected a number"),
    mass(f"value = {'[' * 200}1{']' * 200}", "value: [[[[[...]]]]], expected a number"),
    mass('value = "from data"', "value: this preparation suggests no mass_ratio"),
    mass("value = 0", "value: 0.0, expected above 0"),
    scene(RESTITUTION, "restitution = { value = 1.2 }", "parameters.restitution.value: 1.2, expected within [0, 1]"),
    scene(Q0, "q0 = { value = [0, 1, 2] }", "parameters.q0.value: shape (3,), expected a number or shape (2,)"),
    scene(Q0, "q0 = { value = [0, 0.03] }", "parameters.q0: gap 0 is -0.01 m at the start of"),
    mass("value = 11, bounds = [0.1, 10]", "value: the start 11.0 is outside its bounds [0.1, 10.0]"),
    bounds("[0.5, 0.5]", "[0.5, 0.5] are the wrong way round"),
    bounds("[0, 2]", "[0.0, 2.0] reach beyond what is possible, expected within [0, 1]"),
    bounds("[false, true]", "[False, True], expected a number or a list of numbers"),
    bounds("[nan, 1]", "nan, expected a number"),
    bounds("0.5", "0.5, expected [low, high]"),
    bounds("[[0], 1]", "[[0], 1], expected a number or a list of numbers, as long as each other"),
    mass('value = 1, free = "yes"', "free: 'yes', expected true or false"),
    mass("value = 1, per_run = 1", "per_run: 1, expected true or false"),
    mass("value = 1, prior = { mean = 1, sigma = 0 }", "prior.sigma: 0.0, expected above 0"),
    mass("value = 1, prior = { mean = inf, sigma = 1 }", "prior.mean: inf, expected a finite number"),
    mass('value = 1, prior = "normal"', "prior: 'normal', expected a table"),
    mass("value = 1, free = false, prior = { mean = 1, sigma = 1 }", "prior: of a parameter that is not free"),
    fit_option("los = 1", "los: unknown key; did you mean 'loss'"),
    fit_option('loss = "hubr"', "loss: no such loss 'hubr'; did you mean 'huber'"),
    fit_option("f_scale = 0", "f_scale: 0.0, expected above 0"),
    fit_option("f_scale = 3", "f_scale: of the sum of squares, which knows no outliers"),
    fit_option("starts = 0", "starts: 0, expected at least 1"),
    fit_option("starts = 2.5", "starts: 2.5, expected a whole number"),
    fit_option("starts = 1000000000000", "starts: 1000000000000, expected at most 1000000"),
    fit_option("substeps = 'few'", "substeps: 'few', expected 'auto' or a whole number"),
    scene(f"{FILES}\n", "", "data.files: missing, and no --data was given"),
    scene(FILES, "files = []", "data.files: [], expected a list of names"),
    scene(FILES, 'files = "carts.csv"', "data.files: 'carts.csv', expected a list of names"),
    scene(FILES, 'files = ["a\\u0000.csv"]', "data.files: 'a\\x00.csv', expected the name of a file"),
    scene(FILES, 'files = ["carts.csv", "carts.csv"]', "data.files: 'carts.csv' is there twice"),
    scene('time_unit = "s"', 'time_unit = "s"\nevery = 0', "data.every: 0, expected at least 1"),
    scene('time_unit = "s"', 'time_unit = "s"\ndelimiter = ",,"', "data.delimiter: ',,', expected one character"),
    scene(FIRST, 'first = ["x1 [mm]", "x1 [mm]"]', "preparation.first: 'x1 [mm]' is there twice"),
    scene(FIRST, 'first = ["x1 [mm]", "x2 [mm]"]', "preparation: column 'x2 [mm]' is used twice"),
    scene(FIRST, 'first = ["x1 [mm]"]', "preparation.second: 2 columns, first has 1"),
    scene(FIRST, "first = [1, 2]", "preparation.first: [1, 2], expected a list of names"),
    scene(FIRST, f'exclude_contact = {{ value = -1, unit = "s" }}\n{FIRST}', "preparation.exclude_contact: -1.0 s, ex"),
    scene(FIRST, f'exclude_contact = {{ value = 1, unit = "mm" }}\n{FIRST}', "preparation.exclude_contact.unit: unit"),
    scene(FIRST, f'around_contact = {{ value = 0, unit = "s" }}\n{FIRST}', "preparation.around_contact: 0.0 s, expect"),
    balls("fixed = 1000000", ".fixed: 1000000, expected at most 1000"),
    system('kind = "balls"\ncount = -1\ndimension = 1', ".kind: balls(count=-1): expected an integer of"),
    system('kind = "balls"\ncount = 2\ndimension = 0', ".kind: balls(dimension=0): expected an int"),
    balls("box = [1, 0]", ".kind: balls(box=(1.0, 0.0)): expected low < high"),
    balls("box = 3", ".box: 3.0, expected [low, high]"),
    balls("materials = [0, 1000000]", ".materials: [0, 1000000], expected 2 whole numbers"),
    system('kind = "bouncing ball"\nbounces = 1000000000', ".bounces: 1000000000, expected at most 1000"),
    system('kind = "particle line"\ncount = 0', ".count: particle_line(count=0): expected an integer"),
    document('{"a": 1}', "not a TOML document: Invalid statement (at line 1, column 1)"),
    scene(MASS, f"{MASS}\n{MASS}", "not a TOML document: Cannot overwrite a value (at line 21, column 47)"),
    document(f"{SCENE}\n[x]\na = {'[' * 2000}{']' * 2000}\n", "not a TOML document: lists or tables nested too"),
    document("", "system: missing, expected a table"),
    document(SCENE.encode("utf-16"), "byte 0 is no UTF-8 text, expected a TOML document"),
    document(f'{SCENE}\n[output]\nfolder = ""\n', "output.folder: '', expected the name of a file"),
    document(f"{SCENE}\n[output]\nfolder = 1\n", "output.folder: 1, expected a text"),
    # Files and folders.
    command("fit", "{}/absent.toml", expected="absent.toml: No such file or directory"),
    command("fit", "{}", expected=": Is a directory"),
    Case("cart.csv: No such file or directory", files={"carts.toml": SCENE.replace("carts.csv", "cart.csv")}),
    command("fit", "{}/" + "x" * 300, expected="xxx: File name too long"),
    command("fit", "{}/carts.toml", "--data", "{}/carts.csv", "{}/./carts.csv", expected="carts.csv: holds the same b"),
    Case(
        "copy.csv: holds the same bytes as",
        ("check", "{}/carts.toml", "--data", "{}/carts.csv", "{}/copy.csv"),
        {"copy.csv": text(ROWS)},
    ),
    command("fit", "{}/carts.toml", "--out", "{}/carts.csv", expected="carts.csv: Not a directory"),
    command("demo", "--out", "{}/carts.csv", expected="carts.csv: Not a directory"),
    # The command line.
    command("fitt", expected="argument COMMAND: invalid choice: 'fitt'"),
    command("fit", expected="python -m diffcontact fit: the following arguments are required: SCENE"),
    command("fit", "", expected="argument SCENE: '', expected the name of a file"),
    command("fit", "a\0b", expected="argument SCENE: 'a\\x00b', expected the name of a file"),
    command("fit", "{}/carts.toml", "--ouut", "x", expected="python -m diffcontact: unrecognized arguments: --ouut x"),
    command("fit", "{}/carts.toml", "--out", "", expected="argument --out: '', expected the name of a f"),
    # Ensembles.
    ensemble(*TIMES, expected="the following arguments are required: --vary"),
    vary("restitution", "--vary 'restitution': expected NAME=LOW:HIGH:COUNT or NAME[ELE"),
    vary("restitution=0.5:0.9", f"--vary 'restitution=0.5:0.9': '0.5:0.9', {RANGE}"),
    vary("q0=0:inf:3", f"'0:inf:3', {RANGE}"),
    vary(f"q0=0:1:{TOO_MANY_DIGITS}", RANGE),
    vary("restitution=0.5:0.9:1", f"'0.5:0.9:1', {RANGE}"),
    vary("q0=0:1:1000000000000", "1000000000000 values, expected at most 10000000"),
    ensemble("--vary", "q0=0:1:10000", "--vary", "u0=0:1:10000", *TIMES, expected="--vary: 100000000 lanes in all, ex"),
    vary("restituton=0:1:3", "no parameter 'restituton'; did you mean 'restitution'?"),
    vary("restitution=0.5:1.9:3", "0.5 to 1.9, expected within [0, 1] (SI)"),
    vary("restitution[0]=0:1:3", "restitution is a single number, expected it"),
    vary("q0[1]=0:1:3", "--vary 'q0[1]=0:1:3': element 1 of q0, expected 0 to 0"),
    ensemble(*VARY, "--vary", "q0[0]=0:1:3", *TIMES, expected="--vary 'q0[0]=0:1:3': q0[0] is varied twice"),
    ensemble(*VARY, expected="ball.toml: data.files: missing, and no --data was given; expected a CSV"),
    times("0:1:2:3", f"--times '0:1:2:3': '0:1:2:3', {RANGE}"),
    times("1:0:3", "--times '1:0:3': from 1 to 0, expected LOW below HIGH"),
    times("1:1.0000000000000002:5", "between LOW and HIGH there are no 5 numbers that differ"),
    times("0:1:1000000000000", "1000000000000 values, expected at most 1000000"),
    ensemble(*VARY, *TIMES, "--chunk", "0", expected="ensemble(chunk=0): expected an integer of at least"),
    ensemble(*VARY, *TIMES, "--chunk", "x", expected="argument --chunk: 'x' is not a whole number"),
    ensemble(*VARY, *TIMES, out="{}/ball.toml/x.h5", expected="ball.toml: Not a directory"),
    ensemble(*VARY, *TIMES, out="{}/ball.toml", expected="ball.toml'): not an HDF5 file"),
    ensemble(
        *("--vary", "u0=-1:1:2", *TIMES),
        expected="ball.toml: parameters.floor.value: 'from data' without any, expected a number, --vary or --data",
        **{"ball.toml": BALL.replace("value = 500, unit", 'value = "from data", unit')},
    ),
    ensemble(
        *("--vary", "u0=-1:1:2", *TIMES),
        expected="ball.toml: system: takes its apexes from measurements, expected --data",
        **{"ball.toml": BALL.replace("[data]", "bounces = 2\n[data]") + "later_restitution = {value = 1}\n"},
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.expected[:50])
def test_bad_input(tmp_path, capsys, case):
    files = {"carts.toml": SCENE, "carts.csv": text(ROWS), "ball.toml": f"{BALL}\n[fit]\nsubsteps = 1\n"} | case.files
    for file, content in files.items():
        (tmp_path / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    assert main([argument.replace("{}", str(tmp_path)) for argument in case.arguments]) == 2
    assert_one_line(capsys, case.expected)
    # Nothing was written, and nothing that was there is touched.
    assert sorted(os.listdir(tmp_path)) == sorted(files)
    for file, content in files.items():
        assert (tmp_path / file).read_bytes() == (content if isinstance(content, bytes) else content.encode())


def test_every_mistake_of_a_scene_has_its_line(tmp_path, capsys):
    wrong = {'time = "time [s]"': 'time = "time [s]"\nrat = 3', MASS: "mass_ratio = { value = -1 }"}
    told = SCENE + "\n[fit]\nstarts = 0\nlos = 1\n"
    for right, mistake in wrong.items():
        told = told.replace(right, mistake)
    (tmp_path / "carts.toml").write_text(told)
    assert main(["fit", str(tmp_path / "carts.toml")]) == 2
    lines = capsys.readouterr().err.splitlines()
    keys = "parameters.mass_ratio.value", "fit.los", "data.rat"
    assert [key for line in lines for key in keys if f"carts.toml: {key}: " in line] == list(keys)
    assert len(lines) == 3
