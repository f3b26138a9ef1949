-- said_at --
-- Null for what was stored when it was said, as everything was before this revision.
alter table facts add column said_at timestamptz;
