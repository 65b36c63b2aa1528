"""Right answers to questions about each service, worked out from the plain rows of its API.

Independent of the engine that answers questions: nothing here imports `tollhouse`.
"""

import json
from pathlib import Path
from typing import Any

from tools.question_gold import defense, infra, mattress
from tools.question_gold.evaluation import Names, evaluate

SERVICES = {"infra": infra, "defense": defense, "mattress": mattress}

__all__ = ["SERVICES", "evaluate", "load_names", "load_rows"]


def load_rows(service: str, source: str, key: str | None = None) -> Any:
    """The plain rows of a service: from the base URL of a server, or from a file that holds them as JSON."""
    if source.startswith(("http://", "https://")):
        return SERVICES[service].fetch_rows(f"{source.rstrip('/')}/{service}", key)
    return json.loads(Path(source).read_text(encoding="utf-8"))


def load_names(service: str, source: str, key: str | None = None) -> Names:
    """Everything that a gold expression about the service may name."""
    return SERVICES[service].names(load_rows(service, source, key))
