"""A line at the end of the run: how many attempts of each class were made, and on how many deployments."""

from collections import Counter
from typing import Any

ATTEMPTS = "attempts"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    made: Counter[str] = Counter()
    for report in terminalreporter.getreports("passed"):
        for name, value in getattr(report, "user_properties", ()):
            if name == ATTEMPTS and report.when == "call":
                kind, count = value
                made[kind] += count
    if made:
        each = ", ".join(f"{kind} {count:,}" for kind, count in sorted(made.items()))
        terminalreporter.write_line(f"attacks: {sum(made.values()):,} attempts held: {each}")
