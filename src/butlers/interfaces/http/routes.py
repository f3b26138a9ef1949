"""The HTTP API, described by OpenAPI: operations as routes of each butler, and the other routes.

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
from butlers.interfaces.http import backups, butlers, fleet, injections, jobs, portability, sessions
from butlers.interfaces.http.access import DOCUMENTED_TOKEN, MEMORY, ButlerAccess, ScopedAccess
from butlers.interfaces.http.faults import FAILURES
from butlers.module import Module
from butlers.operation import Input, Operation, OperationEffect, Output, Route

Endpoint: TypeAlias = Callable[..., Awaitable[Any]]
Model = TypeVar("Model", bound=BaseModel)
_IN_PATH = re.compile(r"\{(\w+)\}")
_KINDS = ("fact", "rule", "episode")


def operation_routes() -> APIRouter:
    """Build the routes of every module's operations."""
    router = APIRouter()
    offered = [
        (module, operation, route)
        for module in KNOWN.values()
        for operation in module.operations
        if "http" not in operation.left_out
        for route in operation.routes
    ]
    # Fixed paths before those that take any word at the same position.
    for module, operation, route in sorted(offered, key=lambda item: "{" in item[2].path):
        effect = "reading" if operation.effect is OperationEffect.READS else "writing"
        router.add_api_route(
            f"/butlers/{{name}}{'/memory' if module.name == MEMORY else ''}{route.path}",
            _endpoint(module, operation, route),
            methods=[route.method],
            status_code=route.status,
            response_model=_response_model(operation, route),
            response_model_exclude_unset=True,
            name=operation.name,
            summary=operation.headline,
            description=operation.words,
            operation_id=f"{operation.tool}{route.path}",
            tags=[module.name, effect],
        )
    return router


def _endpoint(module: type[Module], operation: Operation, route: Route) -> Endpoint:
    names = _IN_PATH.findall(route.path)
    params = _request_body(operation, route, names)

    async def answer(access: ButlerAccess, **arguments: Any) -> Any:
        named = {name: arguments.pop(name) for name in names}
        if params is not None:
            arguments = arguments["params"].model_dump(exclude_unset=True)
        arguments |= _filled(named, operation)
        output = await access.perform(module.name, operation, arguments)
        if output is None:
            nothing = (
                f"{key}: you have no {key.removesuffix('_id')} {named[key]}" for key in named
            )
            raise NotFound(next(nothing, "nothing was found"))
        return {route.wraps: output} if route.wraps else output

    parameters = [_parameter("access", ScopedAccess)]
    parameters += [_parameter(name, _kind_of(name, operation)) for name in names]
    if params is not None:
        parameters.append(_params_parameter(params, route))
    vars(answer)["__signature__"] = inspect.Signature(parameters)
    return answer


def _response_model(operation: Operation, route: Route) -> Any:
    """Return a route's response model, in which a list may stand under a key."""
    if not route.wraps:
        return operation.output
    fields = {route.wraps: (operation.output, ...)}
    return _made(f"{operation.name.title()}Answer", Output, fields)


def _request_body(operation: Operation, route: Route, names: list[str]) -> type[Input] | None:
    """Return the model of the fields that the path does not fill; None without any."""
    taken = {*names, *_filled(dict.fromkeys(names, ""), operation)}
    fields = operation.fields.items()
    left = {name: (field.annotation, field) for name, field in fields if name not in taken}
    if len(left) == len(operation.fields):
        return operation.input_model if left else None
    return _made(operation.input_model.__name__, Input, left) if left else None


def _made(name: str, base: type[Model], fields: Mapping[str, Any]) -> type[Model]:
    """Create a model that has no source file to read docstrings from."""
    unwritten = {"use_attribute_docstrings": False}
    return create_model(name, __base__=base, __cls_kwargs__=unwritten, **fields)


def _filled(named: dict[str, Any], operation: Operation) -> dict[str, Any]:
    """Return the fields that path parameters fill."""
    filled: dict[str, Any] = {}
    for name, value in named.items():
        if name in operation.fields:
            filled[name] = value
        elif (kind := name.removesuffix("_id")) in _KINDS:
            filled |= {"memory_id": value, "memory_type": kind}
    return filled


def _kind_of(name: str, operation: Operation) -> Any:
    field = operation.fields.get(name) or operation.fields["memory_id"]
    return Annotated[field.annotation, *field.metadata, Path(description=field.description)]


def _params_parameter(params: type[Input], route: Route) -> inspect.Parameter:
    if route.method == "GET":
        return _parameter("params", Annotated[params, Query()])
    needed = any(field.is_required() for field in params.model_fields.values())
    return _parameter("params", params, inspect.Parameter.empty if needed else params())


def _parameter(name: str, kind: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)


router = APIRouter(prefix="/api", responses=FAILURES, dependencies=[DOCUMENTED_TOKEN])
router.include_router(butlers.router, prefix="/butlers/{name}")
router.include_router(jobs.router, prefix="/butlers/{name}/memory")
for part in (sessions, injections, portability):
    router.include_router(part.router, prefix="/butlers/{name}")
router.include_router(operation_routes())
router.include_router(fleet.router)
router.include_router(backups.router)
