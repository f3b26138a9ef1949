"""Sessions of agents: hooks, spool, transcripts, extraction, contexts for prompts."""
