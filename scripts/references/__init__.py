"""Write the generated pages of `docs/`; tests check that they are up to date."""
