"""Pages to sign in and out."""

from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from butlers.auth.rights import INCLUDED_RIGHTS, Right
from butlers.auth.sign_in import SignInLinks
from butlers.auth.tokens import TokenRecord
from butlers.interfaces.http.access import app_state_of
from butlers.interfaces.web.browser_sessions import COOKIE, give_cookie
from butlers.interfaces.web.pages import go_to, render
from butlers.interfaces.web.visits import Sending, sent_form, sessions_of

FIRST_PAGE = "/memory"
router = APIRouter()
_LINK_USED = (
    "this link was already used or is older than ten minutes; run `butlers open` for a new one, "
    "or sign in with a token"
)
_UNKNOWN = "Unknown token. Check that you pasted all of it."
_ONLY_HOOKS = "This token is for agent hooks and cannot open pages."
_LIMITED = "This token is limited to scopes, but pages show everything. Use another token."


@router.get("/")
async def front() -> Response:
    """Redirect to the fleet."""
    return go_to(FIRST_PAGE)


@router.get("/sign-in")
async def ask(request: Request, next: Annotated[str, Query(max_length=2_000)] = "") -> Response:
    """Show the form for a token."""
    return render(request, "sign_in.html", next=_own_path(next), refused="")


@router.post("/sign-in")
async def sign_in(request: Request) -> Response:
    """Sign in with a token."""
    form = await sent_form(request)
    token, path = form["token"].strip(), _own_path(form["next"])
    tokens = app_state_of(request).tokens
    await tokens.refresh(token)
    record = tokens.verify(token)
    refused = _refusal(record) if record else tokens.refusal(token) or _UNKNOWN
    if refused:
        return render(request, "sign_in.html", 403, next=path, refused=refused)
    response = go_to(path)
    await sessions_of(request).end(request)
    give_cookie(request, response, await sessions_of(request).begin(record))
    return response


@router.get("/sign-in/once/{secret}")
async def sign_in_once(request: Request, secret: Annotated[str, Path(max_length=100)]) -> Response:
    """Sign in with a link of `butlers up` or `butlers open`."""
    if "prefetch" in request.headers.get("sec-purpose", ""):
        raise HTTPException(403, "this link was not opened yet")
    link = SignInLinks(app_state_of(request).home.invitations_directory).redeem(secret)
    if link is None:
        raise HTTPException(403, _LINK_USED)
    # Not a redirect: a browser that came from another site would not send its new cookie along.
    response = render(request, "welcome.html", next=FIRST_PAGE)
    give_cookie(
        request, response, await sessions_of(request).begin(None, may_decide=link.may_decide)
    )
    return response


@router.post("/sign-out")
async def sign_out(request: Request, _: Sending) -> Response:
    """End the session, here and in the browser."""
    await sessions_of(request).end(request)
    response = go_to("/sign-in")
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
    return response


def _refusal(record: TokenRecord) -> str:
    if record.scopes:
        return _LIMITED
    return "" if Right.READ in INCLUDED_RIGHTS[record.rights] else _ONLY_HOOKS


def _own_path(path: str) -> str:
    """Return the path if it is one of ours, else the first page (no open redirect)."""
    ours = path.startswith("/") and not path.startswith(("//", "/\\", "/sign-in"))
    return path if ours and path.isprintable() and "\\" not in path else FIRST_PAGE
