"""Where a home's tokens are kept: in its file, or shared in the database of a butler by URL.

The file keeps those of butlers on the embedded server, those the home made for itself, and what
was made before a butler first started.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress

import structlog

from butlers.errors import ButlersError, NotFound
from butlers.host.butler import Butler
from butlers.host.home import Home
from butlers.host.own_tokens import is_own
from butlers.host.shared_tokens import KeptToken, SharedTokens
from butlers.host.token_record import TokenRecord
from butlers.host.tokens import TokenStore
from butlers.settings.files import load_house

log = structlog.get_logger(__name__)


def sharing(home: Home) -> dict[str, SharedTokens]:
    """The butlers of a home whose tokens are shared; one whose file is wrong is left out."""
    house = load_house(home.settings_file, home.butler_files())
    urls = {name: one.database.url for name, one in house.butlers.items()}
    return {name: SharedTokens(name, url) for name, url in urls.items() if url}


async def keep_token(home: Home, record: TokenRecord) -> None:
    """Keep a token that was made where every process that serves its butler finds it."""
    shared = sharing(home).get(record.butler)
    if shared is None or not await shared.add([KeptToken(record)]):
        TokenStore(home.tokens_file).add([record])


async def all_tokens(home: Home) -> list[KeptToken]:
    """Every token of the home's butlers: first those of its file, the oldest first."""
    store = TokenStore(home.tokens_file)
    kept = [KeptToken(one, store.uses.last_at(one.id)) for one in store.all()]
    for shared in sharing(home).values():
        kept += await shared.all()
    return kept


async def revoke_token(home: Home, token_id: str) -> TokenRecord:
    """Forget a token, wherever it is kept."""
    store = TokenStore(home.tokens_file)
    if any(one.id == token_id for one in store.all()):
        return store.revoke(token_id)
    for shared in sharing(home).values():
        gone = await shared.revoke(token_id)
        if gone is not None:
            return gone
    raise NotFound(f"no token has the id {token_id!r}; `butlers token list` shows them all")


async def adopt_tokens(home: Home, butlers: Mapping[str, Butler]) -> None:
    """Tokens that the file still keeps for butlers by URL are shared from now on."""
    store = TokenStore(home.tokens_file)
    for butler in butlers.values():
        found = [one for one in store.all() if one.butler == butler.name and not is_own(one)]
        if found and butler.is_open and butler.settings.database.url:
            try:
                await _move(store, SharedTokens(butler.name, butler.settings.database.url), found)
            except ButlersError as error:
                log.warning("tokens stay in the file", butler=butler.name, error=str(error))


async def _move(store: TokenStore, shared: SharedTokens, found: Sequence[TokenRecord]) -> None:
    """In this order: cut short in between, a token is in both places and opens the same."""
    if await shared.add(KeptToken(one, store.uses.last_at(one.id)) for one in found):
        for one in found:
            with suppress(NotFound):  # another process of this home does the same just now
                store.revoke(one.id)
