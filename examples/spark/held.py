#!/usr/bin/env python3
"""Stands in for demi in check.py: the first attempt at each task of HELD_TASKS is stopped (SIGSTOP) in the middle of a file, and
says so in the directory HELD_DIR. Everything else runs as it is. Linux only."""
import os
import pathlib
import signal
import subprocess
import sys
import time


def writes(pid):
    """Whether a process has an unfinished file open."""
    try:
        return any(os.readlink(fd).endswith(".partial") for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir())
    except OSError:  # a file was closed meanwhile
        return False


def hold(command, mark):
    process = subprocess.Popen(command)
    while True:
        if process.poll() is not None:
            sys.exit("the task ended before it could be stopped")
        if not writes(process.pid):
            time.sleep(0.001)
            continue
        process.send_signal(signal.SIGSTOP)
        if writes(process.pid):
            break
        process.send_signal(signal.SIGCONT)
    mark.with_suffix(".tmp").write_text(f"{os.getpid()} {process.pid}")
    mark.with_suffix(".tmp").rename(mark)
    return process.wait()


def main():
    command, held = [os.environ["HELD_DEMI"], *sys.argv[1:]], pathlib.Path(os.environ["HELD_DIR"])
    index = command[command.index("--index") + 1] if "--index" in command else ""
    if index in os.environ["HELD_TASKS"].split(","):
        try:
            (held / f"{index}.first").mkdir()
            return hold(command, held / f"{index}.held")
        except FileExistsError:
            pass  # the first attempt was another one
    os.execv(command[0], command)


if __name__ == "__main__":
    sys.exit(main())
