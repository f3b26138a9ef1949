"""Where the operations of the memory are declared, in the order doors list them."""

from butlers.operation import OperationTable

OPERATIONS = OperationTable("memory_")
