"""What mkdocs adds to the pages: README, gallery, changelog, sources, executed notebooks, and equations as MathML."""

from __future__ import annotations

import hashlib
import html
import os
import re
import tempfile
from pathlib import Path

import jupytext
import latex2mathml.converter
import nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]
EXPERIMENTS = ROOT / "experiments"
# Documents of the project -> where the site has them.
DOCUMENTS = {
    "README.md": "index.md",
    "experiments/README.md": "gallery.md",
    ".github/CHANGELOG.md": "changelog.md",
    ".github/CONTRIBUTING.md": "contributing.md",
}
NOTEBOOKS = ("first_steps", "carts", "own_system", "all_devices", "sensitivities")
INSTALL = "%pip install -q 'diffcontact[report,ensemble]'"
_LINK = re.compile(r"(!?\[[^\]]*\])\((?!https?:|#)([^)#]*)(#[^)]*)?\)")
_EQUATION = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are made of other files."""
    sources: set[Path] = set()
    for document, page in DOCUMENTS.items():
        text = _linked((ROOT / document).read_text(encoding="utf-8"), (ROOT / document).parent, sources)
        files.append(File.generated(config, page, content=text))
    for picture in (EXPERIMENTS / "pictures").iterdir():
        files.append(File.generated(config, f"pictures/{picture.name}", abs_src_path=str(picture)))
    for name in NOTEBOOKS:
        notebook = _executed(EXPERIMENTS / f"{name}.py")
        files.append(File.generated(config, f"notebooks/{name}.ipynb", content=nbformat.writes(notebook)))
        files.append(File.generated(config, f"notebooks/{name}.md", content=_as_page(notebook, name)))
    for source in sorted(sources):
        language = {"py": "python", "cff": "yaml"}.get(source.suffix[1:], source.suffix[1:])
        content = f"# {source.name}\n\n```{language}\n{source.read_text(encoding='utf-8')}\n```\n"
        files.append(File.generated(config, _page_of(source), content=content))
    return files


def on_page_content(text: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Write equations as MathML, which browsers show without a script or a font of ours."""
    del page, config, files

    def mathml(found: re.Match[str]) -> str:
        kind = "block" if found[1] == "div" else "inline"
        return latex2mathml.converter.convert(html.unescape(found[2]).strip(), display=kind)

    return _EQUATION.sub(mathml, text)


def on_post_build(config: MkDocsConfig) -> None:
    """Take away the page for addresses that do not exist: its links need the address of the site."""
    (Path(config.site_dir) / "404.html").unlink()


def _linked(text: str, folder: Path, sources: set[Path]) -> str:
    """A document with its links as the site has them; sources that it names are added to the set."""

    def link(found: re.Match[str]) -> str:
        label, target, heading = found[1], (folder / found[2]).resolve(), found[3] or ""
        if target.is_relative_to(EXPERIMENTS / "pictures"):
            return f"{label}(pictures/{target.name})"
        if target.is_relative_to(EXPERIMENTS / "site" / "pages"):
            return f"{label}({target.relative_to(EXPERIMENTS / 'site' / 'pages').as_posix()}{heading})"
        name = target.relative_to(ROOT).as_posix()
        if name in DOCUMENTS:
            return f"{label}({DOCUMENTS[name]}{heading})"
        if target.stem in NOTEBOOKS:
            return f"{label}(notebooks/{target.stem}.md)"
        sources.add(target)
        return f"{label}({_page_of(target)})"

    return _LINK.sub(link, text)


def _page_of(source: Path) -> str:
    # A page in a folder that begins with a dot would not be built.
    return f"sources/{source.relative_to(ROOT).as_posix().lstrip('.')}.md"


def _executed(script: Path) -> nbformat.NotebookNode:
    """The notebook of a percent script, with its output, and with a first cell that installs what it needs.

    It is kept until the script or the package changes.
    """
    texts = [script, *sorted((ROOT / "diffcontact").rglob("*.py"))]
    kept = (
        ROOT
        / "out"
        / "notebooks"
        / f"{hashlib.sha256(b''.join(text.read_bytes() for text in texts)).hexdigest()}.ipynb"
    )
    if kept.exists():
        return nbformat.read(kept, as_version=4)
    notebook = jupytext.read(script)
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    with tempfile.TemporaryDirectory() as folder:
        path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
        environment = {**os.environ, "PYTHONPATH": path, "TF_CPP_MIN_LOG_LEVEL": "3"}
        client = NotebookClient(notebook, timeout=600, resources={"metadata": {"path": folder}})
        client.execute(env=environment)
    install = nbformat.v4.new_code_cell(INSTALL)
    notebook.cells.insert(1, install)
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(nbformat.writes(notebook), encoding="utf-8")
    return notebook


def _as_page(notebook: nbformat.NotebookNode, name: str) -> str:
    """A notebook as a page: its text, its code, and what it printed."""
    parts = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        printed = "".join(out.text for out in cell.outputs if out.output_type == "stream")
        if printed:
            parts.append(f"```text\n{printed.rstrip()}\n```")
    parts.insert(1, f"[This page as a notebook]({name}.ipynb), with its output.")
    if (EXPERIMENTS / "pictures" / f"{name}.png").exists():
        parts.append(f"![What it shows](../pictures/{name}.png)")
    return "\n\n".join(parts) + "\n"
