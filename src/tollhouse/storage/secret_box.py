"""Encryption of secrets at rest with a key of the settings or of a file in `data_dir`, and files with secrets."""

import os
import secrets
from base64 import b64decode, b64encode
from functools import lru_cache
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from tollhouse.config.settings import Settings

KEY_BYTES, NONCE_BYTES = 32, 12
KEY_FILE = "encryption.key"
PREFIX = "enc1:"
REMEMBERED = 4_096


class UnreadableSecretError(Exception):
    """A stored secret was encrypted with another key, or belongs to another row."""


class SecretBox:
    """Encrypts and decrypts secrets of rows. The key is read, or made, when it is first needed."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._open = lru_cache(REMEMBERED)(self._decrypt)

    def seal(self, secret: str, row_id: str) -> str:
        """The encrypted secret, bound to the row with this id."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        encrypted = ChaCha20Poly1305(self._key()).encrypt(nonce, secret.encode(), row_id.encode())
        return PREFIX + b64encode(nonce + encrypted).decode()

    def open(self, sealed: str, row_id: str) -> str:
        """The secret; one that an earlier version stored in clear as it is. Raises UnreadableSecretError."""
        return self._open(sealed, row_id) if self.is_sealed(sealed) else sealed

    def is_sealed(self, text: str) -> bool:
        return text.startswith(PREFIX)

    def _decrypt(self, sealed: str, row_id: str) -> str:
        try:
            packed = b64decode(sealed.removeprefix(PREFIX), validate=True)
            nonce, encrypted = packed[:NONCE_BYTES], packed[NONCE_BYTES:]
            plain = ChaCha20Poly1305(self._key()).decrypt(nonce, encrypted, row_id.encode())
        except (ValueError, InvalidTag):
            raise UnreadableSecretError(
                "a stored secret cannot be decrypted: `encryption_key`, or the file "
                f"{KEY_FILE} in `data_dir`, is not the one it was encrypted with"
            ) from None
        return plain.decode()

    def _key(self) -> bytes:
        if self._settings.encryption_key:
            return bytes.fromhex(self._settings.encryption_key)
        path = Path(self._settings.data_dir) / KEY_FILE
        if not path.exists():
            make_secret_file(path, secrets.token_hex(KEY_BYTES))
        key = bytes.fromhex(path.read_text("ascii").strip())
        if len(key) != KEY_BYTES:
            raise ValueError(f"{path} must hold {KEY_BYTES * 2} hexadecimal digits")
        return key


def make_secret_file(path: Path, text: str) -> bool:
    """Write a new file, which is complete when it appears; False if another process did at the same time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{secrets.token_hex(8)}.partial")
    write_secret_file(partial, text)
    try:
        # Unlike a rename, this never replaces the file of a process that was first.
        os.link(partial, path)
    except FileExistsError:
        return False
    finally:
        partial.unlink()
    return True


def write_secret_file(path: Path, text: str) -> None:
    """Write a new file that only its owner can read."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
