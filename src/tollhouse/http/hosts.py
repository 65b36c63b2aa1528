"""The headers `Host` and `Origin`: their syntax, and which of their values are this server's own."""

import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

from tollhouse.config.settings import Settings
from tollhouse.errors import Problem
from tollhouse.http.request import HttpRequest

_DEFAULT_PORTS = {"http": "80", "https": "443"}
_ORIGIN = re.compile(r"null|[a-z][a-z0-9+.-]*://\S+", re.IGNORECASE)


class OwnHosts:
    """The hosts of this server: of `public_url`, of `hosts`, of `allowed_hosts`, and the address it listens on.

    A browser that was led here by a name of another site (DNS rebinding) sends that name in `Host`.
    """

    def __init__(self, settings: Settings) -> None:
        public = urlsplit(settings.public_url.lower())
        self._public_origin = f"{public.scheme}://{public.netloc}" if public.netloc else ""
        self._authorities = {host.lower().removesuffix(".") for host in [*settings.hosts, *settings.allowed_hosts]}
        self._hosts = self._authorities | ({public.netloc, public.hostname or ""} if public.netloc else set())

    def is_own(self, request: HttpRequest) -> bool:
        """Whether `Host` is a host of this server."""
        host = request.header(b"host").lower()
        is_named = host in self._hosts or _name(host) in self._hosts
        return is_named or _is_listening_address(_name(host), request.listening)

    def check_host(self, request: HttpRequest) -> None:
        """Raises Problem `origin-not-allowed` unless `Host` is a host of this server."""
        if not self.is_own(request):
            raise Problem(
                "origin-not-allowed",
                "This `Host` is not one of this server's. The operator can add it to the setting `allowed_hosts`.",
                parameter="Host",
            )

    def check_same_origin(self, request: HttpRequest) -> None:
        """Raises Problem `origin-not-allowed` for a request that a page of another origin makes in a browser."""
        origin, host = request.header(b"origin").lower(), request.header(b"host").lower()
        is_elsewhere = request.header(b"sec-fetch-site") not in {"", "same-origin", "none"}
        if is_elsewhere or (origin and not self._is_own_origin(origin, host)):
            raise Problem(
                "origin-not-allowed",
                "A page of another origin made this request. It is open only to pages of this server.",
                parameter="Origin",
            )

    def check_browser(self, request: HttpRequest) -> None:
        """Let a page of any site call, but at a host of this server. Raises Problem `origin-not-allowed`.

        Programs other than browsers send no `Origin`.
        """
        origin = request.header(b"origin")
        if not origin:
            return
        if not _ORIGIN.fullmatch(origin):
            raise Problem("origin-not-allowed", "The header `Origin` is not an origin.", parameter="Origin")
        self.check_host(request)

    def is_https(self, request: HttpRequest) -> bool:
        """Whether the request was sent to `public_url`, and that is https."""
        return self._public_origin == f"https://{request.header(b'host').lower()}"

    def _is_own_origin(self, origin: str, host: str) -> bool:
        if origin == self._public_origin:
            return True
        scheme, _, authority = origin.partition("://")
        if scheme not in _DEFAULT_PORTS or self._public_origin == f"https://{authority}":
            # The last: a page that came over plain http from the host of an https server.
            return False
        return host in {authority, f"{authority}:{_DEFAULT_PORTS[scheme]}"} or authority in self._authorities


def _is_listening_address(name: str, listening: str) -> bool:
    """Whether a name is the address that the server listens on, or another spelling of this machine's own."""
    if name == listening:
        return True
    bound, named = _address(listening), _address(name)
    if bound is None:
        return False
    if bound.is_unspecified:
        # It listens on every address of the machine. An address, unlike a name, leads nowhere else.
        return named is not None or name == "localhost"
    return bound.is_loopback and (name == "localhost" or (named is not None and named.is_loopback))


def _name(host: str) -> str:
    """A host without its port: an address without brackets, a name without the dot at its end."""
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].removesuffix(".")


@lru_cache(maxsize=256)
def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None
