"""The token store of a home, and the tokens the home makes for itself, each in a private file."""

import hmac
from collections.abc import Mapping
from pathlib import Path

from butlers.atomic_files import replace_file
from butlers.auth.rights import Right
from butlers.auth.token_database import TokenDatabase
from butlers.auth.token_grant import TokenGrant
from butlers.auth.token_store import TokenStore
from butlers.auth.tokens import COMMANDS_NOTE, HOOKS_NOTE, TokenFile, digest_of
from butlers.clock import utc_now
from butlers.db.provision import external_access
from butlers.errors import Forbidden, Unavailable
from butlers.host.butler import Butler
from butlers.host.home import Home, butler_settings
from butlers.settings.files import load_house
from butlers.settings.names import database_name


def home_tokens(home: Home) -> TokenStore:
    """Return the tokens of a home; those of a butler with wrong settings are left out."""
    house = load_house(home.settings_file, home.butler_files())
    urls = {name: settings.database.url for name, settings in house.butlers.items()}
    databases = [TokenDatabase(name, _owner_dsn(name, url)) for name, url in urls.items() if url]
    return TokenStore(home.tokens_file, databases=databases)


def served_tokens(home: Home, butlers: Mapping[str, Butler]) -> TokenStore:
    """Return the tokens of a home whose butlers this process serves."""
    shared = [butler for butler in butlers.values() if butler.settings.database.url]
    return TokenStore(home.tokens_file, databases=map(_database, shared))


def ensure_hook_token(home: Home, butler: str, tenant: str) -> bool:
    """Make the token of agents' hooks if they have no valid one; true if this call made it."""
    grant = TokenGrant(tenant, HOOKS_NOTE, rights=Right.HOOK)
    return _ensure(home, home.hook_token_file(butler), butler, grant)


def renew_private_tokens(home: Home, butler: str, tenant: str) -> None:
    """Revoke the tokens the home made for itself and make a new one for hooks."""
    store = TokenFile(home.tokens_file)
    for record in store.all():
        if record.butler == butler and record.is_private:
            store.revoke(record.id)
    ensure_hook_token(home, butler, tenant)


def command_token(home: Home, butler: str, tenant: str) -> str:
    """Return the token with which commands of this home call the process that serves it."""
    file = home.command_token_file(butler)
    _ensure(home, file, butler, TokenGrant(tenant, COMMANDS_NOTE, rights=Right.OPERATE))
    return file.read_text("utf-8").strip()


async def check_operator_token(home: Home, butler: str, tenant: str | None, token: str) -> None:
    """Raise Forbidden unless a person made this token to decide for a tenant of a butler.

    A token of the butler's own tenant decides for every tenant.
    """
    digest, own = digest_of(token), butler_settings(home, butler).butler.tenant
    for record in [usage.record for usage in await home_tokens(home).list_all()]:
        covers = record.butler == butler and record.tenant in (own, tenant or own)
        is_good = covers and record.may_decide and not record.has_expired(utc_now())
        if is_good and hmac.compare_digest(record.digest, digest):
            return
    raise Forbidden(
        f"the operator token is not one for butler {butler}; make one at a terminal with "
        f"`butlers token new --rights operate --butler {butler}`"
    )


def _ensure(home: Home, file: Path, butler: str, grant: TokenGrant) -> bool:
    """Make a token into a private file, unless it has a valid one; return whether it was made."""
    store = TokenFile(home.tokens_file)
    try:
        record = store.verify(file.read_text("utf-8").strip(), butler) if file.exists() else None
        if record is not None and record.tenant == grant.tenant:
            if record.rights is not grant.rights:  # made before tokens had rights
                store.limit(record.id, grant.rights)
            return False
        file.parent.mkdir(mode=0o700, exist_ok=True)
        _, token = store.create(butler, grant.tenant, grant.note, rights=grant.rights)
        replace_file(file, f"{token}\n")
    except OSError as error:
        raise Unavailable(f"cannot write {file} ({error.strerror}); fix its permissions") from error
    return True


def _database(butler: Butler) -> TokenDatabase:
    dsn = _owner_dsn(butler.name, butler.settings.database.url)
    return TokenDatabase(butler.name, dsn, lambda: butler.database if butler.is_open else None)


def _owner_dsn(butler: str, url: str) -> str:
    return external_access(url, database_name(butler)).owner_dsn
