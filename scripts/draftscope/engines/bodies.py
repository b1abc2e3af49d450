"""Responses as clients store them: bare, in a batch's output, or beside a prompt id."""

from __future__ import annotations

from draftscope.engines.fields import Object
from draftscope.engines.options import Options

# Where a prompt's name usually stands; the engine's own id names a request, not a prompt.
PROMPT_NAMES = ("prompt_id", "custom_id", "conversation_id", "session_id")
_INSIDE = ("response", "body", "data", "output")


def body_of(line: Object) -> Object:
    """The response in a line: what stands below `response`, `body` or the like, else the line."""
    body = line
    while (inner := next((one for key in _INSIDE if (one := body.object(key))), None)) is not None:
        body = inner
    return body


def named(line: Object, body: Object, options: Options) -> tuple[str, str | None]:
    """Name of the prompt, and the engine's id of the request.

    Raises:
        UserError: the field that was asked for is missing, or nothing names the request.
    """
    meta = body.object("meta_info")
    own = body.text("id") or body.text("request_id") or (meta.text("id") if meta else None)
    if options.prompt_id is not None:
        holder, *rest = line, *options.prompt_id.split(".")
        for key in rest[:-1]:
            holder = holder and holder.object(key)
        name = holder.text(rest[-1]) if holder else None
        if name is None:
            raise line.fault(options.prompt_id, "is missing; --prompt-id names it as the prompt")
        return name, own
    for holder in (line, body):
        for key in PROMPT_NAMES:
            if (name := holder.text(key)) is not None:
                return name, own
    if own is None:
        raise line.fault(
            "prompt_id", "is missing; name the field that tells prompts apart with --prompt-id"
        )
    return own, own


def counted_tokens(body: Object) -> int | None:
    """Completion tokens of a response, by its usage."""
    usage = body.object("usage")
    return usage.integer("completion_tokens") if usage else None
