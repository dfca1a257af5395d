"""Errors in OpenAI's shape: `{"error": {message, type, param, code}}`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import JSONResponse

from ddtree.engine.errors import RequestError


class ApiError(Exception):
    """Ends a request with `status` and says why. Raised anywhere below a route."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.param = param
        self.code = code
        self.headers = headers

    @property
    def body(self) -> dict[str, Any]:
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        said = {"message": self.message, "type": kind, "param": self.param, "code": self.code}
        return {"error": said}

    def response(self) -> JSONResponse:
        return JSONResponse(self.body, self.status, headers=self.headers)


def bad_request(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    return ApiError(400, message, param=param, code=code)


def refused(error: RequestError) -> ApiError:
    """The engine blames itself by the parameter `engine`: it stopped since it was last asked."""
    if error.param == "engine":
        return engine_failed(error.message)
    return bad_request(error.message, error.param, "invalid_value")


def too_long(prompt: int, context: int, param: str) -> ApiError:
    return bad_request(
        f"the prompt has {prompt} tokens; with room for an answer"
        f" this model's context holds {context}",
        param,
        "context_length_exceeded",
    )


def unknown_model(asked: str, served: str) -> ApiError:
    return ApiError(
        404,
        f"the model {asked!r} is not served here; this server has {served!r}",
        param="model",
        code="model_not_found",
    )


def unauthorized() -> ApiError:
    return ApiError(
        401,
        "a valid API key is needed: send `Authorization: Bearer KEY`",
        code="invalid_api_key",
        headers={"WWW-Authenticate": "Bearer"},
    )


def unavailable(status: str) -> ApiError:
    return ApiError(503, f"the server is {status}", code=status, headers={"Retry-After": "1"})


def engine_failed(reason: str | None) -> ApiError:
    return ApiError(503, f"the engine has failed: {reason or 'unknown reason'}", code="engine_dead")


def generation_failed(reason: str | None) -> ApiError:
    return ApiError(500, f"the request failed: {reason or 'unknown reason'}", code="engine_error")
