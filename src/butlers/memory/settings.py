"""The settings of `[modules.memory]`."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from butlers.embedding import prove_model
from butlers.kernel.secrets import Secrets
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
from butlers.memory.limits import MAX_LIMIT

BUNDLED_MODEL = "all-MiniLM-L6-v2"
STORED_DIMENSIONS = 384
ROUNDING = 1e-6

# One tenant may use half of a day's completions, or this many if that is more.
TENANT_LEAST_RUNS = 24

Count = Annotated[int, Field(ge=1, le=1_000_000)]
Share = Annotated[float, Field(ge=0, le=1)]


class EpisodesConfig(SettingsSection):
    """How long episodes live and how many are kept."""

    default_ttl_days: int = Field(7, ge=1, le=36_500)
    """Days until an episode expires, unless its writer says."""
    max_entries: int = Field(10_000, ge=1, le=1_000_000_000)
    """Most episodes kept; the oldest consolidated ones beyond it go to the bin."""
    keep_unread: bool = True
    """Whether episodes that were not consolidated yet outlive their expiry."""


class RetentionConfig(SettingsSection):
    """How long removed memories can be restored."""

    bin_days: int = Field(30, ge=0, le=36_500)
    """Days until the bin is emptied of what cleanup removed."""


class FactsConfig(SettingsSection):
    """When facts and rules fade and expire."""

    retrieval_confidence_threshold: Share = 0.2
    """A memory fades below this effective confidence."""
    expiry_confidence_threshold: Share = 0.05
    """A memory expires below this effective confidence."""
    same_again: Literal["supersede", "confirm"] = "supersede"
    """Whether a fact stored again supersedes the old one or confirms it."""

    @model_validator(mode="after")
    def _memories_fade_before_they_expire(self) -> Self:
        retrieval, expiry = self.retrieval_confidence_threshold, self.expiry_confidence_threshold
        if expiry >= retrieval:
            valid = f"must be below retrieval_confidence_threshold, which is {retrieval}"
            refuse([Fault("expiry_confidence_threshold", expiry, valid)])
        return self


class PromoteToEstablished(InlineSection):
    """What a candidate rule needs to become established."""

    min_successes: Count = Field(5, description="Fewest successful applications.")
    min_effectiveness: Share = Field(0.6, description="Least effectiveness.")


class PromoteToProven(InlineSection):
    """What an established rule needs to become proven."""

    min_successes: Count = Field(15, description="Fewest successful applications.")
    min_effectiveness: Share = Field(0.8, description="Least effectiveness.")
    min_age_days: int = Field(30, ge=0, le=36_500, description="Least age in days.")


class HarmfulToAntipattern(InlineSection):
    """When a rule turns into an anti-pattern."""

    min_harmful: Count = Field(3, description="Fewest harmful applications.")
    max_effectiveness: Share = Field(0.3, description="Its effectiveness is below this.")


class RulesConfig(SettingsSection):
    """When rules are promoted, and when they turn into anti-patterns."""

    promote_to_established: PromoteToEstablished = PromoteToEstablished()
    """What a candidate rule needs to become established."""
    promote_to_proven: PromoteToProven = PromoteToProven()
    """What an established rule needs to become proven."""
    harmful_to_antipattern: HarmfulToAntipattern = HarmfulToAntipattern()
    """When a rule turns into an anti-pattern."""
    own_marks: bool = True
    """Whether helpful marks of a rule's own author promote it."""

    @model_validator(mode="after")
    def _thresholds_rise_with_maturity(self) -> Self:
        lower, upper, faults = self.promote_to_established, self.promote_to_proven, []
        for key in ("min_successes", "min_effectiveness"):
            least, found = getattr(lower, key), getattr(upper, key)
            if found < least:
                valid = f"must be at least promote_to_established.{key}, which is {least}"
                faults.append(Fault(f"promote_to_proven.{key}", found, valid))
        most = self.harmful_to_antipattern.max_effectiveness
        if most >= lower.min_effectiveness:
            least = lower.min_effectiveness
            valid = f"must be below promote_to_established.min_effectiveness, which is {least}"
            faults.append(Fault("harmful_to_antipattern.max_effectiveness", most, valid))
        refuse(faults)
        return self


class ScoreWeights(InlineSection):
    """How much each signal counts in the composite score; the weights sum to 1."""

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
    """Defaults of search, recall and context."""

    default_limit: int = Field(20, ge=1, le=MAX_LIMIT)
    """Fewest facts and rules considered for a context; results on a page."""
    default_mode: Literal["hybrid", "semantic", "keyword"] = "hybrid"
    """Search mode, unless the caller names one."""
    context_token_budget: int = Field(3000, ge=0, le=1_000_000)
    """Most tokens of a context, unless the caller says."""
    score_weights: ScoreWeights = ScoreWeights()
    """Weights of the composite score; they sum to 1."""


