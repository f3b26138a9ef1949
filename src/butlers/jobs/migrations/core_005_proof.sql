-- proven --
-- A tenant's rows are there for whoever proves to act for it, not for whoever says so.
alter policy session_log_own_tenant on session_log
using (tenant_id = (select proven_tenant())) with check (tenant_id = (select proven_tenant()));
