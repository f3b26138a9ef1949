-- types --
-- Types of functions that have new names; those of the old ones stay with them.
create type query_terms as (
  counts bigint[], weights float[],
  numbers smallint[], readings text[], factors real[], term_weights float[]
);
create type scored_memories as (docs bigint[], scores float[]);
