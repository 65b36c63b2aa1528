"""Runs Python samples one after the other in this process: jobs on standard input, their outcomes on standard output.

A job is {"source", "environment"}; an outcome is {"status", "shown"}, or {"failure"}.
"""

import json
import os
import sys
import traceback


def outcome(source: str, environment: dict[str, str]) -> dict[str, object]:
    shown: list[object] = []
    names: dict[str, object] = {"__name__": "__main__", "print": shown.append}
    os.environ.update(environment)
    try:
        exec(compile(source, "sample.py", "exec"), names)  # noqa: S102 - the documentation's own programs
    except Exception:  # noqa: BLE001 - the test reports any error
        return {"failure": traceback.format_exc()}
    return {"status": names["answer"].status_code, "shown": shown[0]}  # type: ignore[attr-defined]


if __name__ == "__main__":
    json.dump([outcome(**job) for job in json.load(sys.stdin)], sys.stdout)
