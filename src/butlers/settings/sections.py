"""The sections of `butler.toml` and `butlers.toml`."""

import ipaddress
import re
from collections.abc import Mapping
from typing import Annotated, Literal, Self, cast

from pydantic import AfterValidator, BaseModel, Field, model_validator

from butlers.errors import NotFound
from butlers.kernel.sections import Cron, Fault, InlineSection, SettingsSection, Valid, refuse
from butlers.modules import ModulesSection
from butlers.operation import Toolset
from butlers.settings.names import VALID_NAME, validate_name
from butlers.settings.types import (
    AnyTenant,
    BufferSize,
    ButlerUrl,
    DatabaseUrl,
    Directory,
    HttpUrl,
    ReplicaUrl,
    Tenant,
    TokenVariable,
    VariableName,
)

# These entries of [butler.schedule] run jobs of modules; any other runs its prompt.
MODULE_JOBS = tuple(job for module in ModulesSection().each() for job in module.butler_jobs)
Name = Annotated[str, AfterValidator(validate_name), Valid(VALID_NAME)]
TASK_NAME = "[a-z][a-z0-9_]{0,62}"
TASK_NAME_RULE = "a name of lower-case letters, digits and underscores that starts with a letter"


class ScheduleEntry(SettingsSection):
    """A scheduled task."""

    cron: Cron = Field(description="When it runs.")
    prompt: str = Field("", description="Prompt of the session; the memory's jobs need none.")


class ButlerSection(SettingsSection):
    """The butler itself."""

    name: Name = Field(description="Name of the butler, which is that of its directory.")
    description: str = Field("", description="What the butler is for; its sessions see it.")
    tenant: Tenant = Field("default", description="Tenant of callers that have no token.")
    schedule: Mapping[str, ScheduleEntry] = Field(default_factory=dict)
    """Tasks by name, each with a cron and a prompt."""

    @model_validator(mode="after")
    def _tasks_have_a_valid_name_and_a_prompt(self) -> Self:
        misnamed = [
            Fault(f"schedule.{name}", name, f"valid is {TASK_NAME_RULE}")
            for name in self.schedule
            if re.fullmatch(TASK_NAME, name) is None
        ]
        valid = f"must say what to ask; only {', '.join(MODULE_JOBS)} need no prompt"
        unasked = [
            Fault(f"schedule.{name}.prompt", entry.prompt, valid)
            for name, entry in self.schedule.items()
            if name not in MODULE_JOBS and not entry.prompt.strip()
        ]
        refuse([*misnamed, *unasked])
        return self


class RuntimeSection(SettingsSection):
    """The language model that consolidates episodes and runs scheduled prompts."""

    kind: Literal["none", "claude", "codex", "command", "http"] = "none"
    """What runs the model; none runs no model."""
    command: tuple[str, ...] = Field((), strict=False)
    """Program and arguments, for kind command; for claude and codex the path of the program, where
    it is not in the PATH."""
    model: str = Field("", description='Name of the model; "" leaves it to the runtime.')
    url: HttpUrl = Field("", description="Where to send completions, for kind http.")
    api_key_env: VariableName = ""
    """Environment variable that holds the API key."""
    timeout_seconds: int = Field(300, ge=1, le=86_400, description="Most seconds of one answer.")
    context_tokens: int = Field(0, ge=0, le=100_000_000)
    """Context window of the model; 0 asks the server."""

    @model_validator(mode="after")
    def _each_kind_has_what_it_needs(self) -> Self:
        if self.kind == "command" and not "".join(self.command[:1]):
            refuse([Fault("command", self.command, 'must name a program, as kind is "command"')])
        if self.kind == "http" and not self.url:
            refuse([Fault("url", self.url, 'must be the URL to ask, as kind is "http"')])
        if self.kind in ("claude", "codex") and len(self.command) > 1:
            valid = f'must be the path of the program alone, as kind is "{self.kind}"'
            refuse([Fault("command", self.command, valid)])
        return self


class McpSection(SettingsSection):
    """Which tools agents get."""

    tools: Toolset = Field(Toolset.STANDARD, strict=False)
    """Set of tools: the six everyday ones, the standard ones, or all."""
    consolidate: bool = False
    """Whether agents may consolidate episodes: two more tools and a prompt."""

    @property
    def opted(self) -> tuple[str, ...]:
        """Name the tools offered beside the chosen set."""
        return ("consolidate",) if self.consolidate else ()


class DatabaseSection(SettingsSection):
    """Where the memories are stored."""

    url: DatabaseUrl = Field("", repr=False)
    """Your own PostgreSQL server; "" runs the embedded one. Of several hosts
    (host1:5432,host2:5432) the primary is found, also after a failover."""
    replica_urls: tuple[ReplicaUrl, ...] = Field((), strict=False, repr=False)
    """Streaming replicas of that server to read from, unless they lag."""

    @model_validator(mode="after")
    def _replicas_need_a_server(self) -> Self:
        if self.replica_urls and not self.url:
            valid = "must be empty, as database.url is: the embedded server has no replicas"
            refuse([Fault("replica_urls", self.replica_urls, valid)])
        return self


