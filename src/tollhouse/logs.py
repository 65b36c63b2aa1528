"""Structured logs: one JSON object per line on standard error, with secrets masked."""

import logging
import re
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any

import structlog

_SECRET_FIELD = re.compile(r"secret|token|authorization|api_key|password|private|signature", re.IGNORECASE)
_SECRET_VALUE = re.compile(r"th_live_[0-9A-Za-z]+|whsec_[A-Za-z0-9+/=]+|(?<=://)[^/@\s:]*:[^/@\s]+(?=@)")


def configure(level: str) -> None:
    """Write log events of `level` and above to standard error, those of libraries included."""
    number = _number(level)
    _configure(number)
    logging.basicConfig(level=max(number, logging.WARNING), stream=sys.stderr, format="%(message)s", force=True)


def configure_events(level: str) -> None:
    """Write only our own events, inside an application that has its own logs, unless it configured structlog itself."""
    if not structlog.is_configured():
        _configure(_number(level))


def _number(level: str) -> int:
    return logging.getLevelNamesMapping()[level.upper()]


def _configure(number: int) -> None:
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _name_logger,
            redact,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def logger(name: str) -> Any:
    """The logger of one component; its name is the log key `logger`."""
    # `get_logger` accepts no initial value named `logger`: a processor renames the key.
    return structlog.get_logger(component=name)


def _name_logger(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    if "component" in event:
        event["logger"] = event.pop("component")
    return event


def redact(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
    """A structlog processor that masks secret fields, and secrets inside texts."""
    for name, value in event.items():
        event[name] = _without_secrets(name, value)
    return event


def masked(text: str) -> str:
    """The text with API keys and passwords in addresses replaced by `***`."""
    return _SECRET_VALUE.sub("***", text)


def _without_secrets(name: str, value: Any) -> Any:
    if _SECRET_FIELD.search(name):
        return "***"
    if isinstance(value, Mapping):
        return {str(key): _without_secrets(str(key), item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_without_secrets("", item) for item in value]
    if isinstance(value, bytes):
        return masked(value.decode("utf-8", "replace"))
    return masked(value) if isinstance(value, str) else value
