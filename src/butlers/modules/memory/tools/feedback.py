"""Tools that judge, and tools that forget."""

from typing import Any

from butlers.modules.memory.flows import feedback, forget
from butlers.modules.memory.policy.inputs import checked_id
from butlers.modules.memory.tools.calling import Desk, RequestContext, traced


class FeedbackTools:
    """Confirming, marking and forgetting."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def memory_confirm(
        self, memory_type: str, memory_id: str, request_context: RequestContext = None
    ) -> dict[str, Any]:
        """Confirm that a fact or rule still holds: its confidence is full again.

        Use it when the user or the evidence bears out something remembered.
        memory_type: fact or rule. Returns {confirmed}: false if there is no such one in force.
        """
        lineage = self._desk.lineage(request_context)
        done = await feedback.confirm_memory(self._desk.memory(), memory_type, memory_id, lineage)
        return traced({"confirmed": done}, lineage)

    async def memory_mark_helpful(
        self, rule_id: str, request_context: RequestContext = None
    ) -> dict[str, Any]:
        """Say that following a rule helped. Enough of these make it established, then proven.

        Returns the rule with its new counts, effectiveness_score and maturity.
        """
        lineage = self._desk.lineage(request_context)
        wanted = checked_id("rule_id", rule_id)
        rule = await feedback.mark_helpful(self._desk.memory(), wanted, lineage)
        return traced(rule, lineage)

    async def memory_mark_harmful(
        self, rule_id: str, reason: str | None = None, request_context: RequestContext = None
    ) -> dict[str, Any]:
        """Say that following a rule did harm, and why. It weighs four times a helpful mark.

        A rule that keeps doing harm is turned into a warning against itself, naming the reasons.
        Returns the rule with its new counts, effectiveness_score and maturity.
        """
        lineage = self._desk.lineage(request_context)
        wanted = checked_id("rule_id", rule_id)
        rule = await feedback.mark_harmful(self._desk.memory(), wanted, reason, lineage)
        return traced(rule, lineage)

    async def memory_forget(
        self, memory_type: str, memory_id: str, request_context: RequestContext = None
    ) -> dict[str, Any]:
        """Forget a memory: it is no longer found, but its history stays for audit.

        Use it when the user asks to forget something or it was never true; to correct a fact,
        store it again instead. memory_type: episode, fact or rule.
        Returns {forgotten}: false if there is no such memory or it was forgotten before.
        """
        lineage = self._desk.lineage(request_context)
        done = await forget.forget_memory(self._desk.memory(), memory_type, memory_id, lineage)
        return traced({"forgotten": done}, lineage)
