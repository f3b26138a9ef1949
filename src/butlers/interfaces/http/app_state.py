"""What the API and the pages work with."""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from butlers.auth.token_store import TokenStore
from butlers.host.butler import Butler
from butlers.host.home import Home
from butlers.settings.sections import BackupSection, FleetSection


class Stage(StrEnum):
    """How far a process is with serving; a load balancer sends requests to one that is ready."""

    STARTING = "starting"
    READY = "ready"
    STOPPING = "stopping"


@dataclass(slots=True)
class StartStage:
    """The stage a process is in."""

    stage: Stage = Stage.STARTING


@dataclass(frozen=True, slots=True)
class AppState:
    """The butlers of a home, its tokens and its settings."""

    home: Home
    butlers: Mapping[str, Butler]
    tokens: TokenStore
    fleet: FleetSection
    failed: Mapping[str, str] = field(default_factory=dict)
    """Butlers of the home that could not be built, and why."""
    key: str = ""
    """The secret by which commands of this home may read the health of every butler."""
    backup: BackupSection = BackupSection()
    progress: StartStage = field(default_factory=StartStage)

    def knows(self, token: str) -> bool:
        """Whether it is the home's own key, or any token that is valid here."""
        if self.key and hmac.compare_digest(self.key.encode(), token.encode("utf-8", "replace")):
            return True
        return self.tokens.verify(token) is not None
