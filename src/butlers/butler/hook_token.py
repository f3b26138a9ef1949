"""The token that agents' hooks use: in a private file of the home, never in a project."""

from pathlib import Path

from butlers.butler.home import Home
from butlers.butler.tokens import TokenStore
from butlers.errors import Unavailable
from butlers.files import replace_file
from butlers.settings.names import validate_name

NOTE = "hooks of agents"


def hook_token_file(home: Home, butler: str) -> Path:
    """Where the token of a butler's hooks is kept."""
    return home.root / "hooks" / f"{validate_name(butler)}.token"


def ensure_hook_token(home: Home, butler: str, tenant: str) -> bool:
    """See to it that hooks have a token that is valid; true when this call made one."""
    file, store = hook_token_file(home, butler), TokenStore(home.tokens_file)
    try:
        if _is_valid(file, store, butler, tenant):
            return False
        file.parent.mkdir(mode=0o700, exist_ok=True)
        _, token = store.create(butler, tenant, NOTE)
        replace_file(file, f"{token}\n")
    except OSError as error:
        raise Unavailable(
            f"cannot write {file} ({error.strerror}); mend its permissions"
        ) from error
    return True


def _is_valid(file: Path, store: TokenStore, butler: str, tenant: str) -> bool:
    try:
        token = file.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return False
    record = store.verify(token, butler)
    return record is not None and record.tenant == tenant
