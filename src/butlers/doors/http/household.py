"""What pages and the API are made over, and the link by which whoever started it signs in."""

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from butlers.butler.butler import Butler
from butlers.butler.home import Home
from butlers.butler.tokens import TokenStore
from butlers.clock import Clock, utc_now
from butlers.settings.fleet import FleetSection

LIFE = timedelta(minutes=10)


class Invitation:
    """A secret that opens the pages once."""

    def __init__(self, clock: Clock = utc_now) -> None:
        self._clock = clock
        self._until = clock() + LIFE
        self._secret: str | None = secrets.token_urlsafe(32)

    def __repr__(self) -> str:
        return "Invitation()"

    @property
    def path(self) -> str:
        """Where it is redeemed; to be shown to the operator, and kept nowhere."""
        return f"/sign-in/once/{self._secret or 'used'}"

    def redeem(self, secret: str) -> bool:
        """Whether this is the secret, for the first time and in time."""
        if self._secret is None or self._clock() >= self._until:
            return False
        if not hmac.compare_digest(self._secret.encode(), secret.encode("utf-8", "replace")):
            return False
        self._secret = None
        return True


@dataclass(frozen=True, slots=True)
class Household:
    """What pages and an API are made over: butlers that have started, and who may call."""

    home: Home
    butlers: Mapping[str, Butler]
    tokens: TokenStore
    fleet: FleetSection
    invitation: Invitation | None = None
    """How whoever started the home signs in."""
