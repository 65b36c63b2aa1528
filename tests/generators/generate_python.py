"""openapi-python-client makes a package of every document that is named: FOLDER NAME..."""

import sys
from pathlib import Path

from openapi_python_client import generate
from openapi_python_client.config import Config, ConfigFile, MetaType

folder, *names = sys.argv[1:]
for name in names:
    config = Config.from_sources(
        ConfigFile(post_hooks=[]),
        MetaType.NONE,
        Path(folder) / f"{name}.json",
        "utf-8",
        True,
        Path(folder) / "python" / f"opc_{name}",
    )
    for error in generate(config=config):
        sys.stdout.write(f"{name}: {error.header} {error.detail}\n")
