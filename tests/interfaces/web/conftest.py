"""The home of the API's tests serves the pages' too."""

from interfaces.http.conftest import caller, daemon, stranger, tenant

__all__ = ["caller", "daemon", "stranger", "tenant"]
