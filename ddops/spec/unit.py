"""A service as every supervisor needs it; `render/` turns it into a systemd unit or into JSON."""

from __future__ import annotations

from ddops.spec.base import Word


class Unit(Word):
    description: str
    argv: tuple[str, ...]
    workdir: str
    user: str | None  # None: whoever runs the supervisor
    env: dict[str, str]
    env_file: str  # holds the secrets; mode 0600
    notifies: bool  # the engine tells systemd when it is ready; others count as up at once
    final_exit_codes: tuple[int, ...]  # starting again would end the same
    ready_timeout_s: float
    stop_timeout_s: float = 40.0  # the engine drains for 30 s, then ends by itself
    start_limit: int = 5  # crashes within `start_window_s` until the service is given up
    start_window_s: float = 300.0
    restart_delay_s: float = 2.0
