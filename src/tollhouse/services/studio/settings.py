"""The studio service's settings."""

from dataclasses import dataclass

from tollhouse.config.section import Section, setting


@dataclass(frozen=True, kw_only=True)
class StudioSettings(Section):
    """Studio service."""

    studio_file: str = setting("", "File with the studio's catalogue; empty: the bundled demo studio")
