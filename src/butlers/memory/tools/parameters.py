"""The parameters that several tools share, described for the model that fills them in.

Vocabularies and bounds are advertised here and enforced by the flows, whose refusals say more
than a schema's.
"""

from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from butlers.memory.model import EntityType, MemoryType, Permanence, SearchMode


class OwnTenant(str):
    """What `tenant_id` is when the caller left it out: not a claim to any tenant by that name."""


def words(vocabulary: type[StrEnum]) -> dict[str, Any]:
    """A vocabulary as a schema advertises it."""
    return {"enum": [word.value for word in vocabulary]}


RequestContext = Annotated[
    dict[str, Any] | None,
    Field(
        description='Optional lineage, e.g. {"request_id": "r-17"}: the request_id is kept with '
        "every change and comes back with the answer."
    ),
]
Kind = Annotated[
    str,
    Field(description="Which kind of memory the id is of.", json_schema_extra=words(MemoryType)),
]
ConfirmableKind = Annotated[
    str,
    Field(
        description="Which kind of memory the id is of; an episode cannot be confirmed.",
        json_schema_extra={"enum": [MemoryType.FACT.value, MemoryType.RULE.value]},
    ),
]
MemoryId = Annotated[str, Field(description="The memory's id, as storing or finding it gave it.")]
RuleId = Annotated[str, Field(description="The rule's id, as storing or finding it gave it.")]
EntityId = Annotated[
    str, Field(description="The entity's id, as entity_resolve or entity_create gave it.")
]
Butler = Annotated[str, Field(description="The butler's name, e.g. general.")]
Importance = Annotated[float, Field(description="0 (trivial) to 10 (vital).")]
Scope = Annotated[
    str, Field(description='"global" for every butler, or the name of the one it is for.')
]
ScopeSeen = Annotated[
    str | None,
    Field(
        description="A butler's name: only what is global or of that butler. Left out: everything."
    ),
]
Tags = Annotated[list[str] | None, Field(description="Free labels.")]
HowLong = Annotated[
    str,
    Field(
        description="How long it stays true unless confirmed: permanent (a birthplace), stable "
        "(years), standard (months), volatile (weeks), ephemeral (days).",
        json_schema_extra=words(Permanence),
    ),
]
Kinds = Annotated[
    list[str] | None,
    Field(description="Any of episode, fact, rule. Left out: all of them."),
]
Mode = Annotated[
    str,
    Field(
        description="hybrid (by meaning and words), semantic (meaning) or keyword (words).",
        json_schema_extra=words(SearchMode),
    ),
]
Limit = Annotated[int, Field(description="How many memories to return at most.")]
EntityKind = Annotated[
    str, Field(description="What the entity is.", json_schema_extra=words(EntityType))
]
OwnTenantId = Annotated[
    str | None, Field(description="Your own tenant or nothing; any other is refused.")
]
Aliases = Annotated[list[str] | None, Field(description="Other names it goes by.")]
Metadata = Annotated[
    dict[str, Any] | None, Field(description="Anything else to keep about it, as a JSON object.")
]
EpisodeText = Annotated[str, Field(description="What happened, in a few sentences.")]
SessionId = Annotated[str | None, Field(description="The session's UUID, if there was one.")]
Subject = Annotated[str, Field(description="Who or what it is about, e.g. Ann.")]
Predicate = Annotated[str, Field(description="Which property it gives, e.g. allergy.")]
FactText = Annotated[str, Field(description="What is true, e.g. peanuts; carries an EpiPen.")]
KnownEntityId = Annotated[
    str | None,
    Field(description="The subject's entity, from entity_resolve or entity_create, if known."),
]
RuleText = Annotated[str, Field(description="One instruction, in a sentence or two.")]
QueryText = Annotated[str, Field(description="What is sought: a question, a sentence or words.")]
Topic = Annotated[str, Field(description="What it should be about: a question or a few words.")]
Prompt = Annotated[str, Field(description="What you were asked to do, in the user's words.")]
MinConfidence = Annotated[
    float,
    Field(description="0 to 1; facts and rules that have faded below it are left out."),
]
TokenBudget = Annotated[int | None, Field(description="How long the text may be at most.")]
Reason = Annotated[str | None, Field(description="What harm was done, in a sentence.")]
Name = Annotated[str, Field(description="What it is called in full.")]
NewName = Annotated[str | None, Field(description="What it is called from now on.")]
SoughtName = Annotated[str, Field(description="The name as you heard it; case does not matter.")]
Fuzzy = Annotated[bool, Field(description="Whether to forgive misspelling.")]
