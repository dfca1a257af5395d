"""A registry learns who one is when it asks, and only over a way that nobody else reads."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from ddops.errors import BundleError, UsageError
from ddops.host import registry, registry_login
from ddops.host.registry_access import Access
from ddops.host.registry_login import Login
from ddops.spec.shelf import Registry
from tests.ddops import registry as real

FAR = Registry(host="registry.example.org", repository="team/bundles")
TAGS = "https://registry.example.org/v2/team/bundles/tags/list"
ALICE = Login(real.USER, real.PASSWORD)


@pytest.fixture(scope="module")
def guarded(test_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """A real registry that wants a name and a password."""
    folder = tmp_path_factory.mktemp("guarded")
    with real.serving(real.program(test_cache), folder, real.password_file(folder)) as address:
        yield Registry(host=address, repository="team/bundles")


@pytest.fixture(autouse=True)
def configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Writes docker's; without a call there is none."""
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    for name in (registry_login.USER, registry_login.PASSWORD):
        monkeypatch.delenv(name, raising=False)

    def write(**content: object) -> None:
        (tmp_path / "config.json").write_text(json.dumps(content))

    return write


def auth(login: Login) -> dict[str, str]:
    return {"auth": base64.b64encode(f"{login.user}:{login.password}".encode()).decode()}


def test_the_environment_names_one(guarded: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(registry_login.USER, real.USER)
    monkeypatch.setenv(registry_login.PASSWORD, real.PASSWORD)
    with registry.opened(guarded) as one:
        assert one.tags() == []


def test_dockers_configuration_names_one(
    guarded: Registry, configuration: Callable[..., None]
) -> None:
    configuration(auths={guarded.host: auth(ALICE)})
    with registry.opened(guarded) as one:
        assert one.tags() == []


def test_a_credential_helper_is_asked_on_a_pipe(
    guarded: Registry,
    configuration: Callable[..., None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = json.dumps({"Username": real.USER, "Secret": real.PASSWORD})
    helper = tmp_path / "docker-credential-vault"
    helper.write_text(f"""#!/bin/sh\n[ "$1 $(cat)" = "get {guarded.host}" ] && echo '{said}'\n""")
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    configuration(credHelpers={guarded.host: "vault"})
    with registry.opened(guarded) as one:
        assert one.tags() == []


def test_who_is_nowhere_written_down_is_told_what_to_do(guarded: Registry) -> None:
    said = pytest.raises(BundleError, match="wants to know who you are")
    with said as told, registry.opened(guarded) as one:
        one.tags()
    assert f"docker login {guarded.host}" in (told.value.hint or "")


def test_a_wrong_password_is_told(guarded: Registry, configuration: Callable[..., None]) -> None:
    configuration(auths={guarded.host: auth(Login(real.USER, "battery"))})
    said = pytest.raises(BundleError, match="does not know this name and password")
    with said as told, registry.opened(guarded) as one:
        one.tags()
    assert "battery" not in repr(told.value)


def test_a_configuration_that_is_not_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(UsageError, match=r"config\.json cannot be read"):
        registry_login.login("anywhere")


class Server:
    """What a far registry and its token server would answer; remembers who was told what."""

    def __init__(self, realm: str = "https://auth.example.org/token") -> None:
        self.realm = realm
        self.seen: list[tuple[str, str | None]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        told = request.headers.get("authorization")
        self.seen.append((request.url.host, told))
        if request.url.host == "auth.example.org":
            assert dict(request.url.params) == {
                "service": "registry.example.org",
                "scope": "repository:team/bundles:pull",
            }
            return httpx.Response(200, json={"token": "for-this-alone"})
        if request.url.host == "storage.example.org":
            return httpx.Response(200, json={"tags": ["far"]})
        if told == "Bearer for-this-alone":
            where = "https://storage.example.org/tags"
            return httpx.Response(307, headers={"location": where})
        asked = (
            f'Bearer realm="{self.realm}",service="registry.example.org",'
            'scope="repository:team/bundles:pull"'
        )
        return httpx.Response(401, headers={"www-authenticate": asked})

    def get(self, ask: Callable[[str], Login | None]) -> httpx.Response:
        transport = httpx.MockTransport(self)
        with httpx.Client(
            transport=transport, auth=Access(FAR, ask), follow_redirects=True
        ) as client:
            return client.get(TAGS)


def test_a_token_is_got_with_the_password_and_shown_to_the_registry_alone(
    configuration: Callable[..., None],
) -> None:
    configuration(auths={FAR.host: auth(ALICE)})
    server = Server()
    assert server.get(lambda host: None).json() == {"tags": ["far"]}
    assert server.seen == [
        ("registry.example.org", None),
        ("auth.example.org", f"Basic {ALICE.basic}"),
        ("registry.example.org", "Bearer for-this-alone"),
        ("storage.example.org", None),
    ]


def test_a_token_for_everybody_needs_no_name() -> None:
    server = Server()
    server.get(lambda host: pytest.fail("nobody is to be asked"))
    assert ("auth.example.org", None) in server.seen


def test_no_password_is_sent_in_the_clear() -> None:
    server = Server(realm="http://auth.example.org/token")
    with pytest.raises(BundleError, match="in the clear"):
        server.get(lambda host: ALICE)
    assert server.seen == [("registry.example.org", None)]
