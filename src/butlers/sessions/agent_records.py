"""Bring a record of any agent's transcript into the form in which Claude Code writes it.

Hooks run this for every line that may hold a prompt, so it imports very little.
"""

import re
from collections.abc import Iterator
from typing import Any

# Put before or after what a user typed: what a hook answered.
_CONTEXT = re.compile(
    r"(?s)\A\s*<(hook_context|qwen:user-prompt-submit-context)>(.*?)(?:</\1>\s*|\Z)"
)


def without_context(text: str) -> str:
    """Return a prompt without what a hook's answer added to it."""
    return _CONTEXT.sub("", text).strip()


def as_claude(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record of Gemini CLI, Qwen Code or a text session as Claude Code's; others as is."""
    message = record.get("message")
    if isinstance(message, dict):
        return _qwen(record, message) if "parts" in message else record
    if record.get("type") in ("user", "gemini") and "content" in record:
        return _gemini(record)
    return _text(record) if "role" in record and "text" in record else record


def _qwen(record: dict[str, Any], message: dict[str, Any]) -> dict[str, Any]:
    by_user = message.get("role") != "model"
    is_meta = by_user and record.get("provenance", "real_user") != "real_user"
    return _from_parts({**record, "isMeta": is_meta}, by_user, message["parts"])


def _gemini(record: dict[str, Any]) -> dict[str, Any]:
    """A message is written once more, under the same id, when something is added to it."""
    content = record["content"]
    parts = list(content) if isinstance(content, list) else [{"text": content}]
    for call in _objects(record.get("toolCalls")):
        parts += [{"functionCall": call}, *_objects(call.get("result"))]
    return _from_parts({**record, "once": record.get("id")}, record["type"] == "user", parts)


def _text(record: dict[str, Any]) -> dict[str, Any]:
    """A message that was handed over as text; what memory told has the role `memory`."""
    told = record["role"] == "memory"
    parts: list[Any] = [{"text": f"<hook_context>{record['text']}" if told else record["text"]}]
    for number, call in enumerate(_objects(record.get("calls"))):
        id = f"{record.get('id') or record.get('timestamp')} {number}"
        made = {"id": id, "name": call.get("name"), "args": call.get("input")}
        parts += [{"functionCall": made}, {"functionResponse": {"id": id, "response": call}}]
    return _from_parts(record, record["role"] != "assistant", parts)


def _from_parts(record: dict[str, Any], by_user: bool, parts: Any) -> dict[str, Any]:
    """Build a record from parts as Google's API has them."""
    content, contexts = list[dict[str, Any]](), list[str]()
    for part in _objects(parts):
        text = part.get("text")
        if isinstance(text, str) and not part.get("thought"):
            contexts += [context[1] for context in _CONTEXT.findall(text)]
            content.append({"type": "text", "text": without_context(text)})
        content += _calls(part)
    role = "user" if by_user else "assistant"
    told = {"type": "hook_additional_context", "content": contexts} if contexts else None
    message = {"role": role, "content": content}
    return {**record, "type": role, "message": message, "attachment": told}


def _calls(part: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for call in _objects([part.get("functionCall")]):
        given = {"name": call.get("name"), "input": call.get("args")}
        yield {"type": "tool_use", "id": call.get("id"), **given}
    for answer in _objects([part.get("functionResponse")]):
        for response in _objects([answer.get("response")]):
            output = str(response.get("error") or response.get("output") or "")
            result = {"content": output, "is_error": bool(response.get("error"))}
            yield {"type": "tool_result", "tool_use_id": answer.get("id"), **result}


def _objects(values: Any) -> list[dict[str, Any]]:
    return [one for one in values if isinstance(one, dict)] if isinstance(values, list) else []
