-- memory_categories --
-- The category each note was given.
create table if not exists memory_categories (
  memory_id text not null primary key references agent_memories (id) on delete cascade,
  category text not null default 'general' check (category in (
    'config', 'code', 'person', 'project', 'credential', 'preference', 'fact', 'conversation',
    'task', 'general')),
  confidence real not null default 1.0 check (confidence between 0.0 and 1.0),
  updated_at text default (datetime('now'))
);

-- memory_embeddings --
-- The TF-IDF weights of each note as they were when it was saved.
create table if not exists memory_embeddings (
  memory_id text not null primary key references agent_memories (id) on delete cascade,
  vector text not null,
  vocabulary text not null default '',
  updated_at text default (datetime('now'))
);

-- memory_cross_refs --
-- The notes that share words with a note, at most ten for each source.
create table if not exists memory_cross_refs (
  source_id text not null references agent_memories (id) on delete cascade,
  target_id text not null references agent_memories (id) on delete cascade,
  score real not null default 0.0,
  created_at text default (datetime('now')),
  primary key (source_id, target_id),
  check (source_id <> target_id)
) without rowid;

-- memory_cross_refs_target --
create index if not exists memory_cross_refs_target on memory_cross_refs (target_id);
