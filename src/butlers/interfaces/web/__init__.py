"""The pages: what butlers believe, why, and how to put it right; scripts are optional."""
