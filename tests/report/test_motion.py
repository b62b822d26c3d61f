"""Shapes along a course: tracks of what moves, and measured shapes as displacements."""

import jax.numpy as jnp
import numpy as np
import pytest

from diffcontact.drawing import (
    Ball,
    Beads,
    Drawing,
    Ellipse,
    Line,
    Polygon,
    Polyhedron,
    Spring,
    Wall,
    drawing_of,
    rectangle,
)
from diffcontact.report.motion import motion

T = np.linspace(0.0, 1.0, 9)
Q = np.stack([T, T**2], axis=1)
PARAMS = {"radius": 0.1}


def scene(t, q, params):
    return (
        Ball(q, params["radius"]),
        Polygon(rectangle(0.2, 0.1), q, 3.0 * t),
        Ellipse(q, np.array([0.2, 0.1]), q[0]),
        Line(jnp.stack([np.zeros(2), q])),
        Spring(np.zeros(2), q),
        Wall(np.array([0.0, 1.0]), -0.1),
    )


def test_what_stands_still_is_one_row_and_what_moves_is_a_track():
    made = motion(Drawing(scene), PARAMS, T, Q)
    ball, box, ellipse, line, spring, wall = made.shapes
    assert (made.dimension, ball.static["count"]) == (2, 1)
    np.testing.assert_allclose(ball.fields["centre"], Q)
    np.testing.assert_allclose(ball.fields["radius"], [[0.1]])
    np.testing.assert_allclose(box.fields["turn"][:, 0], 3 * T)
    assert box.fields["corners"].shape == (1, 8)
    np.testing.assert_allclose(ellipse.fields["turn"][:, 0], Q[:, 0])
    np.testing.assert_allclose(line.fields["points"], np.hstack([np.zeros_like(Q), Q]))
    assert spring.fields["start"].shape == (1, 2)
    assert all(len(rows) == 1 for rows in wall.fields.values())


def test_measured_shapes_are_displaced_and_scenery_is_not(rng):
    seen = Q + 1e-3 * rng.normal(size=Q.shape)
    seen[4] = np.nan
    made = motion(Drawing(scene), PARAMS, T, Q, (T, Q, seen))
    ball, box, *_, wall = made.shapes
    np.testing.assert_allclose(ball.offsets["centre"], seen - Q)
    assert set(ball.offsets) == {"centre"}
    assert set(box.offsets) == {"place"}
    assert wall.offsets == {}


def test_a_drawing_in_plain_python_is_drawn_row_by_row():
    def plain(t, q, params):
        return [Ball(np.array([float(q[0]), 1.0 if float(t) > 0.5 else 0.0]))]

    (ball,) = motion(Drawing(plain), PARAMS, T, Q).shapes
    np.testing.assert_allclose(ball.fields["centre"], np.stack([T, T > 0.5], axis=1))


def test_bodies_in_space_keep_their_faces():
    corners = np.array([[0.0, 0, 0], [1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]])
    faces = ((0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3))

    def tumbling(t, q, params):
        half = 2.0 * t
        turn = jnp.stack([jnp.cos(half), 0.0 * t, 0.0 * t, jnp.sin(half)])
        return (Polyhedron(corners, jnp.append(q, 1.0), turn, faces),)

    (body,) = motion(Drawing(tumbling), {}, T, Q).shapes
    assert body.static == {"faces": [(0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3)]}
    np.testing.assert_allclose(np.linalg.norm(body.fields["turn"], axis=1), 1.0, rtol=1e-12)


def test_a_system_of_which_nothing_is_known_is_beads():
    made = motion(drawing_of(None), {}, T, Q)
    assert (made.dimension, made.shapes[0].kind) == (0, "beads")
    np.testing.assert_allclose(made.shapes[0].fields["values"], Q)


@pytest.mark.parametrize(
    ("draw", "complaint"),
    [
        (lambda t, q, p: 3.0, "expected shapes"),
        (lambda t, q, p: [q], "expected shapes"),
        (lambda t, q, p: [Ball(q), Ball(np.zeros(3))], "dimensions"),
        (lambda t, q, p: [Ball(np.zeros((1 + (float(t) > 0.5), 2)))], "keep their sizes"),
        (lambda t, q, p: [Ball(np.zeros(2))] * (1 + (float(t) > 0.5)), "the same shapes"),
        (lambda t, q, p: [Beads(q), Ball(q)], "dimensions"),
    ],
)
def test_what_is_no_drawing_is_refused_in_a_line(draw, complaint):
    with pytest.raises(ValueError, match=f"draw: .*{complaint}"):
        motion(Drawing(draw), {}, T, Q)
