"""The settings of `[modules.memory]`."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from butlers.embedding import prove_model
from butlers.kernel.secret_policy import Secrets
from butlers.kernel.sections import (
    Check,
    Cron,
    Fault,
    InlineSection,
    ModuleSection,
    SettingsSection,
    SpendingLimits,
    Valid,
    refuse,
)
from butlers.memory.rules_settings import Characters, RulesConfig, Share

BUNDLED_MODEL = "all-MiniLM-L6-v2"
STORED_DIMENSIONS = 384
ROUNDING = 1e-6

Days = Annotated[int, Field(ge=1, le=36_500)]
Rows = Annotated[int, Field(ge=1, le=1_000_000_000)]
Seconds = Annotated[int, Field(ge=1, le=86_400)]


class EpisodesConfig(SettingsSection):
    """How long episodes live and how many are kept."""

    default_ttl_days: Days = Field(7, description="Days an episode lives unless its writer says.")
    max_entries: Rows = Field(
        10_000, description="Episodes kept; the oldest consolidated ones beyond it go to the bin."
    )
    max_content_chars: Characters = Field(
        1_000_000, description="Longest text of an episode; a longer one is refused."
    )
    keep_unread: bool = Field(
        True, description="Whether what consolidation has not read is kept beyond its expiry."
    )
    max_unread: Rows = Field(
        100_000, description="Unread episodes kept so, for each tenant; the oldest beyond expire."
    )
    max_unread_mb: int = Field(
        1000, ge=1, le=1_000_000, description="Megabytes of text they may have, for each tenant."
    )


class RetentionConfig(SettingsSection):
    """How long what was removed can be had back."""

    bin_days: int = Field(
        30, ge=0, le=36_500, description="Days what the cleanup removed lies in the bin."
    )


class FactsConfig(SettingsSection):
    """When a fact, or a rule, fades and when it expires."""

    retrieval_confidence_threshold: Share = Field(
        0.2, description="Below this effective confidence a memory is fading."
    )
    expiry_confidence_threshold: Share = Field(
        0.05, description="Below this effective confidence a memory expires."
    )
    max_content_chars: Characters = Field(
        20_000, description="Longest text of a fact; a longer one is refused."
    )
    same_again: Literal["supersede", "confirm"] = Field(
        "supersede", description="What storing what a fact says already does to that fact."
    )

    @model_validator(mode="after")
    def _memories_fade_before_they_expire(self) -> Self:
        retrieval, expiry = self.retrieval_confidence_threshold, self.expiry_confidence_threshold
        if expiry >= retrieval:
            valid = f"must be below retrieval_confidence_threshold, which is {retrieval}"
            refuse([Fault("expiry_confidence_threshold", expiry, valid)])
        return self


class ScoreWeights(InlineSection):
    """How much each signal counts in the composite score."""

    relevance: Share = Field(0.4, description="Weight of the match with the query.")
    importance: Share = Field(0.3, description="Weight of the importance given at storing.")
    recency: Share = Field(0.2, description="Weight of how recently the memory was used.")
    confidence: Share = Field(0.1, description="Weight of the effective confidence.")

    @model_validator(mode="after")
    def _the_score_stays_within_one(self) -> Self:
        total = self.relevance + self.importance + self.recency + self.confidence
        if abs(total - 1) > ROUNDING:
            valid = f"the four weights must sum to 1, these sum to {total:.6g}"
            refuse([Fault("", self.model_dump(), valid)])
        return self


class RetrievalConfig(SettingsSection):
    """What search, recall and context do unless told otherwise."""

    default_limit: int = Field(
        20, ge=1, le=10_000, description="Facts and rules recalled for a context, results on pages."
    )
    max_limit: int = Field(100, ge=1, le=10_000, description="Most results a caller may ask for.")
    default_mode: Literal["hybrid", "semantic", "keyword"] = Field(
        "hybrid", description="How to search unless the caller says."
    )
    context_token_budget: int = Field(
        3000, ge=0, le=1_000_000, description="Tokens a context may fill unless the caller says."
    )
    score_weights: ScoreWeights = Field(
        ScoreWeights(), description="Weights of the composite score; they sum to 1."
    )

    @model_validator(mode="after")
    def _the_default_may_be_asked_for(self) -> Self:
        if self.default_limit > self.max_limit:
            valid = f"must be at most max_limit, which is {self.max_limit}"
            refuse([Fault("default_limit", self.default_limit, valid)])
        return self


class ContextConfig(SettingsSection):
    """How a context is shared out between its sections."""

    facts_share: Share = Field(0.6, description="Share of the token budget for facts.")
    rules_share: Share = Field(0.3, description="Share of the token budget for rules.")
    episodes_share: Share = Field(0.1, description="Share of the token budget for episodes.")
    max_episodes: int = Field(
        5, ge=0, le=10_000, description="Most recent episodes in a context; 0 leaves them out."
    )

    @model_validator(mode="after")
    def _shares_fit_the_budget(self) -> Self:
        total = self.facts_share + self.rules_share + self.episodes_share
        if total > 1 + 1e-9:
            shares = self.model_dump(include={"facts_share", "rules_share", "episodes_share"})
            refuse([Fault("", shares, f"the shares must sum to at most 1, these to {total:.6g}")])
        return self


class ConsolidationConfig(SettingsSection):
    """How episodes become facts and rules, and what that may cost."""

    batch_size: int = Field(
        50, ge=1, le=1000, description="Most episodes read together; fewer if the model reads less."
    )
    run_minutes: int = Field(
        60, ge=1, le=10_000, description="How long a run goes on reading what waits."
    )
    review: bool = Field(
        False, description="Whether what is drawn from episodes waits for somebody's yes."
    )
    lease_seconds: Seconds = Field(300, description="How long a run holds its episodes.")
    max_attempts: int = Field(
        5, ge=1, le=100, description="Failed attempts after which an episode is a dead letter."
    )
    max_known_facts: int = Field(
        100, ge=0, le=10_000, description="Known facts shown to the model."
    )
    max_known_rules: int = Field(50, ge=0, le=10_000, description="Known rules shown to the model.")
    timeout_seconds: Seconds = Field(300, description="How long one completion may take.")
    daily_max_runs: int = Field(
        48, ge=0, le=100_000, description="Completions in a day; 0 sets no limit."
    )
    daily_max_tokens: int = Field(
        0, ge=0, le=10**12, description="Tokens spent in a day; 0 sets no limit."
    )
    daily_max_cost_usd: float = Field(
        0.0, ge=0, le=1_000_000, description="Dollars spent in a day; 0 sets no limit."
    )
    tenant_max_runs: int = Field(
        24, ge=0, le=100_000, description="Completions in a day for one tenant; 0 sets no limit."
    )
    tenant_max_tokens: int = Field(
        0, ge=0, le=10**12, description="Tokens in a day for one tenant; 0 sets no limit."
    )
    tenant_max_cost_usd: float = Field(
        0.0, ge=0, le=1_000_000, description="Dollars in a day for one tenant; 0 sets no limit."
    )


class StatementsConfig(SettingsSection):
    """What users state in sessions, in their own words."""

    enabled: bool = Field(
        True, description='Whether "remember that …", "always …" become facts and rules by rule.'
    )


class QuarantineConfig(SettingsSection):
    """What programs store and a person should see before an agent is told of it."""

    enabled: bool = Field(
        True, description="Whether suspicious memories wait for a person's yes, told to nobody."
    )
    max_writes_per_minute: int = Field(
        1200,
        ge=0,
        le=1_000_000,
        description="Memories of one token beyond these wait; 0: no limit.",
    )


class MemoryScheduleConfig(SettingsSection):
    """When the module's jobs run; an entry of the same name in `[butler.schedule]` wins."""

    consolidate: Cron = Field("0 */6 * * *", description="When episodes are consolidated.")
    decay_sweep: Cron = Field("0 3 * * *", description="When fading and expiry are decided.")
    episode_cleanup: Cron = Field("0 4 * * *", description="When expired episodes go to the bin.")


