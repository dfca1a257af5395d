"""What a bundle wants of a box: the same deployment at the box's own place, the same packages."""

from __future__ import annotations

from ddops.spec.bundle import BundleInfo
from ddops.spec.command import Put, Run
from ddops.spec.deployment import BroughtEnvironment, Deployment, Serving, Weights
from ddops.spec.packages import Environment, Package
from ddops.spec.place import Place
from ddops.steps.replay import again, deployment
from tests.ddops import records

PLACE = Place(root="/s", box="b", python="/p", engine_python="/e", user_units="/u")
MEASURED = records.deployment(records.matrix().variants[-1])
HAS = {"3.11": "/usr/bin/python3.11", "3.12.3": "/p"}


def info(commit: str | None) -> BundleInfo:
    return records.told(records.run(records.matrix())).model_copy(update={"commit": commit})


def environment(*packages: tuple[str, str]) -> Environment:
    listed = tuple(Package(name=n, version=v, record_sha256="a" * 64) for n, v in packages)
    return Environment(python="CPython 3.11.7", platform="Linux", packages=listed)


def own(**changes: object) -> Deployment:
    return Deployment.model_validate(
        MEASURED.model_copy(update={"serving": Serving(port=9000), **changes}).model_dump()
    )


def test_the_box_serves_it_at_its_own_address_and_in_its_own_environment() -> None:
    brought = BroughtEnvironment(source="b300")
    wish = deployment(MEASURED, own(environment=brought, ready_timeout_s=900))
    assert (wish.serving.port, wish.environment, wish.ready_timeout_s) == (9000, brought, 900)
    kept = {"serving", "environment", "ready_timeout_s"}
    assert wish.model_dump(exclude=kept) == MEASURED.model_dump(exclude=kept)


def test_the_same_weights_come_from_where_the_box_has_them() -> None:
    here = Weights(source="file:/srv/model.gguf", sha256=MEASURED.model.weights.sha256)
    other = Weights(source="file:/srv/other.gguf", sha256="0" * 64)
    for weights, source in ((here, here.source), (other, MEASURED.model.weights.source)):
        model = MEASURED.model.model_copy(update={"weights": weights})
        assert deployment(MEASURED, own(model=model)).model.weights.source == source


def test_the_packages_are_installed_into_a_folder_named_after_them() -> None:
    made = again(environment(("torch", "2.13.0"), ("gguf", "0.17")), info(None), HAS, PLACE)
    venv, listed, pip = made.commands
    assert made.reasons == ()
    assert made.python.startswith("/s/envs/replay-")
    assert isinstance(venv, Run) and venv.argv[:3] == ("/usr/bin/python3.11", "-m", "venv")
    assert isinstance(listed, Put) and listed.text == "gguf==0.17\ntorch==2.13.0\n"
    assert isinstance(pip, Run) and "--no-deps" in pip.argv
    other = again(environment(("torch", "2.12.0")), info(None), HAS, PLACE)
    assert other.python != made.python


def test_every_reason_why_it_cannot_be_the_same_is_told() -> None:
    made = again(environment(("ddops", "0.1.0")), info("abc+dirty"), {"3.12": "/p"}, PLACE)
    assert made.reasons == (
        "it ran on Python 3.11, the box has 3.12",
        "it ran ddops and its engine from commit abc+dirty, not from a release",
    )


def test_an_interpreter_of_the_very_version_is_taken_before_one_of_the_same_minor() -> None:
    exact = {**HAS, "3.11.7": "/opt/python"}
    made = again(environment(), info(None), exact, PLACE)
    assert isinstance(made.commands[0], Run)
    assert made.commands[0].argv[0] == "/opt/python"
