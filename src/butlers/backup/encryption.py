"""Encrypt the file of a backup with a passphrase, block by block.

The header holds the parameters of scrypt and a MAC that only the right passphrase reproduces. Each
block is sealed with ChaCha20-Poly1305 under a key of this file alone. The nonce is the number of
the block and whether it is the last, and the header is authenticated with it, so that a block that
is changed, moved, missing or added is refused before anything in it is used.
"""

import hashlib
import hmac
import io
import os
import struct
import unicodedata
from pathlib import Path
from typing import IO, Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from butlers.errors import InvalidInput

VARIABLE, ENDING = "BUTLERS_BACKUP_PASSPHRASE", ".enc"
BLOCK, SHORTEST = 64 * 1024, 12
_MAGIC = b"BUTLERS BACKUP\r\n"
# Magic, version, log2 of the cost, block size and parallelism of scrypt, salt.
_PLAIN = struct.Struct(">16sBBBB32s")
_TAG, _MAC = 16, 32
HEADER = _PLAIN.size + _MAC
# scrypt takes 128 MiB and about half a second. A header may ask for eight times that.
_VERSION, _COST, _MOST_COST, _SHAPE = 1, 17, 20, (8, 1)
_MOST_MEMORY = 2**31 - 1


def read_passphrase(file: Path) -> str:
    """Read a passphrase from the first line of a file; InvalidInput where there is none."""
    try:
        passphrase = file.expanduser().read_text("utf-8").partition("\n")[0].rstrip("\r")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"the passphrase file {file} cannot be read: {error}") from None
    if not passphrase:
        raise InvalidInput(f"the first line of {file} is empty; write the passphrase there")
    return passphrase


def is_encrypted(file: Path) -> bool:
    """Whether a file begins like an encrypted backup."""
    with file.open("rb") as stream:
        return stream.read(len(_MAGIC)) == _MAGIC


def _keyed(plain: bytes, passphrase: str) -> tuple[bytes, ChaCha20Poly1305]:
    """Return the header with its MAC, and the cipher of the file."""
    _, _, cost, size, parallel, salt = _PLAIN.unpack(plain)
    typed = unicodedata.normalize("NFKC", passphrase).encode()
    keys = hashlib.scrypt(
        typed, salt=salt, n=2**cost, r=size, p=parallel, maxmem=_MOST_MEMORY, dklen=64
    )
    return plain + hmac.digest(keys[32:], plain, "sha256"), ChaCha20Poly1305(keys[:32])


def _nonce(number: int, is_last: bool) -> bytes:
    return number.to_bytes(11, "big") + bytes([is_last])


class EncryptedWriter(io.RawIOBase):
    """Encrypt what is written into another file, which is complete only after `finish`."""

    def __init__(self, file: IO[bytes], passphrase: str) -> None:
        if len(passphrase) < SHORTEST:
            raise InvalidInput(f"the passphrase is too short: use {SHORTEST} characters or more")
        plain = _PLAIN.pack(_MAGIC, _VERSION, _COST, *_SHAPE, os.urandom(32))
        self._header, self._cipher = _keyed(plain, passphrase)
        self._file, self._waiting, self._number = file, bytearray(), 0
        file.write(self._header)

    def write(self, piece: Any) -> int:
        """Write all blocks but the last, which only `finish` knows."""
        self._waiting += piece
        while len(self._waiting) > BLOCK:
            self._write_block(False)
        return len(piece)

    def finish(self) -> None:
        """Write the last block."""
        self._write_block(True)

    def _write_block(self, is_last: bool) -> None:
        block = bytes(self._waiting[:BLOCK])
        del self._waiting[:BLOCK]
        nonce = _nonce(self._number, is_last)
        self._file.write(self._cipher.encrypt(nonce, block, self._header))
        self._number += 1


def decrypted(file: Path, passphrase: str) -> io.BufferedReader:
    """Open an encrypted file as what was written, holding one block in memory.

    InvalidInput, here or later, if the passphrase is wrong or the file truncated or changed.
    """
    if not passphrase:
        raise InvalidInput(
            f"{file} is encrypted: give its passphrase at a terminal, in {VARIABLE}, or with "
            "--passphrase-file"
        )
    return io.BufferedReader(_Decrypted(file, passphrase))


class _Decrypted(io.RawIOBase):
    def __init__(self, file: Path, passphrase: str) -> None:
        self._name, self._file, self._at, self._cached = file, file.open("rb"), 0, (-1, b"")
        self._header, self._cipher = self._checked(passphrase)
        sealed = self._file.seek(0, io.SEEK_END) - HEADER
        self._blocks = max(1, -(-sealed // (BLOCK + _TAG)))
        self._size = (self._blocks - 1) * BLOCK + len(self._block(self._blocks - 1))

    def _checked(self, passphrase: str) -> tuple[bytes, ChaCha20Poly1305]:
        header = self._file.read(HEADER).ljust(HEADER, b"\0")
        _, version, cost, *shape, _ = _PLAIN.unpack(header[:-_MAC])
        if (version, *shape) != (_VERSION, *_SHAPE) or not 0 < cost <= _MOST_COST:
            raise InvalidInput(
                f"{self._name} was encrypted by a newer butlers, or its header is damaged; upgrade "
                "butlers, or use another backup"
            )
        keyed = _keyed(header[:-_MAC], passphrase)
        if not hmac.compare_digest(keyed[0], header):
            raise InvalidInput(f"wrong passphrase for {self._name}, or its header is damaged")
        return keyed

    def _block(self, number: int) -> bytes:
        if self._cached[0] != number:
            self._file.seek(HEADER + number * (BLOCK + _TAG))
            sealed, is_last = self._file.read(BLOCK + _TAG), number == self._blocks - 1
            try:
                block = self._cipher.decrypt(_nonce(number, is_last), sealed, self._header)
            except InvalidTag:
                how = "changed, or the file is truncated" if is_last else "changed"
                raise InvalidInput(
                    f"{self._name} is damaged: block {number + 1} of {self._blocks} is {how}; use "
                    "another backup"
                ) from None
            self._cached = number, block
        return self._cached[1]

    def readable(self) -> bool:
        return True

    seekable = readable

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + (0, self._at, self._size)[whence]
        if self._at < 0:
            raise OSError("a position before the beginning")
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Read up to the end of a block, so that a whole one is checked before its first byte."""
        number, within = divmod(self._at, BLOCK)
        piece = self._block(number)[within:][: len(buffer)] if self._at < self._size else b""
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)

    def close(self) -> None:
        self._file.close()
        super().close()
