"""Output files: replaced whole or not at all."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from calibrant._writing import replaced, write_whole
from conftest import optional


def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path):
    target = tmp_path / "out.txt"
    write_whole(target, "old")
    write_whole(target, "new ü")
    assert target.read_text(encoding="utf-8") == "new ü"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_a_failure_leaves_the_old_file(tmp_path, failure):
    target = tmp_path / "out.txt"
    write_whole(target, "old")

    def fail():
        with replaced(target) as stream:
            stream.write(b"half of the new")
            raise failure("stop")

    with pytest.raises(failure):
        fail()
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


SAVE_AND_READ = """
import sys
from pathlib import Path
from calibrant._writing import write_whole

target, letter = Path(sys.argv[1]), sys.argv[2]
for _ in range(100):
    write_whole(target, letter * 50_000)
    text = target.read_text()
    assert len(text) == 50_000 and text == text[0] * 50_000, "a torn file"
"""


def test_threads_that_save_to_one_file_leave_it_whole_at_any_moment(tmp_path):
    """Every thread reads after it has written: the file is there, and one of the documents."""
    import calibrant

    target, torn = tmp_path / "cal.json", []
    rng = np.random.default_rng(0)
    p = rng.uniform(size=500)
    y = rng.uniform(size=500) < p
    models = [calibrant.HistogramBinning(bins=20 * k).fit(p, y) for k in (1, 2, 3, 4)]
    documents = set()
    for model in models:
        model.save(target)
        documents.add(target.read_bytes())

    def save_and_read(model):
        for _ in range(50):
            model.save(target)
            if target.read_bytes() not in documents:
                torn.append(model)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(save_and_read, models))
    assert (len(documents), torn) == (4, [])
    assert list(tmp_path.iterdir()) == [target]


def test_processes_that_write_one_file_leave_it_whole_at_any_moment(tmp_path):
    target = tmp_path / "out.txt"
    argv = [sys.executable, "-c", SAVE_AND_READ, str(target)]
    writers = [subprocess.Popen([*argv, letter], stderr=subprocess.PIPE) for letter in "abcd"]
    ends = [(writer.communicate()[1], writer.returncode) for writer in writers]
    assert ends == [(b"", 0)] * 4
    assert list(tmp_path.iterdir()) == [target]


def test_a_link_planted_at_the_temporary_name_is_not_followed(tmp_path, monkeypatch):
    target, victim = tmp_path / "out.txt", tmp_path / "victim.txt"
    victim.write_text("mine")
    guess = tmp_path / f".out.txt.{os.getpid()}.part"
    guess.symlink_to(victim)
    write_whole(target, "new")
    assert (target.read_text(), victim.read_text(), guess.is_symlink()) == ("new", "mine", True)

    monkeypatch.setattr("secrets.token_hex", lambda n: "0" * 2 * n)  # the best guess of all
    guess.rename(tmp_path / f".out.txt.{'0' * 32}.part")
    with pytest.raises(FileExistsError):
        write_whole(target, "newer")
    assert (target.read_text(), victim.read_text()) == ("new", "mine")


@pytest.mark.parametrize("length", [255, 85])
def test_a_name_as_long_as_the_system_allows_is_written(tmp_path, length):
    target = tmp_path / (("x" if length == 255 else "\N{EURO SIGN}") * length)
    write_whole(target, "new")
    assert target.read_text() == "new"


def test_a_kill_leaves_the_old_file(tmp_path):
    target = tmp_path / "out.txt"
    write_whole(target, "old")
    code = (
        "import os, signal, sys\n"
        "from calibrant._writing import replaced\n"
        "with replaced(sys.argv[1]) as stream:\n"
        "    stream.write(b'x' * 100_000); stream.flush()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", code, target])
    assert killed.returncode == -signal.SIGKILL
    assert target.read_text() == "old"


@pytest.fixture
def small_disk(tmp_path):
    """Mount a disk of 64 KB, where the system lets us."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if not sys.platform.startswith("linux") or os.geteuid() != 0:
        pytest.skip("only root on Linux can mount a small disk")
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("this system does not let us mount a small disk")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_leaves_the_old_file_and_is_named(small_disk):
    target = small_disk / "out.txt"
    write_whole(target, "old")
    with pytest.raises(OSError, match="No space left on device") as caught:
        write_whole(target, "x" * 200_000)
    assert caught.value.filename == str(target)
    assert target.read_text() == "old"
    assert list(small_disk.iterdir()) == [target]


def test_a_command_on_a_full_disk_is_bad_input_and_leaves_the_old_file(small_disk, capsys):
    optional("pyarrow")
    import calibrant
    from calibrant.cli import main

    table, out, calibrator = (small_disk.parent / n for n in ("in.csv", "disk/out.csv", "cal.json"))
    table.write_text("score\n" + "0.5\n" * 10_000)
    out.write_text("old")
    calibrant.Identity().fit([0.1, 0.9], [0, 1]).save(calibrator)
    assert main(["apply", str(calibrator), str(table), "--y-prob", "score", "-o", str(out)]) == 3
    assert capsys.readouterr().err == f"calibrant: {out}: No space left on device\n"
    assert out.read_text() == "old"
    assert list(small_disk.iterdir()) == [out]


def test_a_limit_on_the_size_of_files_leaves_the_old_file(tmp_path):
    target = tmp_path / "out.txt"
    write_whole(target, "old")
    code = (
        "import resource, signal, sys\n"
        "from calibrant._writing import write_whole\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "write_whole(sys.argv[1], 'x' * 100_000)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, target], capture_output=True, text=True)
    assert "File too large" in done.stderr
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_links_are_followed_and_permissions_kept(tmp_path):
    target, link = tmp_path / "private.txt", tmp_path / "link.txt"
    write_whole(target, "old")
    target.chmod(0o600)
    link.symlink_to(target)
    write_whole(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_a_new_file_has_the_permissions_that_the_umask_leaves(tmp_path):
    before = os.umask(0o027)
    try:
        write_whole(tmp_path / "out.txt", "new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out.txt").stat().st_mode) == 0o640


def test_what_replaces_a_private_file_is_private_before_anything_is_written(tmp_path):
    target = tmp_path / "private.txt"
    target.touch(mode=0o600)
    with replaced(target) as stream:
        assert stat.S_IMODE(os.fstat(stream.fileno()).st_mode) == 0o600


def test_devices_are_written_to_and_not_replaced():
    write_whole("/dev/null", "gone")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
