"""The one error tree. Raised with a subject and a hint, caught once, in `cli/app.py`.

    DdopsError                    1
    ├── UsageError                2   the command line asks for something impossible
    ├── SpecError                 3   a YAML file or a record is wrong (names file and line)
    ├── HostError                 4   the box cannot be reached, or a command on it failed
    ├── CheckError                5   the box does not fit the wish (preflight)
    ├── WeightsError              6   download, hash, disk
    ├── StepError                 7   applying a plan stopped at a step
    ├── ServiceError              8   the health gate or the smoke test said no
    ├── BenchError                9   no cell of the matrix could be measured
    ├── BundleError              10   an archive is not what it claims to be
    ├── PackagesError            11   apt is held by another process, or does not give a package
    └── ClaimsError              12   records do not bear out what is stated of them

Exit codes are stable: scripts may rely on them. 130 is Ctrl-C.
"""


class DdopsError(Exception):
    """What went wrong (`subject`), and the next command to type (`hint`)."""

    exit_code = 1

    def __init__(self, subject: str, *, hint: str | None = None, detail: str | None = None) -> None:
        super().__init__(subject)
        self.subject = subject
        self.hint = hint
        self.detail = detail


class UsageError(DdopsError):
    exit_code = 2


class SpecError(DdopsError):
    exit_code = 3


class HostError(DdopsError):
    exit_code = 4


class CheckError(DdopsError):
    exit_code = 5


class WeightsError(DdopsError):
    exit_code = 6


class StepError(DdopsError):
    exit_code = 7


class ServiceError(DdopsError):
    exit_code = 8


class BenchError(DdopsError):
    exit_code = 9


class BundleError(DdopsError):
    exit_code = 10


class PackagesError(DdopsError):
    exit_code = 11


class ClaimsError(DdopsError):
    exit_code = 12
