"""One server that says `Hello, world!`, shared by the tests of a module."""

from collections.abc import Iterator

import openai
import pytest

from tests.runtime.server.double import Double
from tests.runtime.server.live import Live, live


@pytest.fixture(scope="module")
def server() -> Iterator[Live]:
    with live(Double()) as running:
        yield running


@pytest.fixture
def client(server: Live) -> Iterator[openai.OpenAI]:
    with server.openai() as client:
        yield client
