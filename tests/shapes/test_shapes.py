"""Shapes: their inertia, the nearest points of their surfaces, and what is drawn of them."""

from functools import partial

import jax
import numpy as np
import pytest

from diffcontact import shapes


def nearest(shape, points):
    """The `Nearest` of each point (n, m), and the slope of its distance (n, m)."""
    return jax.tree.map(np.asarray, _nearest(shape, points))


@partial(jax.jit, static_argnums=0)
def _nearest(shape, points):
    return jax.vmap(shape.nearest)(points), jax.vmap(jax.grad(lambda x: shape.nearest(x).distance))(points)


KITE = [[0.3, 0.0], [0.0, 0.2], [-0.1, 0.0], [0.0, -0.2]]
CORNERS = 2 * np.indices((2, 2, 2)).reshape(3, -1).T - 1


def test_homogeneous_bodies_have_the_inertia_of_textbooks():
    box = shapes.Polygon(shapes.Box(0.4, 0.2).vertices[[0, 1, 3, 2]])
    np.testing.assert_allclose(box.inertia(2), shapes.Box(0.4, 0.2).inertia(2), rtol=1e-14)
    np.testing.assert_allclose(shapes.Box(0.4, 0.2).inertia(2), (0.4**2 + 0.2**2) / 12, rtol=1e-15)
    # An equilateral triangle of side s: m s^2 / 12, whichever way round.
    triangle = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])
    for turned in (triangle, triangle[::-1]):
        np.testing.assert_allclose(shapes.Polygon(turned).centred().inertia(2), 1 / 12, rtol=1e-14)
    sides = np.array([0.4, 0.2, 0.1])
    moments = (np.sum(sides**2) - sides**2) / 12
    np.testing.assert_allclose(shapes.Box(sides).inertia(3), moments, rtol=1e-14)
    block = shapes.Polyhedron(CORNERS * sides / 2 + [0.3, 0.1, -0.2]).centred()
    np.testing.assert_allclose(block.inertia(3), np.diag(moments), atol=1e-16)
    np.testing.assert_allclose(block.volume, np.prod(sides), rtol=1e-14)
    # A tetrahedron with three right angles: its moments follow from those of the coordinates, each a beta distribution.
    tetrahedron = shapes.Polyhedron(np.vstack([np.zeros(3), np.eye(3)])).centred()
    np.testing.assert_allclose(tetrahedron.inertia(3), np.full((3, 3), 1 / 80) + np.eye(3) / 16, rtol=1e-13)
    np.testing.assert_allclose(
        shapes.Ellipsoid(0.3, 0.3, 0.3).inertia(3), [shapes.Ball(0.3).inertia(3)] * 3, rtol=1e-15
    )
    np.testing.assert_allclose(shapes.Ellipse(0.3, 0.3).inertia(2), shapes.Ball(0.3).inertia(2), rtol=1e-15)
    assert np.ndim(shapes.Box(0.1, 0.1, 0.1).inertia(3)) == 0


