"""The table of operations: everything a memory can be asked to do, each declared once."""

# isort: off
# Doors list operations in this order.
from butlers.memory.operations.table import OPERATIONS
from butlers.memory.operations import storage, batch, retrieval, feedback, listing, entities
from butlers.memory.operations import upkeep, consolidation, projects, trust
from butlers.memory.operations import conflicts
from butlers.memory.operations.context import OperationContext
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
