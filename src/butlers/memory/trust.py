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
    """Who said a memory, how far that is trusted at most, and whether it is a person."""

    trust: Trust
    is_person: bool

    def __new__(cls, name: str, trust: Trust = Trust.STATED, is_person: bool = False) -> "Origin":
        """Make a member with its two properties."""
        member = str.__new__(cls, name)
        member._value_, member.trust, member.is_person = name, trust, is_person
        return member

    OPERATOR = "operator", Trust.STATED, True
    USER = "user", Trust.STATED, True
    AGENT = "agent", Trust.STATED
    INFERRED = "inferred", Trust.INFERRED
    DOCUMENT = "document", Trust.DOCUMENT
    TOOL = "tool", Trust.TOOL


@dataclass(frozen=True, slots=True)
class Lineage:
    """On whose behalf something happens: the tenant, the caller and the request.

    `origin` is that of what the caller says; nothing it stores is trusted beyond `ceiling`.
    `agent` is the caller's name, if known. Whether it `may_decide`, its `Caller` says.
    """

    tenant_id: str
    actor: str = "local"
    request_id: str | None = None
    origin: Origin = Origin.AGENT
    ceiling: Trust = Trust.STATED
    agent: str = ""
    may_decide: bool = False

    @property
    def trust(self) -> Trust:
        """How far the caller is trusted."""
        return min(self.origin.trust, self.ceiling)
