"""Docstrings of the project as Markdown and Google's style have it."""

import re

from griffe import Docstring, Extension, Object


class Examples(Extension):
    """`Example:` is a section of examples, and `::` before an indented block is a colon."""

    def on_object(self, *, obj: Object, **_) -> None:
        """Change the docstring of an object that was read."""
        if isinstance(obj.docstring, Docstring):
            text = re.sub(r"^( *)Example:$", r"\1Examples:", obj.docstring.value, flags=re.MULTILINE)
            obj.docstring.value = re.sub(r"::$", ":", text, flags=re.MULTILINE)
