"""The home of the API's tests serves the pages' too."""

from doors.http.conftest import caller, daemon, stranger, tenant

__all__ = ["caller", "daemon", "stranger", "tenant"]
