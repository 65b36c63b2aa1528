"""Check the files for Prometheus in deploy/, and the queries of the dashboard, with promtool, a part of Prometheus."""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

DEPLOY = Path(__file__).parents[1] / "deploy"
RULES, DASHBOARD = DEPLOY / "prometheus" / "alerts.yaml", DEPLOY / "grafana" / "tollhouse.json"
# Grafana fills these in.
VARIABLES = {"$__rate_interval": "5m", "$__range": "1h", "$instance": ".*", "$service": ".*"}


def dashboard_rules() -> str:
    """The queries of the dashboard as recording rules, which promtool can read."""
    rules = []
    for panel in json.loads(DASHBOARD.read_text("utf-8"))["panels"]:
        for target in panel.get("targets", ()):
            query = re.sub(r"\$\w+", lambda variable: VARIABLES[variable[0]], target["expr"])
            rules.append({"record": f"panel_{panel['id']}:{target['refId']}", "expr": query})
    return yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]})


def main() -> int:
    promtool = shutil.which("promtool")
    if promtool is None:
        print("promtool is not installed (on Debian and Ubuntu: apt install prometheus): nothing was checked")
        return 1
    config = [promtool, "check", "config", "--syntax-only", RULES.with_name("prometheus.yaml")]
    if status := subprocess.run(config, check=False).returncode:  # noqa: S603 - ours
        return status
    with tempfile.TemporaryDirectory() as folder:
        queries = Path(folder) / "dashboard.yaml"
        queries.write_text(dashboard_rules(), "utf-8")
        return subprocess.run([promtool, "check", "rules", RULES, queries], check=False).returncode  # noqa: S603 - ours


if __name__ == "__main__":
    sys.exit(main())
