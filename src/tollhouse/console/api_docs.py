"""The page that lets a person read and try a service's operations: Swagger UI, from this server's own files."""

from pathlib import Path

from tollhouse.http.endpoint import Endpoint
from tollhouse.http.service_endpoints import file_operation

_HERE = Path(__file__).parent
_VENDOR = _HERE / "vendor" / "swagger-ui"
_ALLOWED = (
    b"default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_POLICY = ((b"content-security-policy", _ALLOWED), (b"referrer-policy", b"no-referrer"))


def api_docs_pages() -> list[Endpoint]:
    """`/docs` and the files it needs, relative to wherever the service is mounted."""
    return [
        file_operation("/docs", _HERE / "pages" / "api-docs.html", "text/html; charset=utf-8", _POLICY),
        file_operation("/docs/start.js", _HERE / "pages" / "api-docs.js", "text/javascript; charset=utf-8"),
        file_operation("/docs/theme.js", _HERE / "pages" / "api-docs-theme.js", "text/javascript; charset=utf-8"),
        file_operation("/docs/page.css", _HERE / "pages" / "api-docs.css", "text/css; charset=utf-8"),
        file_operation("/docs/swagger-ui.css", _VENDOR / "swagger-ui.css", "text/css; charset=utf-8"),
        file_operation("/docs/swagger-ui.js", _VENDOR / "swagger-ui-bundle.js", "text/javascript; charset=utf-8"),
    ]
