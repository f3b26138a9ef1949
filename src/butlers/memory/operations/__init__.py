"""The operations of a memory, each declared once."""

# isort: off
# Interfaces list operations in this order.
from butlers.memory.operations.operation_context import OPERATIONS, OperationContext
from butlers.memory.operations import storage, batch, retrieval, feedback, listing  # noqa: F401
from butlers.memory.operations import entities, upkeep, consolidation, projects  # noqa: F401
from butlers.memory.operations import trust, conflicts, decisions, inbox  # noqa: F401
# isort: on

__all__ = ["OPERATIONS", "OperationContext"]
