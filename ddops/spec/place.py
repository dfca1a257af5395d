"""Where things lie on a box. Pure names; nothing is looked up here."""

from __future__ import annotations

from ddops.spec.base import Word
from ddops.spec.observed import SupervisorKind


class Place(Word):
    root: str  # the state folder, shared by all boxes on this machine
    box: str
    python: str  # runs ddops' own small tools on the box
    engine_python: str  # runs the engine
    user_units: str  # where `systemd --user` looks

    @property
    def home(self) -> str:
        """Unit, log and state of this box's service."""
        return f"{self.root}/boxes/{self.box}"

    @property
    def weights(self) -> str:
        return f"{self.root}/weights"

    @property
    def caches(self) -> str:
        """Kernels that the engine compiled."""
        return f"{self.home}/cache"

    @property
    def environments(self) -> str:
        """One folder for each, by its identity."""
        return f"{self.root}/envs"

    @property
    def environment(self) -> str:
        """A link to the one in use."""
        return f"{self.root}/venv"

    @property
    def service(self) -> str:
        return f"ddops-{self.box}"

    @property
    def env_file(self) -> str:
        return f"{self.home}/env"

    @property
    def log_file(self) -> str:
        return f"{self.home}/service.log"

    @property
    def generations(self) -> str:
        return f"{self.home}/generations.json"

    @property
    def history(self) -> str:
        return f"{self.home}/history.jsonl"

    @property
    def lock(self) -> str:
        return f"{self.home}/lock"

    def unit_path(self, kind: SupervisorKind) -> str:
        match kind:
            case "systemd":
                return f"/etc/systemd/system/{self.service}.service"
            case "systemd-user":
                return f"{self.user_units}/{self.service}.service"
            case "background":
                return f"{self.home}/unit.json"
