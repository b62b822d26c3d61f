"""What a camera, a tracker or a telephone writes: made by formulas whose parameters a fit has to find again."""

import numpy as np
from scipy.integrate import solve_ivp

import diffcontact as dc

NOISE = 0.1  # mm


def carts(times, rng):
    """Two markers [mm] on a line that is turned in the frame: e = 0.8, equal masses, contact at a distance of 50 mm."""
    at = 250.0 / 300.0
    since = np.maximum(times - at, 0.0)
    first = np.where(times < at, 300 * times, 250.0) + 30 * since
    second = 300.0 + 270 * since
    along = np.stack([first, second], axis=1)[:, :, None] * np.array([0.96, 0.28, 0.0])
    return along + NOISE * rng.normal(size=along.shape) + np.array([10.0, 20.0, 400.0])


def ball(times):
    """Height [m] of a ball dropped from 1 m at 0.1 s, e = 0.8."""
    height, start, top = np.full(times.size, 1.0), 0.1, 1.0
    speed = 0.0
    for _ in range(8):
        since = times - start
        height = np.where(since > 0, top + speed * since - 9.81 / 2 * since**2, height)
        last = (speed + np.sqrt(speed**2 + 2 * 9.81 * top)) / 9.81
        start, top, speed = start + last, 0.0, 0.8 * (9.81 * last - speed)
    return height


def swing(times):
    """A swing [m] of 0.5 Hz that dies away."""
    return 0.02 + 0.15 * np.exp(-0.05 * times) * np.cos(np.pi * times)


def table(columns, delimiter=",", digits=4):
    return "".join(delimiter.join(f"{x:.{digits}f}" for x in row) + "\n" for row in zip(*columns, strict=True))


def qualisys(rng):
    times = np.arange(400) / 200
    rows = carts(times, rng).reshape(400, 6)
    rows[50:60, 3:] = 0.0
    return (
        "NO_OF_FRAMES\t400\nNO_OF_CAMERAS\t4\nNO_OF_MARKERS\t2\nFREQUENCY\t200\nDESCRIPTION\t--\n"
        "DATA_INCLUDED\t3D\nMARKER_NAMES\tleft\tright\n" + table(rows.T, "\t", 3)
    )


def tracker(rng):
    times = np.arange(600) / 30
    x = swing(times) + 1e-4 * rng.normal(size=times.size)
    return "\tmass A\t\t\nt\tx\ty\t\n" + table([times, x, 0.3 + 0 * x], "\t").replace("\n", "\t\n").replace(".", ",")


def deeplabcut(rng):
    times = np.arange(60) / 30
    y = 700 - 600 * ball(times) + 0.5 * rng.normal(size=times.size)
    sure = np.where(np.arange(60) == 20, 0.1, 0.99)
    head = "scorer,net,net,net\nbodyparts,ball,ball,ball\ncoords,x,y,likelihood\n"
    rows = zip(range(60), 300 + rng.normal(size=60), y, sure, strict=True)
    return head + "".join(f"{i},{a:.2f},{b:.2f},{c:.2f}\n" for i, a, b, c in rows)


def kinovea(rng):
    times = np.arange(90) / 60
    y = ball(times) + 5e-4 * rng.normal(size=times.size)
    return "#Kinovea Trajectory data export\n#T X Y\n\n# ball\n" + table([times, 0.5 + 0 * y, y], " ")


def kinovea_csv(rng):
    times = np.arange(90) / 60
    rows = [1e3 * times, 0.5 + 0 * times, ball(times) + 5e-4 * rng.normal(size=times.size)]
    rows = table(rows).replace(",", '","').replace("\n", '"\n"')
    return '"Time","ball/0/X","ball/0/Y"\n"' + rows.removesuffix('"')


def phyphox(rng):
    times = 1.0 + np.cumsum([0, 0.6, 0.48, 0.384, 0.3072])
    header = ",".join(f'"Bounce {i} (s)","Height {i} (m)"' for i in range(5))
    return header + "\n" + ",".join(f"{t:.6E},0.1" for t in times) + "\n"


def by_ear(rng):
    """The times of impacts as somebody noted them, counted."""
    times = 1.0 + np.cumsum([0, 0.6, 0.48, 0.384, 0.3072]) + 1e-4 * rng.normal(size=5)
    return "impact,t (s)\n" + "".join(f"{i + 1},{t:.4f}\n" for i, t in enumerate(times))


def spreadsheet(rng):
    """Carts at 2 kHz with times to three digits, decimal commas, a head and a row of units, and dashes for lost."""
    times = np.arange(2400) / 2000
    x = carts(times, rng)[:, :, 0]
    rows = [[f"{t:.3f}", f"{a:.3f}", f"{b:.3f}"] for t, (a, b) in zip(times, x, strict=True)]
    rows[100][2] = "-"
    text = "".join(";".join(row) + "\n" for row in rows).replace(".", ",")
    return "Tracked by hand\nRun 3\nTime;Left cart;Right cart\ns;mm;mm\n" + text


