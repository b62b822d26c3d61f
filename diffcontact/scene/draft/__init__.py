"""A scene to start from, drafted from a recording: what it holds, what may have been filmed, and the TOML for that."""

from diffcontact.scene.draft.scenes import draft
from diffcontact.scene.draft.survey import Survey, survey

__all__ = ["Survey", "draft", "survey"]
