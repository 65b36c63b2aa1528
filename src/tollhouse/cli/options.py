"""The options every command takes."""

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Parameter

from tollhouse import app
from tollhouse.config.settings import Settings


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Where:
    """Where the settings and the data are."""

    config: Annotated[str | None, Parameter(help="Settings file (default: tollhouse.toml here, if there is one)")] = (
        None
    )
    data_dir: Annotated[str | None, Parameter(help="Folder of the embedded databases (default: data)")] = None

    def settings(self, **overrides: object) -> Settings:
        """The settings in force. Raises SettingError."""
        return app.load_settings(self.config, data_dir=self.data_dir, **overrides)


HERE = Where()
