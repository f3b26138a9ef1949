"""The settings of the memory: defaults, what is refused, and why."""

import pytest
from pydantic import ValidationError

from butlers.memory.limits import MAX_LIMIT
from butlers.memory.settings import ContextConfig, MemoryModuleConfig, RetrievalConfig

# Each setting the module must have, with its default.
REQUIRED = {
    "embedding_model": "all-MiniLM-L6-v2",
    "embedding_dimensions": 384,
    "episodes.default_ttl_days": 7,
    "episodes.max_entries": 10000,
    "facts.retrieval_confidence_threshold": 0.2,
    "facts.expiry_confidence_threshold": 0.05,
    "rules.promote_to_established.min_successes": 5,
    "rules.promote_to_established.min_effectiveness": 0.6,
    "rules.promote_to_proven.min_successes": 15,
    "rules.promote_to_proven.min_effectiveness": 0.8,
    "rules.promote_to_proven.min_age_days": 30,
    "rules.harmful_to_antipattern.min_harmful": 3,
    "rules.harmful_to_antipattern.max_effectiveness": 0.3,
    "retrieval.default_mode": "hybrid",
    "retrieval.default_limit": 20,
    "retrieval.context_token_budget": 3000,
    "retrieval.score_weights.relevance": 0.4,
    "retrieval.score_weights.importance": 0.3,
    "retrieval.score_weights.recency": 0.2,
    "retrieval.score_weights.confidence": 0.1,
    "schedule.consolidate": "0 */6 * * *",
    "schedule.decay_sweep": "0 3 * * *",
    "schedule.episode_cleanup": "0 4 * * *",
}


def nested(path, value):
    for key in reversed(path.split(".")):
        value = {key: value}
    return value


def read(settings, path):
    for key in path.split("."):
        settings = getattr(settings, key)
    return settings


def refusal(**document):
    with pytest.raises(ValidationError) as caught:
        MemoryModuleConfig.model_validate(document)
    return str(caught.value)


@pytest.mark.contract("R23.1")
def test_retrieval_has_the_defaults_of_the_contract():
    retrieval = MemoryModuleConfig().retrieval
    assert retrieval.context_token_budget == 3000
    assert retrieval.default_limit == 20
    assert retrieval.default_mode == "hybrid"
    assert retrieval.score_weights.model_dump() == {
        "relevance": 0.4,
        "importance": 0.3,
        "recency": 0.2,
        "confidence": 0.1,
    }


@pytest.mark.contract("R23.2")
def test_what_is_given_overrides_the_default_and_leaves_the_others():
    settings = MemoryModuleConfig.model_validate(
        {"retrieval": {"default_limit": 7, "default_mode": "keyword", "context_token_budget": 500}}
    )
    assert settings.retrieval == RetrievalConfig(
        default_limit=7, default_mode="keyword", context_token_budget=500
    )
    assert settings.episodes == MemoryModuleConfig().episodes


@pytest.mark.contract("N8")
@pytest.mark.parametrize(("path", "default"), REQUIRED.items())
def test_each_required_setting_has_its_default(path, default):
    assert read(MemoryModuleConfig(), path) == default


@pytest.mark.contract("N8")
@pytest.mark.parametrize("path", REQUIRED)
@pytest.mark.parametrize("wrong", ["not this", -1, None, [1]])
def test_each_required_setting_is_validated(path, wrong):
    with pytest.raises(ValidationError):
        MemoryModuleConfig.model_validate(nested(path, wrong))


@pytest.mark.parametrize("wrong", ["7", 7.5, True, 0, 36_501])
def test_a_count_of_days_is_a_whole_number_within_bounds(wrong):
    with pytest.raises(ValidationError):
        MemoryModuleConfig.model_validate({"episodes": {"default_ttl_days": wrong}})