class ContextConfig(SettingsSection):
    """How long contexts are, and how their tokens are shared; rules get what the shares leave."""

    facts_share: Share = Field(0.6, description="Share for facts.")
    episodes_share: Share = Field(0.1, description="Share for episodes; 0 leaves them out.")
    start_tokens: int = Field(400, ge=0, le=2_000)
    """Most tokens that an agent's session starts with."""
    prompt_tokens: int = Field(250, ge=0, le=2_000)
    """Most tokens that one prompt of an agent gets."""
    learn_from_use: bool = True
    """Whether memories that agents ignored rank lower at prompts, used ones higher."""

    @model_validator(mode="after")
    def _shares_fit_the_budget(self) -> Self:
        total = self.facts_share + self.episodes_share
        if total > 1 + ROUNDING:
            valid = f"the shares must sum to at most 1, these to {total:.6g}"
            refuse([Fault("", self.model_dump(), valid)])
        return self

    @property
    def rules_share(self) -> float:
        """What facts and episodes leave."""
        return max(0.0, 1 - self.facts_share - self.episodes_share)


class ConsolidationConfig(SettingsSection):
    """How a language model turns episodes into facts and rules, and what that may cost."""

    review: bool = False
    """Whether what the model extracts waits as proposals for approval."""
    daily_max_runs: int = Field(48, ge=0, le=100_000)
    """Most completions a day, half of them for one tenant; 0 sets no limit."""
    daily_max_cost_usd: float = Field(0.0, ge=0, le=1_000_000)
    """Most dollars a day; 0 sets no limit."""


class StatementsConfig(SettingsSection):
    """What users say outright in sessions."""

    enabled: bool = True
    """Whether "remember that …" and "always …" are stored without a model."""


class QuarantineConfig(SettingsSection):
    """Suspicious memories that programs store, held back until a person has seen them."""

    enabled: bool = True
    """Whether suspicious memories are quarantined until a person approves."""


class MemoryScheduleConfig(SettingsSection):
    """When the memory's jobs run; an entry of the same name in `[butler.schedule]` wins."""

    consolidate: Cron = Field("0 */6 * * *", description="When episodes are consolidated.")
    decay_sweep: Cron = Field("0 3 * * *", description="When memories fade and expire.")
    episode_cleanup: Cron = Field("0 4 * * *", description="When expired episodes go to the bin.")
    check_store: Cron = Field("30 4 * * *", description="When some of the store is checked.")


class MemoryModuleConfig(ModuleSection):
    """Memory of episodes, facts and rules."""

    butler_jobs: ClassVar[tuple[str, ...]] = tuple(MemoryScheduleConfig.model_fields)

    enabled: bool = Field(True, description="Whether this butler has a memory.")
    secrets: Secrets = "mask"
    """What happens to passwords, keys and other secrets in memories."""
    embedding_model: str = Field(BUNDLED_MODEL, min_length=1, max_length=200)
    """The embedding model."""
    embedding_dimensions: Annotated[int, Valid(str(STORED_DIMENSIONS))] = STORED_DIMENSIONS
    """Length of its vectors, which the tables fix."""
    embedding_model_directory: Annotated[str, Valid('the path of a directory, or ""')] = ""
    """Directory of your own embedding model; "" uses the bundled one."""
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
        """Limit a day's completions, and the share of one tenant."""
        budget, runs = self.consolidation, self.consolidation.daily_max_runs
        each = SpendingLimits(runs and max(TENANT_LEAST_RUNS, runs // 2))
        whole = SpendingLimits(runs, cost_usd=budget.daily_max_cost_usd, each=each)
        return whole, "modules.memory.consolidation"

    def checks(self) -> tuple[Check, ...]:
        """Check that the embedding model is there and works."""
        return (Check("embedding model", self.embedding_model_directory, prove_model),)

    @model_validator(mode="after")
    def _the_model_can_be_loaded_and_stored(self) -> Self:
        dimensions, model, faults = self.embedding_dimensions, self.embedding_model, []
        if dimensions != STORED_DIMENSIONS:
            valid = f"must be {STORED_DIMENSIONS}, the length of the vectors in the memory tables"
            faults.append(Fault("embedding_dimensions", dimensions, valid))
        if model != BUNDLED_MODEL and not self.embedding_model_directory:
            valid = (
                f'must be "{BUNDLED_MODEL}", or embedding_model_directory must name its directory'
            )
            faults.append(Fault("embedding_model", model, valid))
        refuse(faults)
        return self
