"""The tokens that a home makes for itself, each in a private file: of hooks, and of commands."""

from pathlib import Path

from butlers.errors import Unavailable
from butlers.files import replace_file
from butlers.host.home import Home
from butlers.host.token_record import TokenRecord
from butlers.host.tokens import TokenStore
from butlers.kernel.rights import Right

_OF_HOOKS, _OF_COMMANDS = "hooks of agents", "commands of this home"


def is_own(record: TokenRecord) -> bool:
    """Whether the home made a token for itself: such are of use at this home alone."""
    return record.note in (_OF_HOOKS, _OF_COMMANDS)


def ensure_hook_token(home: Home, butler: str, tenant: str) -> bool:
    """See to it that hooks have a token that is valid; true when this call made one."""
    file = home.hook_token_file(butler)
    return _ensure(home, file, butler, tenant, _OF_HOOKS, Right.HOOK)


def renew_private_tokens(home: Home, butler: str, tenant: str) -> None:
    """Hooks have a token of their own anew; those nobody holds any more are forgotten."""
    store = TokenStore(home.tokens_file)
    for record in store.all():
        if record.butler == butler and is_own(record):
            store.revoke(record.id)
    ensure_hook_token(home, butler, tenant)


def command_token(home: Home, butler: str, tenant: str) -> str:
    """The token with which commands of this home call the process that serves it."""
    file = home.command_token_file(butler)
    _ensure(home, file, butler, tenant, _OF_COMMANDS, Right.OPERATE)
    return file.read_text("utf-8").strip()


def _ensure(  # noqa: PLR0913 - where it lies, and all that a token is
    home: Home, file: Path, butler: str, tenant: str, note: str, rights: Right
) -> bool:
    """See to it that a private file holds a token that is valid; true when this call made one."""
    store = TokenStore(home.tokens_file)
    try:
        known = store.verify(file.read_text("utf-8").strip(), butler) if file.exists() else None
        if known is not None and known.tenant == tenant:
            if known.rights is not rights:  # made before tokens had rights
                store.limit(known.id, rights)
            return False
        file.parent.mkdir(mode=0o700, exist_ok=True)
        _, token = store.create(butler, tenant, note, rights=rights)
        replace_file(file, f"{token}\n")
    except OSError as error:
        raise Unavailable(
            f"cannot write {file} ({error.strerror}); mend its permissions"
        ) from error
    return True
