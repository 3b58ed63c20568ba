"""Converts checkpoints on a Spark cluster: each task of a plan that `demi plan --tasks` wrote is one task of Spark, which runs
`demi run`; then `demi merge` runs on the driver. A plan in which values have to decide gets a round of scanning first.

    spark-submit demi_spark.py PLAN [--demi PATH_TO_DEMI]

PLAN, the sources and the destinations lie on storage that all executors and the driver see under the same paths. Spark retries
what may succeed later, and nothing else. The exit status is the worst of all: 0 done, 4 the same job can be submitted again,
others are for good.
"""
import argparse
import json
import subprocess
import sys

from py4j.protocol import Py4JJavaError
from pyspark import SparkContext


def errors(report):
    """The errors in what `demi run --json` prints: of the whole task, or of the files of it that failed."""
    return [report["error"]] if "error" in report else [w["error"] for w in report["work"] if "error" in w]


def run(demi, scan, plan, index):
    """Runs a task of the plan. What no retry can mend is returned, with its exit code; all else is raised, and Spark retries it."""
    done = subprocess.run([demi, "run", *scan, plan, "--index", str(index), "--json"], stdout=subprocess.PIPE, text=True)
    if done.returncode < 0:
        raise RuntimeError(f"task {index}: demi was killed by signal {-done.returncode}")
    report = json.loads(done.stdout)
    failed = errors(report)
    if any(e["retryable"] for e in failed):
        raise RuntimeError(f"task {index}: exit {done.returncode}: {failed[0]['message']}")
    return {"task": index, "exit": done.returncode, "errors": [e["message"] for e in failed]}


def convert(spark, demi, plan):
    """Runs the tasks of each round that the plan still has, and merges; returns the worst exit code."""
    worst = 0
    for phase, scan in ("scan", ["--scan"]), ("convert", []):
        with open(plan, encoding="utf-8") as f:
            document = json.load(f)
        if document["phase"] != phase:
            continue
        tasks = len(document["tasks"])
        for result in spark.parallelize(range(tasks), tasks).map(lambda index: run(demi, scan, plan, index)).collect():
            print(json.dumps(result), flush=True)
            worst = max(worst, result["exit"])
        # also after a failure: one bad checkpoint of a list stops no other
        worst = max(worst, subprocess.run([demi, "merge", *scan, plan, "--json"]).returncode)
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan")
    parser.add_argument("--demi", default="demi", help="the program, at the same path on all executors")
    args = parser.parse_args()
    with SparkContext(appName="demi") as spark:
        try:
            return convert(spark, args.demi, args.plan)
        except Py4JJavaError as e:  # a task has failed spark.task.maxFailures times
            print(e.java_exception.getMessage(), file=sys.stderr)
            return 4


if __name__ == "__main__":
    sys.exit(main())
