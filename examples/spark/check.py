"""Runs demi_spark.py on a real Spark, with two executors, and kills in mid-task: the JVM of one executor, whose demi goes on
beside the second attempt, as on a machine that was cut off; and a Python worker together with its demi. One of two checkpoints
changes after it was planned. The output must have the bytes of one process, and the event log must say that Spark has
retried what was killed and nothing else.

    python check.py --demi PATH_TO_DEMI        (in an environment with requirements.txt; Linux; needs Java 17 or newer)
"""
import argparse
import array
import collections
import hashlib
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

import pyspark

HERE = pathlib.Path(__file__).resolve().parent
TASKS = 6
JVM_KILLED, WORKER_KILLED = 1, 4
FLAGS = ["--dtype", "bf16", "--max-shard-size", "10MB"]


def write_checkpoint(path, tensors):
    """A safetensors file with tensors of 10 MB each."""
    rows, block = 40, array.array("f", [random.Random(1).gauss(0, 0.02) for _ in range(1 << 16)]).tobytes()
    size = rows * len(block)
    header = json.dumps({f"layers.{k}.weight": {"dtype": "F32", "shape": [rows, 1 << 16], "data_offsets": [k * size, (k + 1) * size]}
                         for k in range(tensors)}).encode()
    header += b" " * (-len(header) % 8)
    with open(path, "wb") as f:
        f.write(len(header).to_bytes(8, "little") + header)
        for k in range(tensors):
            f.write((block[4 * k:] + block[:4 * k]) * rows)


def digests(directory):
    return {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in sorted(directory.iterdir())}


def parent(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def executor_of(pid):
    """The JVM of the executor under which a process runs."""
    while b"CoarseGrainedExecutorBackend" not in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes():
        pid = parent(pid)
        assert pid > 1, "no executor among the parents"
    return pid


def wait_held(held, index, spark):
    """Waits until a task is stopped; returns its wrapper and its demi."""
    while not (held / f"{index}.held").exists():
        assert spark.poll() is None, "Spark ended before the task was stopped"
        time.sleep(0.05)
    return [int(pid) for pid in (held / f"{index}.held").read_text().split()]


def kill_all(held, spark):
    wrapper, demi = wait_held(held, JVM_KILLED, spark)
    os.kill(executor_of(wrapper), signal.SIGKILL)
    os.kill(demi, signal.SIGCONT)
    wrapper, demi = wait_held(held, WORKER_KILLED, spark)
    for pid in (parent(wrapper), wrapper, demi):
        os.kill(pid, signal.SIGKILL)


def submit(work, demi, log):
    home = os.path.dirname(pyspark.__file__)
    env = dict(os.environ, SPARK_HOME=home, SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=sys.executable, HELD_DEMI=demi,
               HELD_DIR=str(work / "held"), HELD_TASKS=f"{JVM_KILLED},{WORKER_KILLED}",
               SPARK_WORKER_DIR=str(work / "spark"), SPARK_LOCAL_DIRS=str(work / "spark"))
    settings = {"spark.ui.enabled": "false", "spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file://{work}/events",
                "spark.eventLog.rolling.enabled": "false", "spark.eventLog.compress": "false"}
    command = [f"{home}/bin/spark-submit", "--master", "local-cluster[2,1,1024]"]
    for key, value in settings.items():
        command += ["--conf", f"{key}={value}"]
    command += [str(HERE / "demi_spark.py"), f"{work}/plan.json", "--demi", str(HERE / "held.py")]
    return subprocess.Popen(command, cwd=work, env=env, stdout=subprocess.PIPE, stderr=log, text=True)


def attempts(events):
    """For each task of Spark, how its attempts ended, on which executors."""
    by_task = collections.defaultdict(list)
    for line in events.read_text().splitlines():
        event = json.loads(line)
        if event["Event"] == "SparkListenerTaskEnd":
            by_task[event["Task Info"]["Index"]].append((event["Task End Reason"]["Reason"], event["Task Info"]["Executor ID"]))
    return by_task


def check_attempts(by_task):
    assert sorted(by_task) == list(range(TASKS)), by_task
    for task, ends in sorted(by_task.items()):
        reasons = [reason for reason, _ in ends]
        if task == JVM_KILLED:
            assert reasons == ["ExecutorLostFailure", "Success"], ends
            assert ends[0][1] != ends[1][1], "the second attempt was on the executor that was killed"
        elif task == WORKER_KILLED:
            assert reasons == ["ExceptionFailure", "Success"], ends
        else:
            assert reasons == ["Success"], (task, ends)
        print(f"task {task}: " + ", then ".join(f"{reason} on executor {executor}" for reason, executor in ends))


def prepare(work, demi):
    for name in ("held", "events", "spark"):
        (work / name).mkdir()
    write_checkpoint(work / "model.safetensors", 24)
    write_checkpoint(work / "changed.safetensors", 1)
    (work / "jobs.tsv").write_text("model.safetensors\tout\nchanged.safetensors\tnone\n")
    subprocess.run([demi, "model.safetensors", "reference", *FLAGS, "-q"], cwd=work, check=True)
    subprocess.run([demi, "plan", "--list", "jobs.tsv", *FLAGS, "--tasks", str(TASKS), "-o", "plan.json"], cwd=work, check=True)
    os.utime(work / "changed.safetensors", (0, 0))


def run(work, demi):
    began = time.monotonic()
    with open(work / "log", "w", encoding="utf-8") as log:
        spark = submit(work, demi, log)
        try:
            kill_all(work / "held", spark)
            out, _ = spark.communicate(timeout=600)
        except BaseException:
            spark.terminate()
            spark.wait()
            print((work / "log").read_text()[-4000:])
            raise
    print(f"{out}Spark ended with exit {spark.returncode} after {time.monotonic() - began:.0f} s")
    assert spark.returncode == 3, "a changed source is exit 3"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--demi", required=True)
    demi = os.path.abspath(parser.parse_args().demi)
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        prepare(work, demi)
        run(work, demi)
        events, = (work / "events").iterdir()
        check_attempts(attempts(events))
        want, got = digests(work / "reference"), digests(work / "out")
        assert got == want, (got, want)
        print(f"{len(want)} files, sha256 as of one process")
        hidden = [f.name for f in work.iterdir() if f.name.startswith(".")]
        assert sorted(hidden) == [".none.parts", ".out.receipt"], hidden
        assert not (work / "none").exists(), "the changed checkpoint was converted"


if __name__ == "__main__":
    main()
