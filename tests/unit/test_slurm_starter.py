"""What starts a Slurm for tests leaves nothing of it behind, whatever is killed; no Slurm is run here."""

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from slurm_cluster import STARTER

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="the starter reads /proc, which only Linux has"
)

# It ends by itself, should a test not come to its end.
DAEMON = """#!/bin/bash
( for i in {1..600}; do sleep 0.1; done ) </dev/null >/dev/null 2>&1 &
echo $! >"${SLURM_CONF%/*}/run/${0##*/}.pid"
"""
# Commands of Slurm and of the system that the starter calls, and what they do here.
COMMANDS = dict.fromkeys(("munged", "slurmctld", "slurmd"), DAEMON)
COMMANDS |= dict.fromkeys(("scontrol", "scancel", "mknod", "apt-get"), "#!/bin/sh\nexit 0\n")
COMMANDS |= {"sinfo": "#!/bin/sh\necho idle\n", "id": "#!/bin/sh\necho 0\n"}


class Machine:
    """A folder in the place of /etc/slurm, and what runs on the machine."""

    def __init__(self, folder: Path):
        self.folder, self.system = folder, folder / "etc/slurm.conf"
        (folder / "bin").mkdir()
        for name, text in COMMANDS.items():
            (folder / "bin" / name).write_text(text)
            (folder / "bin" / name).chmod(0o755)
        self.environment = os.environ | {
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
            "SYSTEM_CONFIG": str(self.system),
        }

    def ask(self, *words: object) -> subprocess.CompletedProcess:
        command = [str(STARTER), *map(str, words)]
        return subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=60, check=False
        )

    def start(self, name: str, *owner: int) -> subprocess.CompletedProcess:
        return self.ask("start", self.folder / name, *owner)

    def alive(self, name: str) -> set[str]:
        """Daemons of a cluster that are alive."""
        found = set()
        for path in (self.folder / name / "run").glob("*.pid"):
            with contextlib.suppress(FileNotFoundError):
                # Of a process that has ended, and that nobody has waited for, no words are left.
                if Path(f"/proc/{path.read_text().strip()}/cmdline").read_bytes():
                    found.add(path.stem)
        return found

    def left(self) -> list[str]:
        return sorted(os.listdir(self.system.parent)) if self.system.parent.exists() else []


ALL = {"munged", "slurmctld", "slurmd"}


@pytest.fixture
def machine(tmp_path):
    made = Machine(tmp_path)
    yield made
    for name in ("one", "two"):
        made.ask("stop", tmp_path / name)


@pytest.fixture
def owner():
    """A process that has a Slurm of its own."""
    with subprocess.Popen(["sleep", "300"]) as process:
        yield process
        process.kill()


def until(condition, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def test_stop_takes_away_what_start_has_made(machine):
    told = machine.start("one")
    assert told.returncode == 0, told.stderr
    assert machine.system.resolve() == machine.folder / "one/slurm.conf"
    assert machine.alive("one") == ALL and len(machine.left()) == 2
    assert machine.start("one").returncode == 0  # again, of the same folder
    assert machine.ask("stop", machine.folder / "one").returncode == 0
    assert machine.left() == [] and not machine.alive("one")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_slurm_ends_with_its_owner_however_that_is_killed(machine, owner, how):
    assert machine.start("one", owner.pid).returncode == 0
    assert machine.alive("one") == ALL
    owner.send_signal(how)  # and nobody waits for it yet: it stays a zombie
    until(lambda: machine.left() == [] and not machine.alive("one"))


def test_a_slurm_can_be_handed_to_another_owner(machine, owner):
    assert machine.start("one", owner.pid).returncode == 0
    assert machine.start("one", os.getpid()).returncode == 0
    owner.kill()
    owner.wait()
    time.sleep(2.5)  # the first guard looks every second
    assert machine.alive("one") == ALL


def test_what_is_left_where_the_guard_was_killed_too_is_cleared_by_the_next_start(machine, owner):
    machine.environment["PATH"] = f"{machine.folder / 'no guard'}:{machine.environment['PATH']}"
    (machine.folder / "no guard").mkdir()
    (machine.folder / "no guard/setsid").symlink_to("/bin/true")
    assert machine.start("one", owner.pid).returncode == 0
    told = machine.start("two", os.getpid())
    assert told.returncode == 3 and f"(process {owner.pid}) is alive" in told.stderr
    assert machine.alive("one") == ALL and machine.system.resolve().parent.name == "one"
    owner.kill()
    owner.wait()
    told = machine.start("two", os.getpid())
    assert told.returncode == 0, told.stderr
    assert not machine.alive("one") and machine.alive("two") == ALL
    assert machine.system.resolve() == machine.folder / "two/slurm.conf"


def test_a_link_of_ours_to_a_folder_that_is_gone_is_replaced(machine, owner):
    assert machine.start("one", owner.pid).returncode == 0
    machine.ask("stop", machine.folder / "one")
    machine.system.symlink_to(machine.folder / "gone/slurm.conf")
    mark = machine.system.with_name("slurm.conf.of-a-test")
    mark.write_text(f"{machine.folder}/gone/slurm.conf\n1\n0\n")
    assert machine.start("two", owner.pid).returncode == 0
    assert machine.system.resolve() == machine.folder / "two/slurm.conf"


def test_a_number_that_is_somebody_elses_by_now_is_left_alone(machine, owner):
    assert machine.start("one").returncode == 0
    file = machine.folder / "one/run/slurmd.pid"
    daemon = int(file.read_text())
    file.write_text(f"{owner.pid}\n")
    assert machine.ask("stop", machine.folder / "one").returncode == 0
    assert owner.poll() is None
    os.kill(daemon, signal.SIGKILL)


@pytest.mark.parametrize("kind", ["file", "link", "dangling link", "link beside a mark"])
def test_a_configuration_of_anybody_else_stays(machine, kind):
    machine.system.parent.mkdir()
    real = machine.folder / "theirs.conf"
    if kind == "file":
        machine.system.write_text("ClusterName=theirs\n")
    else:
        machine.system.symlink_to(real)
        if kind != "dangling link":
            real.write_text("ClusterName=theirs\n")
    if kind.endswith("mark"):
        machine.system.with_name("slurm.conf.of-a-test").write_text("/elsewhere/slurm.conf\n1\n0\n")
    before = (machine.left(), os.path.realpath(machine.system))
    told = machine.start("one", os.getpid())
    assert told.returncode == 3 and "this machine has a Slurm already" in told.stderr
    assert machine.ask("stop", machine.folder / "one").returncode == 0
    assert (machine.left(), os.path.realpath(machine.system)) == before
    assert not machine.alive("one")
