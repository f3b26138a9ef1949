"""Who stores a memory, and how far that is trusted."""

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class Trust(IntEnum):
    """How far a memory is trusted: never further than what it comes from."""

    LOW = 0
    TOOL = 1
    DOCUMENT = 2
    INFERRED = 3
    STATED = 4


class Origin(StrEnum):
    """Who said a memory; the first three are trusted alike."""

    OPERATOR = "operator"
    USER = "user"
    AGENT = "agent"
    INFERRED = "inferred"
    DOCUMENT = "document"
    TOOL = "tool"

    @property
    def trust(self) -> Trust:
        """How far it is trusted at most."""
        return Trust.__members__.get(self.name, Trust.STATED)

    @property
    def is_person(self) -> bool:
        """Whether a person said it, not a program."""
        return self in (Origin.OPERATOR, Origin.USER)


@dataclass(frozen=True, slots=True)
class Lineage:
    """On whose behalf something happens: the tenant, the caller and the request.

    `origin` is that of what the caller says; nothing it stores is trusted beyond `ceiling`.
    """

    tenant_id: str
    actor: str = "local"
    request_id: str | None = None
    origin: Origin = Origin.AGENT
    ceiling: Trust = Trust.STATED

    @property
    def trust(self) -> Trust:
        """How far the caller is trusted."""
        return min(self.origin.trust, self.ceiling)
