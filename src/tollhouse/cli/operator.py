"""`tollhouse operator`: a link that opens the operator's pages."""

from typing import Annotated

from cyclopts import Parameter

from tollhouse.admission.operator_access import OperatorAccess
from tollhouse.cli.options import DEFAULTS, CommonOptions


def operator(
    *,
    url: Annotated[str | None, Parameter(help="URL of the server (default: operator_listen, public_url)")] = None,
    common: CommonOptions = DEFAULTS,
) -> None:
    """Print a link that logs the operator in once, within the hour, on a server with the same data directory."""
    print(OperatorAccess(common.settings()).new_login_link((url or "").rstrip("/")))
