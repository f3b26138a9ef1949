"""Settings of the database."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from butlers.kernel.sections import Fault, SettingsSection, refuse
from butlers.settings.types import DatabaseUrl, ReplicaUrl, matching

Memory = Annotated[
    str,
    *matching(
        r"auto|[1-9][0-9]{0,6}(MB|GB)",
        'an amount such as "512MB" or "4GB", or "auto" for what suits the machine',
    ),
]


class DatabaseSection(SettingsSection):
    """Where the memories are kept."""

    url: DatabaseUrl = Field(
        "",
        repr=False,
        description='A PostgreSQL server of your own; "" runs the embedded one. Of several hosts '
        "(host1:5432,host2:5432) the one that takes writes is found, also after a failover.",
    )
    replica_urls: tuple[ReplicaUrl, ...] = Field(
        (),
        strict=False,
        repr=False,
        description="Streaming replicas of that server, from which is read what may lag.",
    )
    max_lag_seconds: float = Field(
        1.0, ge=0.1, le=3_600, description="How far a replica may be behind and be read from."
    )
    pool_min: int = Field(1, ge=0, le=1000, description="Connections kept open.")
    pool_max: int = Field(10, ge=1, le=1000, description="Most connections at once.")
    statement_timeout_seconds: int = Field(
        30, ge=1, le=86_400, description="How long one statement may take."
    )
    lock_timeout_seconds: float = Field(
        5.0, gt=0, le=3_600, description="How long a writer waits for another of the same memory."
    )
    tenant_at_once: int = Field(
        2,
        ge=1,
        le=1000,
        description="How many readers, and how many writers, of one tenant are served at once; "
        "others wait.",
    )

    @model_validator(mode="after")
    def _the_pool_can_hold_its_minimum(self) -> Self:
        if self.pool_min > self.pool_max:
            valid = f"must be at most pool_max, which is {self.pool_max}"
            refuse([Fault("pool_min", self.pool_min, valid)])
        return self

    @model_validator(mode="after")
    def _replicas_are_of_a_server(self) -> Self:
        if self.replica_urls and not self.url:
            valid = "must be empty, as database.url is: the embedded server has no replicas"
            refuse([Fault("replica_urls", self.replica_urls, valid)])
        return self


class HomeDatabaseSection(DatabaseSection):
    """Where the memories are kept; for every butler, and for all of them together."""

    connections: int = Field(
        0,
        ge=0,
        le=100_000,
        description="Most connections of all butlers of a process to one server, who wait for "
        "each other; 0 means three quarters of what the server takes.",
    )
    memory: Memory = Field(
        "auto",
        description="What the embedded server keeps in memory of what it reads, from its next "
        "start on; auto is an eighth of the machine's, or of the container's.",
    )


FOR_ALL = frozenset(HomeDatabaseSection.model_fields.keys() - DatabaseSection.model_fields.keys())
"""What only `butlers.toml` may say."""
