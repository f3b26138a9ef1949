"""Whether a request was sent by a page of ours."""

from urllib.parse import urlsplit

from starlette.requests import Request


def is_from_here(request: Request) -> bool:
    """Whether browser and headers agree that our own origin sent it.

    Browsers that know `Sec-Fetch-Site` say so themselves; `Origin` must name the host we were
    asked for. A request with neither comes from no page, and has to prove itself otherwise.
    """
    if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return False
    origin = request.headers.get("origin")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")
