-- claims --
-- An agent that reads episodes is shown whom and what they name, and may say which it means.
alter table memory_claims add column entity_ids uuid[] not null default '{}';
