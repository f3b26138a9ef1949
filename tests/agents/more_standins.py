"""Stand-ins for two more APIs: Google's, and the chat completions that many services offer."""

import json
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from llm.standins import Call, Say, StandIn, Step

_USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


def _events(events: list[str]) -> Response:
    return Response("".join(f"data: {one}\n\n" for one in events), media_type="text/event-stream")


class Chat(StandIn):
    """Chat completions, as OpenAI has them."""

    path = "/v1/chat/completions"
    signed_in = "openai"

    async def respond(self, request: Request) -> Response:
        step = await self.next_step(request)
        about = {"id": f"chat_{len(self.requests)}", "created": 1, "model": "m"}
        reason = "tool_calls" if isinstance(step, Call) else "stop"
        if not self.requests[-1].get("stream"):
            choice = {"index": 0, "message": self._message(step), "finish_reason": reason}
            whole = {**about, "object": "chat.completion", "choices": [choice], "usage": _USAGE}
            return JSONResponse(whole)
        chunk = {**about, "object": "chat.completion.chunk"}
        said = {"index": 0, "delta": self._message(step), "finish_reason": None}
        done = {"index": 0, "delta": {}, "finish_reason": reason}
        chunks = [{**chunk, "choices": [said]}, {**chunk, "choices": [done], "usage": _USAGE}]
        return _events([*map(json.dumps, chunks), "[DONE]"])

    def _message(self, step: Step) -> dict[str, Any]:
        if isinstance(step, Call):
            function = {"name": step.tool, "arguments": json.dumps(step.arguments)}
            call = {"index": 0, "id": f"call_{len(self.requests)}", "type": "function"}
            return {"role": "assistant", "tool_calls": [{**call, "function": function}]}
        return {"role": "assistant", "content": step.text if isinstance(step, Say) else ""}


class Google(StandIn):
    """Google's `generateContent`, streamed or not."""

    path = "/v1beta/models/{call}"
    signed_in = "gemini-api-key"

    async def respond(self, request: Request) -> Response:
        step = await self.next_step(request)
        part: dict[str, Any] = {"text": step.text if isinstance(step, Say) else ""}
        if isinstance(step, Call):
            part = {"functionCall": {"name": step.tool, "args": step.arguments}}
        content = {"role": "model", "parts": [part]}
        usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
        candidate = {"content": content, "finishReason": "STOP", "index": 0}
        answer = {"candidates": [candidate], "usageMetadata": usage}
        if "stream" in request.path_params["call"]:
            return _events([json.dumps(answer)])
        return JSONResponse(answer)
