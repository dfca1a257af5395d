"""A router is a deployment with less in it."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from ddops.spec.deployment import Deployment
from ddops.spec.load import load_box

ROUTER: dict[str, Any] = {
    "engine": "sglang-router",
    "model": {"name": "k26"},
    "router": {"replicas": {"a": "http://10.0.0.1:8421"}},
}


def test_a_models_name_and_replicas_are_enough_for_a_router() -> None:
    made = Deployment.model_validate(ROUTER)
    assert (made.device, made.decoding.mode) == ("cpu", "ar")
    assert made.model.weights.source == "replicas"
    assert Deployment.model_validate_json(made.model_dump_json()) == made


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"router": None}, "needs `router"),
        ({"router": {"replicas": {}}}, "at least 1"),
        ({"router": {"replicas": {"a": "10.0.0.1:8421"}}}, "match pattern"),
        ({"router": {"replicas": {"a": "http://h:1/v1"}}}, "match pattern"),
        ({"model": None}, "valid dictionary"),
    ],
)
def test_a_router_without_replicas_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Deployment.model_validate({**ROUTER, **changes})


def test_an_engine_has_no_replicas_of_its_own() -> None:
    local = load_box("local").deployment.model_dump(exclude_unset=True)
    with pytest.raises(ValidationError, match="goes with the engines sglang-router and vllm"):
        Deployment.model_validate({**local, "router": ROUTER["router"]})
