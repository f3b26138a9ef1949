"""Tools that judge, and tools that forget."""

from butlers.memory.flows import feedback, forget
from butlers.memory.policy.inputs import checked_id
from butlers.memory.tools.calling import Desk
from butlers.memory.tools.parameters import (
    ConfirmableKind,
    Kind,
    MemoryId,
    Reason,
    RequestContext,
    RuleId,
)
from butlers.memory.tools.results import Confirmation, Forgetting, MarkedRule


class FeedbackTools:
    """Confirming, marking and forgetting."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def memory_confirm(
        self,
        memory_type: ConfirmableKind,
        memory_id: MemoryId,
        request_context: RequestContext = None,
    ) -> Confirmation:
        """Confirm that a fact or rule still holds: its confidence is full again.

        Use it when the user or the evidence bears out something remembered.
        Returns {confirmed}: false if you have no such one in force.
        """
        lineage = self._desk.lineage(request_context)
        done = await feedback.confirm_memory(self._desk.memory(), memory_type, memory_id, lineage)
        return Confirmation(confirmed=done)

    async def memory_mark_helpful(
        self, rule_id: RuleId, request_context: RequestContext = None
    ) -> MarkedRule:
        """Say that following a rule helped. Enough of these make it established, then proven.

        Returns the rule with its new counts, effectiveness_score and maturity.
        """
        lineage = self._desk.lineage(request_context)
        wanted = checked_id("rule_id", rule_id)
        rule = await feedback.mark_helpful(self._desk.memory(), wanted, lineage)
        return MarkedRule.model_validate(rule)

    async def memory_mark_harmful(
        self, rule_id: RuleId, reason: Reason = None, request_context: RequestContext = None
    ) -> MarkedRule:
        """Say that following a rule did harm, and why. It weighs four times a helpful mark.

        A rule that keeps doing harm is turned into a warning against itself, naming the reasons.
        Returns the rule with its new counts, effectiveness_score and maturity.
        """
        lineage = self._desk.lineage(request_context)
        wanted = checked_id("rule_id", rule_id)
        rule = await feedback.mark_harmful(self._desk.memory(), wanted, reason, lineage)
        return MarkedRule.model_validate(rule)

    async def memory_forget(
        self, memory_type: Kind, memory_id: MemoryId, request_context: RequestContext = None
    ) -> Forgetting:
        """Forget a memory: it is no longer found, but its history stays for audit.

        Use it when the user asks to forget something or it was never true; to correct a fact,
        store it again instead.
        Returns {forgotten}: false if you have no such memory or it was forgotten before.
        """
        lineage = self._desk.lineage(request_context)
        done = await forget.forget_memory(self._desk.memory(), memory_type, memory_id, lineage)
        return Forgetting(forgotten=done)
