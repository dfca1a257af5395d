"""Shows an OCI registry who one is, when it asks: with a password, or a token got for one.

A password is shown to the registry itself and to whom it names for tokens, to both only over TLS
or on this machine; a token to the registry alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping
from typing import Final

import httpx

from ddops.errors import BundleError
from ddops.host import registry_login
from ddops.host.registry_login import PASSWORD, USER, Login
from ddops.spec.shelf import LOOPBACK, Registry

_VALUES: Final = re.compile(r'(\w+)="([^"]*)"')

Flow = Generator[httpx.Request, httpx.Response, None]


class Access(httpx.Auth):
    """`ask` is whom to ask for a name and a password that are written down nowhere."""

    def __init__(
        self, registry: Registry, ask: Callable[[str], Login | None] = registry_login.ask
    ) -> None:
        self._registry, self._ask = registry, ask
        self._origin = _origin(httpx.URL(registry.url))
        self._header: str | None = None
        self._login: Login | None = None

    def sync_auth_flow(self, request: httpx.Request) -> Flow:
        if _origin(request.url) != self._origin:
            yield request
            return
        if self._header:
            request.headers["Authorization"] = self._header
        answer = yield request
        if answer.status_code != httpx.codes.UNAUTHORIZED:
            return
        scheme, _, rest = answer.headers.get("www-authenticate", "").partition(" ")
        values = dict(_VALUES.findall(rest))
        if scheme.lower() == "bearer" and "realm" in values:
            yield from self._token(values)
        elif scheme.lower() == "basic":
            self._header = f"Basic {self._needed().basic}"
        else:
            return
        assert self._header is not None, "both ways end with one"
        request.headers["Authorization"] = self._header
        answer = yield request
        if answer.status_code == httpx.codes.UNAUTHORIZED:
            self._header = self._login = None
            raise self._refused(f"{self._registry.host} does not know this name and password")

    def _token(self, values: dict[str, str]) -> Flow:
        realm = httpx.URL(values["realm"])
        if realm.scheme != "https" and realm.host not in LOOPBACK:
            raise self._refused(f"{self._registry.host} wants a password sent in the clear")
        asked = {key: value for key, value in values.items() if key in ("service", "scope")}
        answer = yield self._request(realm, asked, self._known())
        if answer.status_code == httpx.codes.UNAUTHORIZED:
            answer = yield self._request(realm, asked, self._needed())
        answer.read()
        said = answer.json() if answer.status_code == httpx.codes.OK else {}
        token = said.get("token") or said.get("access_token")
        if not token:
            where = f"{realm.host} answers {answer.status_code}"
            raise self._refused(f"{self._registry.host} gives no token: {where}")
        self._header = f"Bearer {token}"

    def _request(
        self, realm: httpx.URL, asked: Mapping[str, str], who: Login | None
    ) -> httpx.Request:
        headers = {"Authorization": f"Basic {who.basic}"} if who else {}
        return httpx.Request("GET", realm.copy_merge_params(asked), headers=headers)

    def _known(self) -> Login | None:
        self._login = self._login or registry_login.login(self._registry.host)
        return self._login

    def _needed(self) -> Login:
        """Raises `BundleError` when there is nobody to ask."""
        self._login = self._known() or self._ask(self._registry.host)
        if self._login is None:
            raise self._refused(f"{self._registry.host} wants to know who you are")
        return self._login

    def _refused(self, subject: str) -> BundleError:
        way = f"`docker login {self._registry.host}`, or set {USER} and {PASSWORD}"
        return BundleError(subject, hint=way)


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port