class HomeDatabaseSection(DatabaseSection):
    """Where the memories are stored; the default of every butler."""

    connections: int = Field(0, ge=0, le=100_000)
    """Most connections of this home to one server, shared by its butlers; 0 uses three quarters of
    what the server allows."""
    memory: BufferSize = "auto"
    """Cache of the embedded server, from its next start; auto uses an eighth of the memory of the
    machine or container."""


HOME_DATABASE_KEYS = frozenset(HomeDatabaseSection.model_fields) - set(DatabaseSection.model_fields)
"""Keys of `[database]` that only `butlers.toml` may set."""


class ServerSection(SettingsSection):
    """The HTTP server of the home, which serves all its butlers."""

    host: str = Field("127.0.0.1", min_length=1, max_length=253)
    """Address to listen on."""
    port: int = Field(8900, ge=0, le=65_535, description="Port to listen on; 0 picks a free one.")
    allow_remote: bool = Field(False, description="Whether other machines may reach the server.")
    allowed_hosts: tuple[str, ...] = Field((), strict=False)
    """Host names, besides localhost, that clients may use."""
    drain_seconds: float = Field(0.0, ge=0, le=600)
    """Seconds that /ready answers 503 before a stop, so that a balancer notices."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least severe messages that are logged."""

    @model_validator(mode="after")
    def _only_loopback_unless_allowed(self) -> Self:
        if not self.allow_remote and not _is_loopback(self.host):
            valid = 'must be a loopback address such as "127.0.0.1", unless allow_remote is true'
            refuse([Fault("host", self.host, valid)])
        return self


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class ButlerSettings(SettingsSection):
    """Everything that `butler.toml` may set."""

    butler: ButlerSection = Field(description="The butler itself.")
    modules: ModulesSection = Field(ModulesSection(), description="Modules.")
    database: DatabaseSection = Field(DatabaseSection(), description="Database.")
    runtime: RuntimeSection = Field(RuntimeSection(), description="Runtime.")
    mcp: McpSection = Field(McpSection(), description="Tools.")
    server: ServerSection = Field(ServerSection(), description="Server.")

    def module(self, name: str) -> BaseModel:
        """Get the settings of a module; NotFound if there is none of that name."""
        if name not in type(self.modules).model_fields:
            raise NotFound(f"there is no module {name!r}")
        return cast(BaseModel, getattr(self.modules, name))

    def is_enabled(self, name: str) -> bool:
        """Tell whether the butler has the module; one without the setting is always on."""
        return bool(getattr(self.module(name), "enabled", True))


class RemoteButler(InlineSection):
    """A butler of another home, on this host or another."""

    name: Name = Field(description="Its name here.")
    url: ButlerUrl = Field(description="URL of its API.")
    token_env: TokenVariable = Field(description="Environment variable that holds a token for it.")
    tenant: AnyTenant = ""
    """Tenant that may see it, besides the operator; "" for none."""

    @property
    def pages(self) -> str:
        """Build the URL of its memory page."""
        home, _, name = self.url.rpartition("/api/butlers/")
        return f"{home}/butlers/{name}/memory"


class FleetSection(SettingsSection):
    """Butlers of other homes, shown on the fleet page."""

    remotes: Annotated[
        tuple[RemoteButler, ...],
        Valid("a list of tables with the keys " + ", ".join(RemoteButler.model_fields)),
    ] = Field((), strict=False, description="The butlers, each `{ name, url, token_env }`.")

    @model_validator(mode="after")
    def _names_are_unique(self) -> Self:
        names = [remote.name for remote in self.remotes]
        refuse(
            [
                Fault(f"remotes.{index}.name", name, "must be one that no other remote has")
                for index, name in enumerate(names)
                if name in names[:index]
            ]
        )
        return self


class SessionsSection(SettingsSection):
    """Sessions of connected agents."""

    catch_up: bool = True
    """Whether transcripts that no hook reported are looked for every hour."""


class BackupSection(SettingsSection):
    """Automatic backups, made while the daemon runs."""

    cron: Cron = Field("", description="When a backup is made.")
    directory: Directory = ""
    """Where backups are written, better on another disk; "" means `backups` in the home."""
    passphrase_file: str = ""
    """A file whose first line is the passphrase to encrypt them with; "" for no encryption."""
    keep: int = Field(7, ge=1, le=10_000, description="How many backups are kept, newest first.")


class HomeSettings(SettingsSection):
    """Everything that `butlers.toml` may set, for all butlers of a home."""

    database: HomeDatabaseSection = Field(HomeDatabaseSection(), description="Database.")
    server: ServerSection = Field(ServerSection(), description="Server.")
    fleet: FleetSection = Field(FleetSection(), description="Fleet.")
    sessions: SessionsSection = Field(SessionsSection(), description="Sessions.")
    backup: BackupSection = Field(BackupSection(), description="Backups.")
