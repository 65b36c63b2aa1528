"""Write the software bill of materials (CycloneDX 1.6, JSON), as `make sbom` does from the output of `cyclonedx-py`.

That document lists the server's locked Python packages with their hashes. This adds the packages of npm that the local
chain is made of, from their lock file, and the JavaScript and map data that this repository contains.
"""

import json
import sys
from base64 import b64decode
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
NPM_LOCK = ROOT / "src/tollhouse/payments/chain/npm/package-lock.json"
VENDORED = ROOT / "src/tollhouse/console/vendor"
ALGORITHMS = {"sha512": "SHA-512", "sha384": "SHA-384", "sha256": "SHA-256"}

Component = dict[str, Any]


def npm_components(lock: Path) -> Iterator[Component]:
    """The packages of a `package-lock.json`: optional ones, and excluded ones that only development needs."""
    for path, package in json.loads(lock.read_text("utf-8"))["packages"].items():
        if not path:
            continue
        name, version = path.rpartition("node_modules/")[2], package["version"]
        algorithm, _, digest = package["integrity"].partition("-")
        yield {
            **_library(name, version, f"pkg:npm/{name.replace('@', '%40')}@{version}"),
            "scope": "excluded" if package.get("dev") else "optional",
            "hashes": [{"alg": ALGORITHMS[algorithm], "content": b64decode(digest).hex()}],
        }


def vendored_components(folder: Path) -> Iterator[Component]:
    """The packages of npm whose files this repository contains, each with its files and their hashes."""
    for package in sorted(path for path in folder.iterdir() if path.is_dir()):
        version = (package / "VERSION").read_text("utf-8").strip()
        files = [path for path in sorted(package.iterdir()) if path.suffix in {".js", ".css", ".json"}]
        yield {
            **_library(package.name, version, f"pkg:npm/{package.name}@{version}?vendored=true"),
            "components": [
                {
                    "type": "file",
                    "name": path.relative_to(ROOT).as_posix(),
                    "hashes": [{"alg": "SHA-256", "content": sha256(path.read_bytes()).hexdigest()}],
                }
                for path in files
            ],
        }


def merge(document: dict[str, Any], components: list[Component]) -> dict[str, Any]:
    """The document with more components, and a reference to each."""
    document["components"] = [*document["components"], *components]
    document["dependencies"] = [*document.get("dependencies", []), *({"ref": one["bom-ref"]} for one in components)]
    return document


def _library(name: str, version: str, purl: str) -> Component:
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}


def main() -> None:
    document = merge(json.load(sys.stdin), [*npm_components(NPM_LOCK), *vendored_components(VENDORED)])
    print(json.dumps(document, indent=2))


if __name__ == "__main__":
    main()
