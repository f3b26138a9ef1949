-- refuse_consolidation_edge --
-- Says which step was refused.
create function refuse_consolidation_edge() returns trigger language plpgsql as $$
    begin
      raise exception 'an episode cannot go from % to %',
        old.consolidation_status, new.consolidation_status
      using errcode = 'integrity_constraint_violation';
    end
    $$;

-- edges --
-- No episode returns from knowledge, nor leaves the dead letters but by being queued again.
create trigger episodes_consolidation_edges before update of consolidation_status on episodes
for each row when (
  old.consolidation_status <> new.consolidation_status
  and (old.consolidation_status, new.consolidation_status) not in (
    ('pending', 'consolidated'), ('pending', 'failed'), ('pending', 'dead_letter'),
    ('failed', 'consolidated'), ('failed', 'dead_letter'),
    ('dead_letter', 'pending')
  )
)
execute function refuse_consolidation_edge();
