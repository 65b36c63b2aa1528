"""The `tollhouse` command: each file here is one command or one family of them."""

from tollhouse.cli.main import main

__all__ = ["main"]
