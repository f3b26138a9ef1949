-- episodes --
-- What is less trusted among them.
create index episodes_less_trusted on episodes (tenant_id, id)
where trust < 3 or quarantined is not null;

-- facts --
-- What is less trusted among them.
create index facts_less_trusted on facts (tenant_id, id)
where trust < 3 or quarantined is not null;

-- rules --
-- What is less trusted among them.
create index rules_less_trusted on rules (tenant_id, id)
where trust < 3 or quarantined is not null;
