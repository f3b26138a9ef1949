"""What pages and the API are made over."""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from butlers.auth.token_store import TokenStore
from butlers.host.butler import Butler
from butlers.host.home import Home
from butlers.settings.sections import BackupSection, FleetSection


class Stage(StrEnum):
    """How far a process is with serving; a balancer sends requests to one that is ready."""

    STARTING = "starting"
    READY = "ready"
    STOPPING = "stopping"


@dataclass(slots=True)
class StartStage:
    """The stage a process is in."""

    stage: Stage = Stage.STARTING


@dataclass(frozen=True, slots=True)
class AppState:
    """What pages and an API are made over: butlers, and who may call them."""

    home: Home
    butlers: Mapping[str, Butler]
    tokens: TokenStore
    fleet: FleetSection
    failed: Mapping[str, str] = field(default_factory=dict)
    """Butlers of the home that could not even be made, and why."""
    key: str = ""
    """What commands of this home show, which may know how every butler is."""
    backup: BackupSection = BackupSection()
    progress: StartStage = field(default_factory=StartStage)

    def knows(self, token: str) -> bool:
        """Whether it is the home's own key, or any token that is valid here."""
        if self.key and hmac.compare_digest(self.key.encode(), token.encode("utf-8", "replace")):
            return True
        return self.tokens.identify(token) is not None