def test_a_whole_number_will_do_for_a_number():
    settings = MemoryModuleConfig.model_validate({"facts": {"retrieval_confidence_threshold": 1}})
    assert settings.facts.retrieval_confidence_threshold == 1.0


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), 1.01, -0.01])
def test_a_threshold_is_a_share(wrong):
    with pytest.raises(ValidationError):
        MemoryModuleConfig.model_validate({"facts": {"retrieval_confidence_threshold": wrong}})


def test_expiry_lies_below_retrieval():
    same = {"retrieval_confidence_threshold": 0.2, "expiry_confidence_threshold": 0.2}
    assert "must be below retrieval_confidence_threshold, which is 0.2" in refusal(facts=same)
    alone = {"retrieval_confidence_threshold": 0.04}
    assert "which is 0.04" in refusal(facts=alone)


def test_proving_is_never_easier_than_establishing():
    message = refusal(rules={"promote_to_proven": {"min_successes": 4, "min_effectiveness": 0.5}})
    assert "promote_to_established.min_successes, which is 5" in message
    assert "promote_to_established.min_effectiveness, which is 0.6" in message


def test_an_established_rule_is_no_antipattern():
    message = refusal(rules={"harmful_to_antipattern": {"max_effectiveness": 0.6}})
    assert "must be below promote_to_established.min_effectiveness, which is 0.6" in message


def test_weights_sum_to_one():
    assert "these sum to 1.1" in refusal(retrieval={"score_weights": {"relevance": 0.5}})
    thirds = {"relevance": 0.333333, "importance": 0.333333, "recency": 0.333334, "confidence": 0}
    settings = MemoryModuleConfig.model_validate({"retrieval": {"score_weights": thirds}})
    assert settings.retrieval.score_weights.recency == 0.333334


def test_shares_of_the_context_fit_the_budget():
    assert "these to 1.1" in refusal(context={"facts_share": 0.7, "episodes_share": 0.4})
    assert ContextConfig().rules_share == pytest.approx(0.3)
    assert ContextConfig(facts_share=0.2).rules_share == pytest.approx(0.7)
    assert ContextConfig(facts_share=0.7, episodes_share=0.3).rules_share == pytest.approx(0)


def test_the_default_limit_may_be_asked_for():
    assert RetrievalConfig(default_limit=MAX_LIMIT).default_limit == MAX_LIMIT
    assert "less than or equal to 100" in refusal(retrieval={"default_limit": MAX_LIMIT + 1})


def test_a_tenant_gets_half_of_the_days_runs_and_never_less_than_a_working_day_needs():
    def share(runs):
        limits, _ = MemoryModuleConfig(consolidation={"daily_max_runs": runs}).limits()
        return limits.each.runs

    assert [share(runs) for runs in (48, 100, 10, 0)] == [24, 50, 24, 0]


def test_vectors_have_the_length_of_the_tables():
    assert "must be 384" in refusal(embedding_dimensions=768)
    own = {"embedding_dimensions": 768, "embedding_model_directory": "/models/mine"}
    assert "must be 384" in refusal(**own)


def test_another_model_needs_its_directory():
    assert "embedding_model_directory must name" in refusal(embedding_model="e5-small")
    own = {"embedding_model": "e5-small", "embedding_model_directory": "/models/e5-small"}
    assert MemoryModuleConfig.model_validate(own).embedding_model == "e5-small"


@pytest.mark.contract("P3")
@pytest.mark.parametrize("cron", ["* * *", "61 * * * *", "0 0 31 4 *", "daily", " "])
def test_a_cron_that_does_not_parse_is_refused(cron):
    with pytest.raises(ValidationError):
        MemoryModuleConfig.model_validate({"schedule": {"consolidate": cron}})


def test_an_empty_cron_is_valid():
    settings = MemoryModuleConfig.model_validate({"schedule": {"decay_sweep": ""}})
    assert settings.schedule.decay_sweep == ""


def test_settings_cannot_be_changed():
    settings = MemoryModuleConfig()
    with pytest.raises(ValidationError, match="frozen"):
        settings.episodes.max_entries = 5
    assert settings.episodes.max_entries == 10000
