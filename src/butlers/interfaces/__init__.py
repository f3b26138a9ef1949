"""How a butler is reached: parse, call an operation, show."""
