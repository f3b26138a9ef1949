"""Episodes, facts and rules with provenance, in the butler's own database."""
