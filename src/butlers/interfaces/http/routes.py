"""Operations as routes of the HTTP API, described by OpenAPI.

A route takes from its path what the path names, the rest from the query of a GET or else from the
body. `{fact_id}` in the path of an operation on any memory says of which kind the memory is.
"""

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, TypeAlias, TypeVar

from fastapi import APIRouter, Path, Query
from pydantic import BaseModel, create_model

from butlers.errors import NotFound
from butlers.host.registry import KNOWN
from butlers.interfaces.http.butler_access import MEMORY, ButlerAccess, SeatedInScopes
from butlers.module import Module
from butlers.operation import Input, Operation, OperationEffect, Output, Route

Endpoint: TypeAlias = Callable[..., Awaitable[Any]]
Model = TypeVar("Model", bound=BaseModel)
_IN_PATH = re.compile(r"\{(\w+)\}")
_KINDS = ("fact", "rule", "episode")


def operation_routes() -> APIRouter:
    """Every operation of every module below the butler's name."""
    router = APIRouter()
    offered = [
        (module, operation, route)
        for module in KNOWN.values()
        for operation in module.operations
        if "http" not in operation.left_out
        for route in operation.routes
    ]
    # Fixed paths before those that take any word in the same place.
    for module, operation, route in sorted(offered, key=lambda one: "{" in one[2].path):
        _add(router, module, operation, route)
    return router


def _add(router: APIRouter, module: type[Module], operation: Operation, route: Route) -> None:
    router.add_api_route(
        f"/butlers/{{name}}{_below(module)}{route.path}",
        _endpoint(module, operation, route),
        methods=[route.method],
        status_code=route.status,
        response_model=_response_model(operation, route),
        response_model_exclude_unset=True,
        name=operation.name,
        summary=operation.headline,
        description=operation.words,
        operation_id=f"{operation.tool}{route.path}",
        tags=[module.name, "reading" if operation.effect is OperationEffect.READS else "writing"],
    )


def _below(module: type[Module]) -> str:
    return "/memory" if module.name == MEMORY else ""


def _endpoint(module: type[Module], operation: Operation, route: Route) -> Endpoint:
    places = _IN_PATH.findall(route.path)
    asked = _request_body(operation, route, places)

    async def answer(seat: ButlerAccess, **given: Any) -> Any:
        named = {place: given.pop(place) for place in places}
        if asked is not None:
            given = given["asked"].model_dump(exclude_unset=True)
        answered = await seat.perform(
            module.name, operation, {**given, **_filled(named, operation)}
        )
        if answered is None:
            raise NotFound(_nothing(named))
        return {route.wraps: answered} if route.wraps else answered

    parameters = [_parameter("seat", SeatedInScopes)]
    parameters += [_parameter(place, _kind_of(place, operation)) for place in places]
    if asked is not None:
        parameters.append(_asked_parameter(asked, route))
    vars(answer)["__signature__"] = inspect.Signature(parameters)
    return answer


def _nothing(named: dict[str, Any]) -> str:
    for place, value in named.items():
        return f"{place}: you have no {place.removesuffix('_id')} {value}"
    return "you have nothing that is what was asked for"


def _response_model(operation: Operation, route: Route) -> Any:
    """What a route answers; a list may stand under a key."""
    if not route.wraps:
        return operation.output
    title = f"{operation.name.title()}Answer"
    return _made(title, Output, {route.wraps: (operation.output, ...)})


def _request_body(operation: Operation, route: Route, places: list[str]) -> type[Input] | None:
    """What a route asks for beside its path; None for nothing."""
    taken = {*places, *_filled(dict.fromkeys(places, ""), operation)}
    left = {
        name: (field.annotation, field)
        for name, field in operation.fields.items()
        if name not in taken
    }
    if not left:
        return None
    if len(left) == len(operation.fields):
        return operation.input_model
    return _made(operation.input_model.__name__, Input, left)


def _made(name: str, base: type[Model], fields: Mapping[str, Any]) -> type[Model]:
    """A model that stands in no file, where nobody need look for what is said of its fields."""
    unwritten = {"use_attribute_docstrings": False}
    return create_model(name, __base__=base, __cls_kwargs__=unwritten, **fields)


def _filled(named: dict[str, Any], operation: Operation) -> dict[str, Any]:
    """The fields that a path fills in."""
    filled: dict[str, Any] = {}
    for place, value in named.items():
        kind = place.removesuffix("_id")
        if place in operation.fields:
            filled[place] = value
        elif kind in _KINDS:
            filled |= {"memory_id": value, "memory_type": kind}
    return filled


def _kind_of(place: str, operation: Operation) -> Any:
    field = operation.fields.get(place) or operation.fields["memory_id"]
    return Annotated[field.annotation, *field.metadata, Path(description=field.description)]


def _asked_parameter(asked: type[Input], route: Route) -> inspect.Parameter:
    if route.method == "GET":
        return _parameter("asked", Annotated[asked, Query()])
    needed = any(field.is_required() for field in asked.model_fields.values())
    return _parameter("asked", asked, inspect.Parameter.empty if needed else asked())


def _parameter(name: str, kind: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)
