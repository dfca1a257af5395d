"""Open one SSH connection as the user's own `ssh` would, and say in words why it cannot be."""

from __future__ import annotations

import logging
import socket
from contextlib import suppress
from dataclasses import dataclass

from fabric import Config, Connection
from paramiko import (
    AuthenticationException,
    PasswordRequiredException,
    SSHException,
    Transport,
)
from paramiko.ssh_exception import NoValidConnectionsError

from ddops.errors import HostError
from ddops.host import pulse
from ddops.host.known_hosts import KnownHosts
from ddops.spec.box import Reach

logging.getLogger("paramiko").addHandler(logging.NullHandler())  # or it writes on stderr


@dataclass(frozen=True)
class Patience:
    connect_s: float = 10.0
    silence_s: float = 20.0  # without a sign of life until a connection counts as broken


def connect(reach: Reach, keys: KnownHosts, patience: Patience) -> Connection:
    """Honours ~/.ssh/config: names, users, ports, keys, ProxyJump. Raises `HostError`."""
    connection = _configured(reach, patience)
    for hop in _hops(connection):
        hop.client.set_missing_host_key_policy(keys)
    try:
        connection.open()
    except Exception as error:
        with suppress(OSError, SSHException, EOFError):
            close(connection)
        if isinstance(error, HostError):
            raise
        raise _verdict(connection, error) from error
    _tune(_hops(connection)[-1].transport, connection.transport, patience)
    return connection


def close(connection: Connection) -> None:
    for hop in _hops(connection):
        hop.close()


def _configured(reach: Reach, patience: Patience) -> Connection:
    config = Config(lazy=True)  # the user's ssh_config, but no settings of fabric's own
    config.load_ssh_config()
    connection = Connection(reach.host, user=reach.user, port=reach.port, config=config)
    for hop in _hops(connection):
        limits = dict.fromkeys(("banner_timeout", "auth_timeout"), patience.connect_s)
        alone = hop.ssh_config.get("identitiesonly") == "yes"
        hop.connect_kwargs = {
            **hop.connect_kwargs,
            **limits,
            "channel_timeout": patience.connect_s,
            "allow_agent": not alone,
            "look_for_keys": not alone,
        }
        hop.connect_timeout = hop.connect_timeout or patience.connect_s
    return connection


def _hops(connection: Connection) -> list[Connection]:
    """The box first, the machine that is reached directly last."""
    found = [connection]
    while isinstance(found[-1].gateway, Connection):
        found.append(found[-1].gateway)
    return found


def _tune(direct: Transport, last: Transport, patience: Patience) -> None:
    """Small packets go at once; a dead link is noticed though nothing is being sent."""
    silence_s = 2 * patience.silence_s  # TCP, which sees the direct way better, comes first
    pulse.watch(last, every_s=patience.silence_s / 4, silence_s=silence_s)
    if isinstance(direct.sock, socket.socket):  # not a ProxyCommand
        direct.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        milliseconds = int(patience.silence_s * 1000)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux
            direct.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)


def _verdict(connection: Connection, error: Exception) -> HostError:
    where = f"{connection.host}:{connection.port}"
    by_hand = f"ssh -v -p {connection.port} {connection.user}@{connection.host} true"
    if isinstance(error, socket.gaierror):
        name = connection.host
        return HostError(
            f"the name {name} is not known here",
            hint=f"give it an address: `Host {name}` in ~/.ssh/config, or the inventory's"
            f" `reach.host`; `ddops init {connection.user}@ADDRESS` writes one for a new box",
        )
    if isinstance(error, PasswordRequiredException):
        return HostError(f"a key for {where} has a passphrase", hint="`ssh-add`, then try again")
    if isinstance(error, AuthenticationException):
        return HostError(
            f"{where} lets no key of yours in as user `{connection.user}`",
            hint=f"`{by_hand}` shows which keys are tried",
        )
    if _refused(error):
        return HostError(f"nothing listens on {where}", hint="is the box up? check `reach.port`")
    if isinstance(error, NoValidConnectionsError | TimeoutError):
        return HostError(
            f"{where} does not answer", hint=f"`{by_hand}`; a firewall may drop the packets"
        )
    if isinstance(error, OSError | SSHException | EOFError):
        said = str(error) or type(error).__name__
        return HostError(f"no connection to {where}: {said}", hint=f"`{by_hand}`")
    raise error


def _refused(error: Exception) -> bool:
    """Several addresses may have been tried; one that refused is at least up."""
    tried = error.errors.values() if isinstance(error, NoValidConnectionsError) else (error,)
    return any(isinstance(one, ConnectionRefusedError) for one in tried)
