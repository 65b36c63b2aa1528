"""The operator's access: the token, the one-time login links, and the sessions that they open in a browser.

A session is signed with the token, so that every process knows it. A link's code is a file: deleting it uses it up,
which only one process can do.
"""

import hmac
import re
import secrets
from hashlib import sha256
from pathlib import Path

from tollhouse import clock
from tollhouse.config.settings import SettingError, Settings
from tollhouse.errors import Problem
from tollhouse.http.hosts import OwnHosts
from tollhouse.http.request import HttpRequest
from tollhouse.http.terms import OperatorSetting
from tollhouse.storage.secret_box import make_secret_file, write_secret_file

TOKEN_FILE = "operator-token"  # noqa: S105 - a file's name
CODES_FOLDER = "operator-logins"
COOKIE = "tollhouse_operator"
CODE_SECONDS = 3_600
SESSION_SECONDS = 43_200

_TOKEN = re.compile(r"[!-~]{20,}")


class OperatorAccess:
    """Decides whether a request is the operator's."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._folder = Path(settings.data_dir)
        self._token = settings.operator_token
        self.hosts = OwnHosts(settings)

    def make_token(self) -> bool:
        """Make the token if the settings name none and there is none yet; return whether it was made."""
        if self._token or (self._folder / TOKEN_FILE).exists():
            return False
        return make_secret_file(self._folder / TOKEN_FILE, secrets.token_urlsafe(32))

    @property
    def token(self) -> str:
        """The operator's token. Raises SettingError if the file with it is damaged."""
        if not self._token:
            self.make_token()
            file = self._folder / TOKEN_FILE
            file.chmod(0o600)
            token = file.read_text("utf-8").strip()
            if not _TOKEN.fullmatch(token):
                raise SettingError(
                    f"operator_token: {file} holds no token of at least 20 characters. Delete it for a new one"
                )
            self._token = token
        return self._token

    def check(self, request: HttpRequest, setting: OperatorSetting) -> None:
        """Require the operator's token as a Bearer token, or the session of a browser at a host of this server.

        Raises Problem `missing-credentials` or `origin-not-allowed`.
        """
        self.hosts.check_same_origin(request)
        scheme, _, sent = request.header(b"authorization").partition(" ")
        expected = self._settings.x402_facilitator_auth if setting == "x402_facilitator_auth" else ""
        if scheme.lower() == "bearer" and hmac.compare_digest(sent.strip().encode(), (expected or self.token).encode()):
            return
        if setting == "operator_token":
            self.hosts.check_host(request)
            if self.session_end(request) is not None:
                return
        raise Problem(
            "missing-credentials",
            f"This endpoint is for the operator: send `{setting}` as a Bearer token.",
            headers={"WWW-Authenticate": "Bearer"},
        )

    def session_end(self, request: HttpRequest) -> float | None:
        """When the request's session ends, in seconds since 1970; None without a valid session."""
        return max((end for end in map(self._end_of, _cookies(request)) if end > clock.seconds()), default=None)

    def new_session(self, request: HttpRequest) -> tuple[str, float]:
        """The `Set-Cookie` of a new session, and when it ends in seconds since 1970."""
        expires_at = int(clock.seconds()) + SESSION_SECONDS
        payload = f"{expires_at}.{secrets.token_hex(16)}"
        value = f"{payload}.{self._signature(payload)}"
        return self._cookie(request, value, SESSION_SECONDS), expires_at

    def end_session(self, request: HttpRequest) -> str:
        """The `Set-Cookie` that deletes the session from the browser."""
        return self._cookie(request, "", 0)

    def new_login_link(self, root: str = "") -> str:
        """A link that opens the operator's pages at `root` once, within the hour."""
        folder = self._folder / CODES_FOLDER
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for file in folder.iterdir():
            if _expiry(file) < clock.seconds():
                file.unlink(missing_ok=True)
        # 96 bits for an hour, and short enough for a line of a terminal.
        code = secrets.token_urlsafe(12)
        write_secret_file(folder / _code_name(code), str(int(clock.seconds()) + CODE_SECONDS))
        return f"{root or operator_root(self._settings)}/operator/login?code={code}"

    def use_code(self, code: str) -> bool:
        """Use a link's code up; return whether it was valid."""
        file = self._folder / CODES_FOLDER / _code_name(code)
        expiry = _expiry(file)
        try:
            file.unlink()
        except FileNotFoundError:
            return False
        return expiry >= clock.seconds()

    def _cookie(self, request: HttpRequest, value: str, seconds: int) -> str:
        secure = "; Secure" if self.hosts.is_https(request) else ""
        return f"{COOKIE}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"

    def _end_of(self, value: str) -> float:
        payload, _, signature = value.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._signature(payload).encode()):
            return 0.0
        return float(payload.partition(".")[0])

    def _signature(self, payload: str) -> str:
        return hmac.digest(self.token.encode(), f"operator session {payload}".encode(), sha256).hex()


def operator_root(settings: Settings) -> str:
    """The URL of the listener that has the operator's pages."""
    return f"http://{settings.operator_listen}" if settings.operator_listen else settings.root_url


def _cookies(request: HttpRequest) -> list[str]:
    """The values of every cookie with the session's name: another server of this machine may have set one, too."""
    pairs = (part.partition("=") for part in re.split("[;,]", request.header(b"cookie")))
    return [value.strip() for name, _, value in pairs if name.strip() == COOKIE]


def _code_name(code: str) -> str:
    return sha256(code.encode()).hexdigest()


def _expiry(file: Path) -> float:
    try:
        return float(file.read_text("ascii"))
    except (FileNotFoundError, ValueError):
        return 0.0
