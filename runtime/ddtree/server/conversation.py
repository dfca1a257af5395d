"""What a chat is made of: messages, the tools a model may call, its calls and their results."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from ddtree.server.rim import Rim

Name = Annotated[str, Field(pattern=r"^[a-zA-Z0-9_.-]{1,128}$")]


class Part(Rim):
    type: Literal["text"]
    text: str


class CalledFunction(Rim):
    name: str
    arguments: str = ""  # JSON, as the model wrote it

    def plain(self) -> dict[str, Any]:
        """Templates differ in whether they take the text; all of them take the object."""
        try:
            arguments = json.loads(self.arguments or "{}")
        except ValueError:
            arguments = self.arguments
        return {"name": self.name, "arguments": arguments}


class PastCall(Rim):
    id: str = ""
    type: Literal["function"] = "function"
    index: int | None = None  # streams number their calls, and clients send that back
    function: CalledFunction


class Message(Rim):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[Part] = ""
    name: str | None = None
    reasoning_content: str | None = None  # an earlier answer's
    tool_calls: list[PastCall] = Field(default_factory=list)  # of an earlier answer
    tool_call_id: str | None = None  # of the call that this message is the result of

    def plain(self) -> dict[str, Any]:
        """As chat templates know it; newer clients call the system `developer`."""
        text = self.content
        if not isinstance(text, str):
            text = "".join(part.text for part in text)
        said: dict[str, Any] = {
            "role": "system" if self.role == "developer" else self.role,
            "content": text,
        }
        if self.reasoning_content is not None:
            said["reasoning_content"] = self.reasoning_content
        if self.tool_calls:
            said["tool_calls"] = [
                {"id": call.id, "type": call.type, "function": call.function.plain()}
                for call in self.tool_calls
            ]
        if self.role == "tool":
            said["tool_call_id"] = self.tool_call_id
            said |= {} if self.name is None else {"name": self.name}
        return said

    @property
    def fault(self) -> tuple[str, str] | None:
        """A field that does not go with the role, and what is wrong with it."""
        if self.role == "tool" and self.tool_call_id is None:
            return "tool_call_id", "is missing: say which call this is the result of"
        if self.role != "tool" and self.tool_call_id is not None:
            return "tool_call_id", "belongs to a message of role `tool`"
        for name in ("tool_calls", "reasoning_content"):
            if self.role != "assistant" and getattr(self, name):
                return name, "belongs to a message of role `assistant`"
        return None


class Function(Rim):
    name: Name
    description: str | None = None
    parameters: Mapping[str, Any] | None = None  # JSON Schema, shown to the model as it is
    strict: Literal[False] | None = None  # nothing constrains what a model writes here


class Tool(Rim):
    type: Literal["function"]
    function: Function

    def plain(self) -> dict[str, Any]:
        return self.model_dump(exclude_unset=True, exclude={"function": {"strict"}})


class ChosenFunction(Rim):
    name: str


class ChosenTool(Rim):
    type: Literal["function"]
    function: ChosenFunction


ToolChoice = Literal["none", "auto", "required"] | ChosenTool
