-- columns --
-- What a piece is, and which piece replaced it.
alter table episodes add column piece text, add column past_by uuid,
  add constraint episodes_piece check (piece in ('said', 'answer', 'decision', 'failure', 'files')),
  add constraint episodes_piece_is_read check (piece is null or consolidated),
  add constraint episodes_past_by check (past_by is null or piece is not null);

-- indexes --
-- Whole episodes, and the pieces of an episode.
drop index episodes_capacity;
create index episodes_capacity on episodes (tenant_id, created_at, id)
where consolidation_status = 'consolidated' and piece is null;
create index episodes_whole on episodes (tenant_id, created_at desc, id) where piece is null;
create index episodes_part on episodes (tenant_id, (metadata ->> 'part')) where piece is not null;
create index episodes_latest_piece on episodes (tenant_id, said_at desc, place desc, id)
where piece is not null;
create index episodes_decided on episodes (tenant_id, session_id) where piece = 'decision';
create index episodes_past on episodes (tenant_id, past_by) where past_by is not null;
