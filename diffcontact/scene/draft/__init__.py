"""Draft a scene from a recording: survey, candidates, TOML."""

from diffcontact.scene.draft.scenes import draft
from diffcontact.scene.draft.survey import Survey, survey

__all__ = ["Survey", "draft", "survey"]
