"""Receipts: what was erased, when and for whom, signed with a key that never leaves the home."""

import base64
import contextlib
import json
import os
from datetime import datetime
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from butlers.atomic_files import draft_of
from butlers.errors import InvalidInput
from butlers.host.home import Home

_SIGNED_BY, _SIGNATURE = "signed_by", "signature"


def signed(home: Home, told: dict[str, Any], now: datetime) -> dict[str, Any]:
    """A receipt of what is told."""
    key = _key(home)
    public = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    receipt = {"receipt": "butlers-erasure", "version": 1, "at": now.isoformat(), **told}
    receipt[_SIGNED_BY] = f"ed25519:{base64.b64encode(public).decode()}"
    signature = key.sign(_canonical(receipt))
    return {**receipt, _SIGNATURE: base64.b64encode(signature).decode()}


def verify(home: Home, receipt: Any) -> str:
    """In words whose receipt it is; InvalidInput where it is nobody's, or was changed."""
    try:
        told = {name: value for name, value in receipt.items() if name != _SIGNATURE}
        public = base64.b64decode(told[_SIGNED_BY].removeprefix("ed25519:"), validate=True)
        signature = base64.b64decode(receipt[_SIGNATURE], validate=True)
        Ed25519PublicKey.from_public_bytes(public).verify(signature, _canonical(told))
    except (KeyError, ValueError, TypeError, AttributeError):
        raise InvalidInput("the receipt is not one of butlers") from None
    except InvalidSignature:
        raise InvalidInput("the receipt was changed after it was signed") from None
    own = _key(home).public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return "signed by this home" if public == own else "signed, but by another home"


def _key(home: Home) -> Ed25519PrivateKey:
    """The home's own key, made when it is first needed."""
    file = home.root / "receipts.key"
    try:
        return _read(file)
    except FileNotFoundError:
        made = base64.b64encode(Ed25519PrivateKey.generate().private_bytes_raw()).decode()
        draft = draft_of(file, f"{made}\n")
        with contextlib.suppress(FileExistsError):  # another process was quicker
            os.link(draft, file)
        draft.unlink()
        return _read(file)


def _read(file: Path) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(base64.b64decode(file.read_text("ascii")))


def _canonical(receipt: dict[str, Any]) -> bytes:
    return json.dumps(receipt, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()