class MemoryModuleConfig(ModuleSection):
    """Memory of episodes, facts and rules."""

    butler_jobs: ClassVar[tuple[str, ...]] = tuple(MemoryScheduleConfig.model_fields)

    enabled: bool = Field(True, description="Whether this butler has a memory.")
    secrets: Secrets = Field(
        "mask", description="Whether passwords, keys and the like are masked, refused or kept."
    )
    embedding_model: str = Field(
        BUNDLED_MODEL, min_length=1, max_length=200, description="The model that embeds texts."
    )
    embedding_dimensions: Annotated[int, Valid(str(STORED_DIMENSIONS))] = Field(
        STORED_DIMENSIONS, description="Length of its vectors, fixed by the memory tables."
    )
    embedding_model_directory: str = Field(
        "", description='Directory of a model of your own; "" takes the one that is installed.'
    )
    episodes: EpisodesConfig = Field(EpisodesConfig(), description="Episodes.")
    retention: RetentionConfig = Field(RetentionConfig(), description="Retention.")
    facts: FactsConfig = Field(FactsConfig(), description="Facts.")
    rules: RulesConfig = Field(RulesConfig(), description="Rules.")
    retrieval: RetrievalConfig = Field(RetrievalConfig(), description="Retrieval.")
    context: ContextConfig = Field(ContextConfig(), description="Context.")
    consolidation: ConsolidationConfig = Field(ConsolidationConfig(), description="Consolidation.")
    statements: StatementsConfig = Field(StatementsConfig(), description="Statements.")
    quarantine: QuarantineConfig = Field(QuarantineConfig(), description="Quarantine.")
    schedule: MemoryScheduleConfig = Field(MemoryScheduleConfig(), description="Schedule.")

    def limits(self) -> tuple[SpendingLimits, str]:
        """What modules may spend on completions."""
        budget = self.consolidation
        each = SpendingLimits(
            budget.tenant_max_runs, budget.tenant_max_tokens, budget.tenant_max_cost_usd
        )
        whole = (budget.daily_max_runs, budget.daily_max_tokens, budget.daily_max_cost_usd)
        return SpendingLimits(*whole, each), "modules.memory.consolidation"

    def checks(self) -> tuple[Check, ...]:
        """The embedding model is there and works."""
        return (Check("embedding model", self.embedding_model_directory, prove_model),)

    @model_validator(mode="after")
    def _the_model_can_be_had_and_stored(self) -> Self:
        refuse([*self._unstorable(), *self._unobtainable()])
        return self

    def _unstorable(self) -> list[Fault]:
        if self.embedding_dimensions == STORED_DIMENSIONS:
            return []
        valid = f"must be {STORED_DIMENSIONS}, the length of the vectors in the memory tables"
        return [Fault("embedding_dimensions", self.embedding_dimensions, valid)]

    def _unobtainable(self) -> list[Fault]:
        if self.embedding_model_directory or self.embedding_model == BUNDLED_MODEL:
            return []
        valid = f'must be "{BUNDLED_MODEL}", or embedding_model_directory must name its directory'
        return [Fault("embedding_model", self.embedding_model, valid)]
