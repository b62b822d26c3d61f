"""Which room of the package knows which: read from the imports, nothing is run."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "diffcontact"


def modules(nodes=ast.walk):
    """Name -> what the module imports from the package, names and modules alike, wherever in the file it stands."""
    for file in PACKAGE.rglob("*.py"):
        parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
        imports = [node for node in nodes(ast.parse(file.read_text())) if isinstance(node, ast.ImportFrom)]
        yield (
            ".".join(parts).removesuffix(".__init__"),
            {f"{node.module}.{alias.name}" for node in imports for alias in node.names},
        )


def outside_functions(tree):
    """All nodes but those within functions; those for annotations only are among them."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
            yield from outside_functions(node)


def room(name):
    """Of a module, or of something in it: a folder of the package or a file beside the folders; None: the package."""
    parts = name.split(".")
    inside = parts[0] == "diffcontact" and len(parts) > 1
    return parts[1] if inside and any((PACKAGE / path).exists() for path in (parts[1], f"{parts[1]}.py")) else None


@pytest.fixture(scope="module")
def known():
    """Room -> the rooms that it knows."""
    found = {}
    for name, imports in modules():
        if own := room(name):
            found.setdefault(own, set()).update({room(imported) for imported in imports} - {None, own})
    return found


def test_no_circle(known):
    order = list(TopologicalSorter(known).static_order())
    assert order.index("system") < order.index("simulate") < order.index("identify") < order.index("commands")


def test_no_module_needs_itself():
    """Each can be imported first: an import within a function waits until all are there."""
    found = dict(modules(outside_functions))
    known = {
        name: {imported if imported in found else imported.rpartition(".")[0] for imported in imports}
        & found.keys() - {name}
        for name, imports in found.items()
    }
    order = list(TopologicalSorter(known).static_order())
    assert order.index("diffcontact.system") < order.index("diffcontact.simulate")


def test_results_are_shown_without_a_scene(known):
    assert {"course", "motion", "page"} <= {file.stem for file in (PACKAGE / "report").glob("*.py")}
    assert not known["report"] & {"identify", "simulate", "scene", "commands"}


def test_numerics_and_the_host_know_no_mechanics(known):
    assert not known.get("numerics", set()) | known.get("host", set())


def test_the_library_does_not_know_its_commands(known):
    assert {name for name, others in known.items() if "commands" in others} == {"__main__"}
    assert {name for name, others in known.items() if "scene" in others} == {"commands"}
