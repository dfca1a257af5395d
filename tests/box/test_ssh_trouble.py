"""What goes wrong with SSH, each with its own words: keys, host keys, sudo, the link, the jump."""

from __future__ import annotations

import subprocess
import threading
import time
from pathlib import Path

import pytest

from ddops.errors import HostError
from ddops.spec.command import Put, Run
from tests.box.box import Box
from tests.box.delay import long_way
from tests.box.operator import Operator
from tests.box.rootfs import key

TRUE = Run(argv=("true",), why="a test")
SUDO = Run(argv=("id", "-un"), why="a test", sudo=True)


def add_user(box: Box, name: str, sudoers: str = "") -> None:
    box.must("useradd", "--create-home", "--shell", "/bin/bash", name)
    public = Path(f"{key()}.pub").read_text("utf-8")
    box.write(f"/home/{name}/.ssh/authorized_keys", public)
    box.must("chown", "-R", f"{name}:", f"/home/{name}/.ssh")
    if sudoers:
        box.write(f"/etc/sudoers.d/{name}", f"{name} {sudoers}\n", 0o440)


def new_key(folder: Path, name: str) -> Path:
    path = folder / name
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path


def test_the_first_contact_is_recorded_and_shown(box: Box, operator: Operator) -> None:
    with_ssh_keygen = box.must("ssh-keygen", "-lf", "/etc/ssh/ssh_host_ed25519_key.pub").split()[1]
    operator.hands(box).run(TRUE)
    assert operator.told == [
        f"first contact with {box.address}: its key {with_ssh_keygen} is recorded"
    ]
    operator.hands(box).run(TRUE)
    assert len(operator.told) == 1
    lines = operator.known_hosts.read_text("utf-8").splitlines()
    assert [line.split()[0] for line in lines] == [box.address]


def test_a_changed_key_is_refused_with_both_fingerprints_until_it_is_pinned(
    box: Box, operator: Operator
) -> None:
    operator.hands(box).run(TRUE)
    recorded = operator.known_hosts.read_text("utf-8")
    old = box.must("ssh-keygen", "-lf", "/etc/ssh/ssh_host_ed25519_key.pub").split()[1]
    box.must("sh", "-c", "rm /etc/ssh/ssh_host_*; ssh-keygen -A; systemctl restart ssh")
    box.wait_for_ssh()
    new = box.must("ssh-keygen", "-lf", "/etc/ssh/ssh_host_ed25519_key.pub").split()[1]
    with pytest.raises(HostError, match="shows another key than before") as caught:
        operator.hands(box).run(TRUE)
    assert caught.value.detail == f"it shows  {new}\nrecorded  {old}"
    assert f"`ddops inspect b300 --pin {new}`" in str(caught.value.hint)
    assert operator.known_hosts.read_text("utf-8") == recorded
    with pytest.raises(HostError, match="is not the expected machine"):
        operator.hands(box, pin="SHA256:other").run(TRUE)
    operator.hands(box, pin=new).run(TRUE)
    operator.hands(box).run(TRUE)


def test_a_key_that_the_users_own_ssh_knows_is_trusted_and_another_is_not(
    box: Box, operator: Operator
) -> None:
    public = box.must("cat", "/etc/ssh/ssh_host_ed25519_key.pub").rsplit(" ", 1)[0]
    theirs = operator.home / ".ssh" / "known_hosts"
    theirs.write_text(f"{box.address} {public}\n", "utf-8")
    operator.hands(box).run(TRUE)
    assert operator.told == []
    operator.known_hosts.unlink()
    other = Path(f"{new_key(operator.home, 'other')}.pub").read_text("utf-8").rsplit(" ", 1)[0]
    theirs.write_text(f"{box.address} {other}\n", "utf-8")
    with pytest.raises(HostError, match="shows another key than before"):
        operator.hands(box).run(TRUE)


def test_a_wrong_key_is_told_with_the_user(box: Box, operator: Operator) -> None:
    wrong = new_key(operator.home, "wrong")
    operator.configure(f"Host *\n  IdentityFile {wrong}\n  IdentitiesOnly yes\n")
    with pytest.raises(HostError, match="lets no key of yours in as user `root`") as caught:
        operator.hands(box).run(TRUE)
    assert f"ssh -v -p 22 root@{box.address} true" in str(caught.value.hint)


def test_names_users_ports_and_keys_come_from_the_users_ssh_config(
    box: Box, operator: Operator
) -> None:
    add_user(box, "alice")
    box.must("sh", "-c", "echo Port 2200 >> /etc/ssh/sshd_config; systemctl restart ssh")
    operator.configure(
        f"Host my-b300\n  HostName {box.address}\n  User alice\n  Port 2200\n"
        f"  IdentityFile {key()}\n  IdentitiesOnly yes\n"
    )
    hands = operator.hands("my-b300", user=None)
    assert hands.run(Run(argv=("id", "-un"), why="")).stdout == "alice\n"
    assert operator.known_hosts.read_text("utf-8").startswith(f"[{box.address}]:2200 ")
    hands.close()


def test_a_box_behind_another_is_reached_by_the_jump_of_the_users_ssh_config(
    box: Box, operator: Operator
) -> None:
    with Box(behind=box) as inner:
        inner.write("/etc/mark", "the inner one")
        operator.configure(
            f"Host *\n  IdentityFile {key()}\n  IdentitiesOnly yes\n"
            f"Host inner\n  HostName {inner.address}\n  ProxyJump root@{box.address}\n"
        )
        hands = operator.hands("inner")
        assert hands.read("/etc/mark") == b"the inner one"
        hands.close()
    assert len(operator.told) == 2  # each of the two keys was checked