def pucks(rng):
    """Two discs of 35 mm on a table, from the side into each other; cm."""
    times = np.arange(120) / 100
    first = np.stack([-20 + 50 * times, 1 + 0 * times], axis=1)
    second = np.stack([5 + 0 * times, 4 + 0 * times], axis=1)
    # They meet at a distance of 7 cm: 3 across, sqrt(40) along.
    at = (25 - np.sqrt(40.0)) / 50
    n = np.array([np.sqrt(40.0), 3.0]) / 7
    jump = 0.5 * 1.8 * 50 * n[0] * n
    since = np.maximum(times - at, 0.0)[:, None]
    rows = np.concatenate([first - since * jump, second + since * jump], axis=1)
    rows += 0.01 * rng.normal(size=rows.shape)
    return "time [s],x1 [cm],y1 [cm],x2 [cm],y2 [cm]\n" + table([times, *rows.T])


def puck(rng):
    """One puck without a header, in px and frames, that meets two cushions, e = 0.7."""
    frames = np.arange(90.0)
    x = np.where(frames < 30, 100 + 12 * frames, 460 - 8.4 * (frames - 30))
    y = np.where(frames < 50, 300 - 5 * frames, 50 + 3.5 * (frames - 50))
    return table([frames, x + 0.3 * rng.normal(size=90), y + 0.3 * rng.normal(size=90)], " ", 2)


def carriage(rng):
    """3 kg with 2 N s/m and 1 N of dry friction, driven to and fro."""
    times = np.arange(600) / 300
    x, v, a = 0.5 - 0.5 * np.cos(2 * times), np.sin(2 * times), 2 * np.cos(2 * times)
    force = 3 * a + 2 * v + np.sign(v)
    return "t_s,x_m,v_m_s,F_N\n" + table([times, x + 5e-4 * rng.normal(size=600), v, force])


def rubbing(rng):
    """A mass on a spring, 40/s^2, that dry friction of 0.3 m/s^2 has brought to rest after a third of the record."""
    times, stiffness, friction = np.arange(300) / 50, 40.0, 0.3
    x, since, end = np.zeros(times.size), 0.0, 0.12
    while abs(end) > friction / stiffness:
        centre = np.sign(end) * friction / stiffness
        x = np.where(times >= since, centre + (end - centre) * np.cos(np.sqrt(stiffness) * (times - since)), x)
        since, end = since + np.pi / np.sqrt(stiffness), 2 * centre - end
    x = 0.5 + np.where(times >= since, end, x)
    return "time[ms]\tposition[m]\n" + table([1e3 * times, x + 2e-4 * rng.normal(size=times.size)], "\t", 5)


def pendulum(rng):
    """Degrees of a swing by 0.5 rad, damped by 0.1/s, k = 16/s^2, about -20 degrees; every angle from 0 to 360."""
    times = np.arange(600) / 60
    equation = lambda t, y: [y[1], -16 * np.sin(y[0]) - 0.1 * y[1]]  # noqa: E731
    angle = np.degrees(solve_ivp(equation, (0, 10), [0.5, 0], t_eval=times, rtol=1e-9, atol=1e-9).y[0]) - 20
    return "Time (s);Angle (deg)\n" + table([times, (angle + 0.1 * rng.normal(size=600)) % 360], ";").replace(".", ",")


def block(rng):
    """A block that is pushed up to 2 m/s along a slope in the picture and slides to rest, slower by 2.5 m/s^2."""
    times = np.arange(160) / 100
    since, pushed = np.clip(times - 0.2, 0.0, 0.8), np.clip(times, 0.0, 0.2)
    way = 5 * pushed**2 + 2 * since - 1.25 * since**2
    places = np.stack([0.1 + 0.96 * way, 0.4 - 0.28 * way]) + 2e-4 * rng.normal(size=(2, 160))
    return "dt [ms],x [cm],y [cm]\n" + table([np.full(160, 10.0), *(100 * places)])


def impacts(rng):
    """Speeds of a ball before and after forty impacts: e = 0.75, each read to 0.01 m/s."""
    speed = 1 + 2 * rng.random(40)
    columns = np.stack([-speed, 0.75 * speed]) + 0.01 * rng.normal(size=(2, 40))
    return "v before [m/s];v after [m/s]\n" + table(columns, ";")


def thrown(rng):
    """A square of 100 mm that is thrown, tumbles and lies flat: e = 0.4, mu = 0.35; cm and degrees."""
    times = np.arange(120) / 100
    system = dc.systems.bodies(dc.shapes.Box(0.1, 0.1), 2, lambda t, params: (np.array([[0.0, 1.0]]), np.zeros(1)))
    params = {"restitution": 0.4, "friction": 0.35, "mass": np.ones(1), "gravity": np.array([0.0, -9.81])}
    start = np.array([0.0, 0.3, 0.4]), np.array([0.8, 0.5, -6.0])
    motion = dc.simulate(system, params, *start, times, scheme=dc.EventTimed(), substeps=8)
    assert motion.status == 0
    x, y, angle = np.asarray(motion.q).T + np.array([[5e-4], [5e-4], [5e-3]]) * rng.normal(size=(3, 120))
    return "t,x (cm),y (cm),angle (deg)\n" + table([np.asarray(times), 100 * x, 100 * y, np.degrees(angle)])
