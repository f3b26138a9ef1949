"""A database whose tenants are spread over the nodes of a Citus cluster."""