def test_nothing_listening_and_no_such_name_are_told_apart(box: Box, operator: Operator) -> None:
    with pytest.raises(HostError, match=f"nothing listens on {box.address}:2222"):
        operator.hands(box, port=2222).run(TRUE)
    with pytest.raises(HostError, match="the name no-such-box is not known here") as caught:
        operator.hands("no-such-box").run(TRUE)
    assert "`Host no-such-box` in ~/.ssh/config" in str(caught.value.hint)


def test_a_box_that_swallows_packets_is_given_up_in_time(box: Box, operator: Operator) -> None:
    box.link("down")
    began = time.monotonic()
    with pytest.raises(HostError, match="does not answer"):
        operator.hands(box).run(TRUE)
    assert time.monotonic() - began < 10


def test_sudo_works_without_a_password_and_says_so_when_it_wants_one(
    box: Box, operator: Operator
) -> None:
    add_user(box, "free", "ALL=(ALL) NOPASSWD: ALL")
    add_user(box, "bound", "ALL=(ALL) ALL")
    add_user(box, "none")
    hands = operator.hands(box, user="free")
    assert hands.run(SUDO).stdout == "root\n"
    hands.apply(Put(path="/etc/systemd/system/x.service", text="[Unit]\n", why="", sudo=True))
    assert box.must("stat", "-c", "%U %a", "/etc/systemd/system/x.service") == "root 644\n"
    for user in ("bound", "none"):
        with pytest.raises(HostError, match=f"user `{user}` of box `b300` may not use sudo"):
            operator.hands(box, user=user).run(SUDO)


def test_a_command_of_root_that_takes_too_long_is_ended_too(box: Box, operator: Operator) -> None:
    add_user(box, "free", "ALL=(ALL) NOPASSWD: ALL")
    long = Run(argv=("sh", "-c", "sleep 622 & wait"), why="", sudo=True, timeout_s=1.0)
    with pytest.raises(HostError, match="did not end within 1 s"):
        operator.hands(box, user="free").run(long)
    assert box.run("pgrep", "-f", "sleep 622").stdout == ""


def test_a_connection_that_died_between_two_commands_is_opened_again(
    box: Box, operator: Operator
) -> None:
    hands = operator.hands(box)
    hands.run(TRUE)
    box.must("pkill", "-f", "^sshd: root")
    time.sleep(0.1)
    assert hands.run(TRUE).ok
    box.run("pkill", "-f", "^sshd: root")
    hands.apply(Put(path="/srv/x", text="x", why=""))
    assert box.must("cat", "/srv/x") == "x"
    hands.close()


def test_a_link_that_goes_down_during_a_look_is_noticed_and_the_look_taken_again(
    box: Box, operator: Operator
) -> None:
    hands = operator.hands(box)
    hands.run(TRUE)
    script = "[ -e /srv/second ] && echo again && exit; touch /srv/second; sleep 60"
    down = threading.Timer(0.5, box.link, ("down",))
    up = threading.Timer(5.0, box.link, ("up",))
    down.start()
    up.start()
    began = time.monotonic()
    found = hands.run(Run(argv=("sh", "-c", script), why=""))
    assert found.stdout == "again\n"
    assert time.monotonic() - began < 20
    up.join()
    hands.close()


def test_a_change_whose_connection_broke_is_not_made_twice_on_a_guess(
    box: Box, operator: Operator
) -> None:
    hands = operator.hands(box)
    hands.run(TRUE)
    step = Run(argv=("sh", "-c", "echo x >> /srv/steps; pkill -f '^sshd: root'; sleep 60"), why="")
    with pytest.raises(HostError, match="the connection to box `b300` broke during") as caught:
        hands.apply(step)
    assert "it looks at what was done" in str(caught.value.hint)
    assert box.must("cat", "/srv/steps") == "x\n"


@pytest.mark.parametrize("sudo", [False, True])
def test_a_command_does_not_outlive_its_connection(
    box: Box, operator: Operator, *, sudo: bool
) -> None:
    add_user(box, "free", "ALL=(ALL) NOPASSWD: ALL")
    hands = operator.hands(box, user="free")
    cut = threading.Timer(0.5, box.run, ("pkill", "-f", "^sshd: free"))
    hands.run(TRUE)
    cut.start()
    with pytest.raises(HostError, match="broke"):
        hands.apply(Run(argv=("sh", "-c", "sleep 633 & wait"), why="", sudo=sudo))
    until = time.monotonic() + 5
    while box.run("pgrep", "-f", "sleep 633").stdout:
        assert time.monotonic() < until
        time.sleep(0.1)


def test_a_file_whose_connection_broke_half_way_keeps_its_old_content(
    box: Box, operator: Operator
) -> None:
    hands = operator.hands(box)
    hands.apply(Put(path="/srv/f", text="old", why=""))
    box.write("/usr/local/bin/cat", "#!/bin/sh\nhead -c 5\npkill -f '^sshd: root'\n", 0o755)
    with pytest.raises(HostError, match="broke"):
        hands.apply(Put(path="/srv/f", text="a new text", why=""))
    box.must("rm", "/usr/local/bin/cat")
    assert box.must("cat", "/srv/f") == "old"


def test_a_link_that_dies_behind_a_relay_that_is_well_is_noticed(
    box: Box, operator: Operator
) -> None:
    with long_way(box.address, trip_s=0.01, window=1 << 16) as port:
        hands = operator.hands("127.0.0.1", port=port)
        hands.run(TRUE)
        threading.Timer(0.3, box.link, ("down",)).start()
        began = time.monotonic()
        with pytest.raises(HostError):
            hands.apply(Run(argv=("sleep", "100"), why="a test"))
        assert time.monotonic() - began < 20
        box.link("up")
        hands.close()
