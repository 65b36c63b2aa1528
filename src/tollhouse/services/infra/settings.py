"""The infra service's settings."""

from dataclasses import dataclass

from tollhouse.config.section import PositiveInt, Section, setting


@dataclass(frozen=True, kw_only=True)
class InfraSettings(Section):
    """Infra service."""

    infra_chat_per_minute: PositiveInt = setting(30, "Questions one client address can ask the assistant in a minute")
