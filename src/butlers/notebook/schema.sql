-- agent_memories --
-- One note per agent and key.
create table if not exists agent_memories (
  id text not null primary key,
  agent_id text not null,
  key text not null,
  content text not null,
  txid text default null,
  status text default 'pending' check (status in ('pending', 'confirmed')),
  archived integer not null default 0 check (archived in (0, 1)),
  created_at text default (datetime('now')),
  updated_at text default (datetime('now')),
  unique (agent_id, key)
);

-- agent_memories_recent --
-- The live notes of an agent in the order of their last change.
create index if not exists agent_memories_recent on agent_memories (agent_id, archived, updated_at);

-- memory_owners --
-- A number for every agent, and how many of its notes have their terms counted.
create table if not exists memory_owners (
  number integer primary key,
  agent_id text not null unique,
  documents integer not null default 0
);

-- memory_documents --
-- Where a live note stands in the index: the owner's number above 32 bits, a position below them.
-- So one agent's notes are one range of numbers, and the full-text index seeks to it.
-- The numbers are our own because VACUUM may renumber the rows of agent_memories.
-- leading_terms holds the most frequent terms of a note that has too many to weigh them all.
create table if not exists memory_documents (
  number integer primary key,
  memory_id text not null unique references agent_memories (id) on delete cascade,
  leading_terms text,
  terms text
);

-- memory_documents_uncounted --
-- The notes whose terms wait to be counted; usually none.
create index if not exists memory_documents_uncounted on memory_documents (number) where terms is null;

-- memory_frequencies --
-- How many live notes of an owner hold a term.
create table if not exists memory_frequencies (
  owner integer not null,
  term text not null,
  documents integer not null,
  primary key (owner, term)
) without rowid;

-- memory_texts --
-- The texts of live notes for the full-text index.
create view if not exists memory_texts as
  select d.number, m.id as memory_id, m.agent_id, m.key, m.content
  from memory_documents d join agent_memories m on m.id = d.memory_id;

-- memory_fts --
-- The words of live notes; marks belong to words, as in tokenizer.py.
create virtual table if not exists memory_fts using fts5 (
  key, content, content = 'memory_texts', content_rowid = 'number',
  tokenize = "unicode61 remove_diacritics 2 categories 'L* N* M*'"
);

-- memory_texts_entered --
-- Add a note to the index at the end of its owner's range.
create trigger if not exists memory_texts_entered instead of insert on memory_texts
begin
  insert into memory_owners (agent_id)
    select new.agent_id
    where not exists (select 1 from memory_owners where agent_id = new.agent_id);
  insert into memory_documents (number, memory_id)
    select coalesce((select max(d.number) from memory_documents d
                     where d.number between o.number << 32 and (o.number + 1 << 32) - 1),
                    o.number << 32) + 1, new.memory_id
    from memory_owners o where o.agent_id = new.agent_id;
end;

-- agent_memories_inserted --
create trigger if not exists agent_memories_inserted after insert on agent_memories
when new.archived = 0
begin
  insert into memory_texts (memory_id, agent_id) values (new.id, new.agent_id);
end;

-- agent_memories_leaving --
-- Before the change, while the words to remove from the index are still known.
create trigger if not exists agent_memories_leaving
before update of id, agent_id, key, content, archived on agent_memories
begin
  delete from memory_documents where memory_id = old.id;
end;

-- agent_memories_returning --
create trigger if not exists agent_memories_returning
after update of id, agent_id, key, content, archived on agent_memories
when new.archived = 0
begin
  insert into memory_texts (memory_id, agent_id) values (new.id, new.agent_id);
end;

-- agent_memories_deleted --
create trigger if not exists agent_memories_deleted before delete on agent_memories
begin
  delete from memory_documents where memory_id = old.id;
end;

-- memory_documents_inserted --
create trigger if not exists memory_documents_inserted after insert on memory_documents
begin
  insert into memory_fts (rowid, key, content)
    select new.number, key, content from agent_memories where id = new.memory_id;
end;

-- memory_documents_deleted --
create trigger if not exists memory_documents_deleted before delete on memory_documents
begin
  insert into memory_fts (memory_fts, rowid, key, content)
    select 'delete', old.number, key, content from agent_memories where id = old.memory_id;
end;

-- memory_documents_counted --
create trigger if not exists memory_documents_counted after update of terms on memory_documents
when old.terms is null and new.terms is not null
begin
  insert into memory_frequencies (owner, term, documents)
    select new.number >> 32, t.key, 1 from json_each(new.terms) t where true
    on conflict (owner, term) do update set documents = documents + 1;
  update memory_owners set documents = documents + 1 where number = new.number >> 32;
end;

-- memory_documents_discounted --
create trigger if not exists memory_documents_discounted before delete on memory_documents
when old.terms is not null
begin
  update memory_frequencies set documents = documents - 1
    where owner = old.number >> 32 and term in (select t.key from json_each(old.terms) t);
  delete from memory_frequencies
    where owner = old.number >> 32 and documents <= 0
      and term in (select t.key from json_each(old.terms) t);
  update memory_owners set documents = documents - 1 where number = old.number >> 32;
end;

-- adopted --
-- Index the notes that are older than the index.
update agent_memories set archived = archived
where archived = 0 and id not in (select memory_id from memory_documents);
