"""The operations of a memory, each declared once."""

# isort: off
# Interfaces list operations in this order.
from butlers.memory.operations.operation_context import OPERATIONS, OperationContext
from butlers.memory.operations import storage, batch, retrieval, feedback, listing, entities
from butlers.memory.operations import upkeep, consolidation, projects, trust, conflicts
# isort: on

__all__ = [
    "OPERATIONS",
    "OperationContext",
    "batch",
    "conflicts",
    "consolidation",
    "entities",
    "feedback",
    "listing",
    "projects",
    "retrieval",
    "storage",
    "trust",
    "upkeep",
]
