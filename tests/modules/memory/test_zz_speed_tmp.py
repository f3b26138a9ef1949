import time, random
from butlers.modules.memory.store import consolidation
from modules.memory.consolidation_stories import tell, know
async def test_speed(memory, lineage, owner):
    ids=[await tell(memory, lineage, f"episode {i} about {i%7}") for i in range(50)]
    await know(memory, lineage, "a","b","c")
    await owner.execute("""insert into facts (id, tenant_id, subject, predicate, content, embedding, embedding_version_id, last_confirmed_at)
      select gen_random_uuid(), 'acme', 's'||i, 'p', 'c'||i, (select array_agg(random()) from generate_series(1,384) where i=i)::vector, (select id from embedding_versions limit 1), now() from generate_series(1,10000) i""")
    await owner.execute("analyze")
    async with memory.transaction(lineage) as tx:
        t=time.perf_counter(); r=await consolidation.find_known_facts(tx,"general",ids,100); print("SPEED",len(r),time.perf_counter()-t)
