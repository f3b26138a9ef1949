"""What a token may be made for."""

from enum import StrEnum


class Right(StrEnum):
    """What a token may do: what hooks of agents do, read, both of these and write, or all."""

    HOOK = "hook"
    READ = "read"
    WRITE = "write"
    OPERATE = "operate"

    def includes(self, needed: "Right") -> bool:
        """Whether who has this right may do what needs another."""
        return self in (needed, Right.OPERATE) or (
            self is Right.WRITE and needed is not Right.OPERATE
        )
