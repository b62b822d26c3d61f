"""Draft a scene from a recording: survey, candidates, TOML."""

from diffcontact.scene.draft.scenes import draft, draft_of_model
from diffcontact.scene.draft.survey import Survey, survey

__all__ = ["Survey", "draft", "draft_of_model", "survey"]
