-- primary --
-- The end of a primary's log, and the identity, start and timeline of the server.
select pg_current_wal_insert_lsn() as position, s.system_identifier as server,
  pg_postmaster_start_time() as started_at,
  ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer as timeline
from pg_control_system() as s

-- replica --
-- How far a replica has replayed the log, and the identity, start and timeline of the server.
select pg_is_in_recovery() as follows, pg_last_wal_replay_lsn() as position,
  s.system_identifier as server, pg_postmaster_start_time() as started_at,
  greatest(c.timeline_id, r.min_recovery_end_timeline) as timeline
from pg_control_system() as s, pg_control_checkpoint() as c, pg_control_recovery() as r