@pytest.mark.parametrize(
    ("shape", "surface"),
    [
        (shapes.Polygon(KITE), "edges"),
        (shapes.Polygon(KITE[::-1]), "edges"),
        (shapes.Box(0.4, 0.3), "box"),
        (shapes.Box(0.4, 0.3, 0.2), "box"),
    ],
    ids=["polygon", "polygon the other way round", "rectangle", "cuboid"],
)
def test_the_nearest_point_is_that_of_a_densely_sampled_surface(shape, surface):
    if surface == "edges":
        ends = np.asarray(shape.vertices)
        share = np.linspace(0, 1, 4001)[:, None]
        samples = np.concatenate([a + share * (b - a) for a, b in zip(ends, np.roll(ends, -1, 0), strict=True)])
    else:
        half = np.asarray(shape.sides) / 2
        samples = []
        for axis in range(len(half)):
            others = [np.linspace(-h, h, 201) for k, h in enumerate(half) if k != axis]
            grid = np.stack(np.meshgrid(*others, indexing="ij"), -1).reshape(-1, len(half) - 1)
            samples += [np.insert(grid, axis, side * half[axis], axis=1) for side in (-1, 1)]
        samples = np.concatenate(samples)
    points = np.random.default_rng(0).uniform(-0.3, 0.3, (60, samples.shape[1]))
    found, slope = nearest(shape, points)
    distance = np.min(np.linalg.norm(points[:, None] - samples[None], axis=2), axis=1)
    # Samples are up to 1e-3 apart in each direction; so far off is a point close to the surface.
    np.testing.assert_allclose(np.abs(found.distance), distance, atol=1.5e-3)
    np.testing.assert_allclose(points - found.foot, found.distance[:, None] * found.outwards, atol=1e-15)
    np.testing.assert_allclose(np.linalg.norm(found.outwards, axis=1), 1, rtol=1e-14)
    assert 2 < np.sum(found.distance < 0) < 57
    # The distance grows along the outward direction: its gradient, also where no derivative of a norm exists.
    np.testing.assert_allclose(slope, found.outwards, atol=1e-12)
    _, at_foot = nearest(shape, np.broadcast_to(found.foot[0], points.shape))
    assert np.all(np.isfinite(at_foot))


def test_outlines_are_the_edges():
    cube = shapes.Box(0.2, 0.2, 0.2)
    for shape in (cube, shapes.Polyhedron(cube.vertices)):
        lines = shapes.outline(shape)
        lengths = np.linalg.norm(np.diff(lines.vertices[lines.edges], axis=1), axis=2)
        np.testing.assert_allclose(lengths, np.full((12, 1), 0.2), rtol=1e-14)
    kite = shapes.outline(shapes.Polygon(KITE))
    np.testing.assert_array_equal(kite.vertices[kite.edges[:, 1]], np.roll(KITE, -1, axis=0))
    egg = shapes.outline(shapes.Ellipsoid(0.3, 0.2, 0.1), points=12)
    np.testing.assert_allclose(np.sum((egg.vertices / [0.3, 0.2, 0.1]) ** 2, axis=1), 1, rtol=1e-14)
    assert shapes.outline(shapes.Ball(0.1), 3, points=8).edges.shape == (24, 2)


@pytest.mark.parametrize(
    ("line", "make"),
    [
        (r"Box\(\*sides\): expected positive lengths, got \[0\.1, 0\.0\]", lambda: shapes.Box(0.1, 0.0)),
        (r"Box\(\*sides\): expected 2 or 3 lengths, got 4", lambda: shapes.Box(1, 1, 1, 1)),
        (r"Ellipse\(\*semi_axes\): expected 2 lengths, got 3", lambda: shapes.Ellipse(1, 1, 1)),
        (r"Ball\(radius\): expected a number, got shape \(2,\)", lambda: shapes.Ball([1.0, 2.0])),
        (r"Ball\(radius\): expected lengths, got 'big'", lambda: shapes.Ball("big")),
        (r"Polygon\(vertices\): expected finite lengths", lambda: shapes.Polygon([[0, 0], [1, 0], [0, np.nan]])),
        (
            r"Polygon\(vertices\): expected at least 3 points of 2, got shape \(2, 2\)",
            lambda: shapes.Polygon(np.eye(2)),
        ),
        (r"Polygon\(vertices=.*\): expected an area, got 0", lambda: shapes.Polygon([[0, 0], [1, 1], [2, 2]])),
        (
            r"Polyhedron\(vertices=.*\): expected points not in one plane",
            lambda: shapes.Polyhedron(np.eye(4, 3) * [1, 1, 0]),
        ),
        (r"Polygon: the homogeneous.*expected at the origin", lambda: shapes.Polygon(np.add(KITE, 1)).inertia(2)),
        (r"Polyhedron: the homogeneous.*expected at the origin", lambda: shapes.Polyhedron(np.eye(4, 3)).inertia(3)),
    ],
)
def test_shapes_that_make_no_sense_are_refused(line, make):
    with pytest.raises(ValueError, match=line) as error:
        make()
    assert "\n" not in str(error.value)
