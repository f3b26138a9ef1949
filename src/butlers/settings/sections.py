"""The settings of a butler: everything that `butler.toml` may say."""

import ipaddress
import re
from collections.abc import Mapping
from typing import Annotated, Literal, Self, cast

from pydantic import AfterValidator, BaseModel, Field, model_validator

from butlers.errors import NotFound
from butlers.kernel.sections import Cron, Fault, InlineSection, SettingsSection, Valid, refuse
from butlers.modules import ModulesSection
from butlers.operation import Toolset
from butlers.settings.database import DatabaseSection, HomeDatabaseSection
from butlers.settings.names import VALID_NAME, validate_name
from butlers.settings.types import (
    AnyTenant,
    ButlerUrl,
    HttpUrl,
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
    """A task of the butler's own."""

    cron: Cron = Field(description="When it runs.")
    prompt: str = Field("", description="What the session is asked; the memory's jobs need none.")


class ButlerSection(SettingsSection):
    """Who the butler is."""

    name: Name = Field(description="The butler's name, which is that of its directory.")
    description: str = Field("", description="What the butler is for, in your own words.")
    tenant: Tenant = Field(
        "default", description="Whose memories a caller without a token reads and writes."
    )
    schedule: Mapping[str, ScheduleEntry] = Field(
        default_factory=dict, description="Tasks by name, each with a cron and a prompt."
    )

    @model_validator(mode="after")
    def _tasks_can_be_named_and_run(self) -> Self:
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
    """What runs a session: the model that consolidates and answers scheduled prompts."""

    kind: Literal["none", "claude", "codex", "command", "http"] = Field(
        "none", description="What runs sessions; none means that no session runs."
    )
    command: tuple[str, ...] = Field(
        (), strict=False, description="The program and its arguments, for kind command."
    )
    binary: str = Field(
        "", description='Path of the claude or codex program; "" finds it in the PATH.'
    )
    model: str = Field("", description='The model to ask for; "" leaves it to the runtime.')
    url: HttpUrl = Field("", description="Where completions are asked for, for kind http.")
    api_key_env: VariableName = Field(
        "", description="Name of the environment variable that holds the key, never the key itself."
    )
    timeout_seconds: int = Field(300, ge=1, le=86_400, description="How long a session may take.")
    context_tokens: int = Field(
        0, ge=0, le=100_000_000, description="Tokens the model can have before it; 0 asks it."
    )
    context_timeout_seconds: float = Field(
        10.0,
        gt=0,
        le=600,
        description="How long a session waits for its memories before it starts.",
    )

    @model_validator(mode="after")
    def _each_kind_has_what_it_needs(self) -> Self:
        if self.kind == "command" and not "".join(self.command[:1]):
            refuse([Fault("command", self.command, 'must name a program, as kind is "command"')])
        if self.kind == "http" and not self.url:
            refuse([Fault("url", self.url, 'must be the URL to ask, as kind is "http"')])
        return self


class McpSection(SettingsSection):
    """What agents are offered."""

    tools: Toolset = Field(
        Toolset.STANDARD,
        strict=False,
        description="Which tools: core (the six of every day), standard or all.",
    )
    consolidate: bool = Field(
        False, description="Whether agents may read what waits: two more tools and a prompt."
    )

    @property
    def opted(self) -> tuple[str, ...]:
        """What is offered beside the set of tools."""
        return ("consolidate",) if self.consolidate else ()


class ServerSection(SettingsSection):
    """How the process that serves every butler of a home listens."""

    host: str = Field(
        "127.0.0.1", min_length=1, max_length=253, description="Address to listen on."
    )
    port: int = Field(8900, ge=0, le=65_535, description="Port to listen on; 0 takes a free one.")
    allow_remote: bool = Field(
        False, description="Whether host may be an address other machines can reach."
    )
    allowed_hosts: tuple[str, ...] = Field(
        (), strict=False, description="Names, next to localhost, by which clients may call."
    )
    requests_per_minute: int = Field(
        6_000,
        ge=1,
        le=10_000_000,
        description="How many requests a token, or an address without one, may send in a minute.",
    )
    send_seconds: float = Field(
        20.0, gt=0, le=3_600, description="How long a client may take to send a whole request."
    )
    drain_seconds: float = Field(
        0.0,
        ge=0,
        le=600,
        description="How long a stop lets /ready say no first, for a balancer to notice.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="The least severe message that is logged."
    )

    @model_validator(mode="after")
    def _only_the_willing_are_reachable(self) -> Self:
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
    """All settings of one butler."""

    butler: ButlerSection = Field(description="Who the butler is.")
    modules: ModulesSection = Field(ModulesSection(), description="Modules.")
    database: DatabaseSection = Field(DatabaseSection(), description="Database.")
    runtime: RuntimeSection = Field(RuntimeSection(), description="Runtime.")
    mcp: McpSection = Field(McpSection(), description="Tools.")
    server: ServerSection = Field(ServerSection(), description="Server.")

    def module(self, name: str) -> BaseModel:
        """The settings of a module."""
        if name not in type(self.modules).model_fields:
            raise NotFound(f"there is no module {name!r}")
        return cast(BaseModel, getattr(self.modules, name))

    def is_enabled(self, name: str) -> bool:
        """Whether the butler has the module; one without the setting is always on."""
        return bool(getattr(self.module(name), "enabled", True))


class RemoteButler(InlineSection):
    """A butler that another process serves, here or on another host."""

    name: Name = Field(description="What it is called here.")
    url: ButlerUrl = Field(description="Where its API is.")
    token_env: TokenVariable = Field(
        description="Name of the environment variable that holds a token for it, never the token."
    )
    tenant: AnyTenant = Field(
        "", description='Callers of this tenant see it too; "" shows it to the operator alone.'
    )

    @property
    def pages(self) -> str:
        """Where its own home shows what it remembers."""
        place, _, name = self.url.rpartition("/api/butlers/")
        return f"{place}/butlers/{name}/memory"


class FleetSection(SettingsSection):
    """Butlers of other homes, shown on the fleet page beside those of this one."""

    remotes: Annotated[
        tuple[RemoteButler, ...],
        Valid("a list of tables with the keys " + ", ".join(RemoteButler.model_fields)),
    ] = Field((), strict=False, description="The butlers, each `{ name, url, token_env }`.")
    timeout_seconds: float = Field(
        2.0, gt=0, le=60, description="How long one butler may take before it is shown as down."
    )

    @model_validator(mode="after")
    def _each_has_a_name_of_its_own(self) -> Self:
        names = [remote.name for remote in self.remotes]
        refuse(
            [
                Fault(f"remotes.{place}.name", name, "must be one that no other remote has")
                for place, name in enumerate(names)
                if name in names[:place]
            ]
        )
        return self


class SessionsSection(SettingsSection):
    """How sessions of agents arrive that did not say goodbye."""

    idle_minutes: float = Field(
        30,
        ge=0,
        le=10_080,
        description="How long after its last answer a session that never ended counts as ended; "
        "one that was interrupted while its agent worked, after twelve times as long.",
    )
    catch_up: bool = Field(
        True,
        description="Whether transcripts of connected agents that no hook told of are looked for, "
        "at the start and every hour.",
    )


class BackupSection(SettingsSection):
    """The backups that are made by themselves while the butlers are up."""

    cron: Cron = Field("", description='When one is made; "" makes none by itself.')
    directory: str = Field(
        "",
        description="Where they are kept, better on another disk; "
        '"" means the directory backups of the home.',
    )
    keep: int = Field(7, ge=1, le=10_000, description="How many are kept, the newest.")


class HomeSettings(SettingsSection):
    """What `butlers.toml` may say for every butler of a home."""

    database: HomeDatabaseSection = Field(HomeDatabaseSection(), description="Database.")
    server: ServerSection = Field(ServerSection(), description="Server.")
    fleet: FleetSection = Field(FleetSection(), description="Fleet.")
    sessions: SessionsSection = Field(SessionsSection(), description="Sessions.")
    backup: BackupSection = Field(BackupSection(), description="Backups.")
