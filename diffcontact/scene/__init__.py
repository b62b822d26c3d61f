"""Read a TOML scene and CSV files: system, parameters, prepared runs.

Every reader here raises a ValueError of one line that names the file, and the key, or row and column.
"""

from diffcontact.scene.document import Scene, parse_scene, read_scene
from diffcontact.scene.study import Study, read_study

__all__ = ["Scene", "Study", "parse_scene", "read_scene", "read_study"]
