"""The settings of `[modules.notebook]`."""

from pydantic import Field

from butlers.kernel.secret_policy import Secrets
from butlers.kernel.sections import Cron, ModuleSection, SettingsSection


class NotebookScheduleConfig(SettingsSection):
    """When the notebook's job runs."""

    summarize: Cron = Field("30 4 * * *", description="When old entries are summarized.")


class NotebookModuleConfig(ModuleSection):
    """Memory of keyed notes, apart from the memory of episodes, facts and rules."""

    enabled: bool = Field(False, description="Whether this butler has a notebook.")
    secrets: Secrets = Field(
        "mask", description="Whether passwords, keys and the like are masked, refused or kept."
    )
    cache_max_size: int = Field(
        500, ge=0, le=1_000_000, description="Entries kept in the cache; 0 keeps none."
    )
    cache_ttl_seconds: int = Field(
        300, ge=0, le=31_536_000, description="Seconds a cached entry is served."
    )
    summarize_after_days: int = Field(
        30, ge=1, le=36_500, description="Age in days after which entries are summarized."
    )
    deep_search_timeout_seconds: int = Field(
        60, ge=1, le=3_600, description="How long a deep search waits for the language model."
    )
    default_limit: int = Field(10, ge=1, le=10_000, description="Results unless the caller says.")
    max_content_chars: int = Field(
        100_000, ge=1, le=10_000_000, description="Longest content; a longer one is refused."
    )
    max_key_chars: int = Field(
        200, ge=1, le=10_000, description="Longest key; a longer one is refused."
    )
    schedule: NotebookScheduleConfig = Field(NotebookScheduleConfig(), description="Schedule.")
