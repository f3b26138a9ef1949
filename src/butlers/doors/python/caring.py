"""Judging, linking and forgetting memories."""

from collections.abc import Mapping
from typing import Any

from butlers.doors.python.acting import Acting, Id
from butlers.memory.flows import feedback, forget, links, restore


class Caring(Acting):
    """What is learned from using memories."""

    __slots__ = ()

    async def confirm(self, memory_id: Id, memory_type: str | None = None) -> bool:
        """Say that a fact or rule still holds; false when there is none in use."""
        ref = await self.find(memory_id, memory_type)
        if ref is None:
            return False
        return await feedback.confirm_memory(self.handle, ref.type, ref.id, self.lineage)

    async def mark_helpful(
        self, rule_id: Id, context: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Say that a rule helped; the rule, which may have risen a step."""
        rule = await self.must_find(rule_id, "rule")
        return await feedback.mark_helpful(self.handle, rule.id, self.lineage, context)

    async def mark_harmful(
        self, rule_id: Id, reason: str | None = None, context: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Say that a rule harmed; the rule, which may have fallen or become a warning."""
        rule = await self.must_find(rule_id, "rule")
        return await feedback.mark_harmful(self.handle, rule.id, reason, self.lineage, context)

    async def forget(self, memory_id: Id, memory_type: str | None = None) -> bool:
        """Forget a memory, whose history stays; false when there was nothing to forget."""
        ref = await self.find(memory_id, memory_type)
        if ref is None:
            return False
        return await forget.forget_memory(self.handle, ref.type, ref.id, self.lineage)

    async def restore(self, memory_id: Id, memory_type: str | None = None) -> bool:
        """Take back that a fact or rule was forgotten; false when there is none that was."""
        ref = await self.find(memory_id, memory_type)
        if ref is None:
            return False
        return await restore.restore_memory(self.handle, ref.type, ref.id, self.lineage)

    async def create_link(self, source_id: Id, relation: str, target_id: Id) -> bool:
        """Link two memories; false when they are linked so already.

        `relation` is derived_from, supports, contradicts, supersedes or related_to.
        """
        source, target = await self.must_find(source_id), await self.must_find(target_id)
        return await links.create_link(
            self.handle, source.type, source.id, target.type, target.id, relation, self.lineage
        )

    async def get_links(self, memory_id: Id, direction: str = "both") -> list[dict[str, Any]]:
        """The links that leave a memory (outgoing), lead to it (incoming), or both."""
        ref = await self.must_find(memory_id)
        return await links.get_links(self.handle, ref.type, ref.id, direction, self.lineage)
