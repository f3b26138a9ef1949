-- whose --
-- Whose memories a completion was for; empty for the butler itself, as everything was before.
alter table language_model_spend add column tenant_id text not null default '';

-- unreached --
-- That nobody answered is not that somebody failed.
alter table language_model_spend drop constraint language_model_spend_outcome;

-- outcomes --
-- The words for what became of a completion.
alter table language_model_spend add constraint language_model_spend_outcome
check (outcome in ('running', 'ok', 'failed', 'unreached'));

-- latest --
-- How it went the last times is asked before every completion.
create index language_model_spend_latest on language_model_spend (account, id desc);
