#!/usr/bin/env python3
"""Runs a session whose hosts are jobs of Slurm, on three hosts: one of them leaves as before its time limit, and a node is
cut off. Slurm brings both back, and the session ends like an undisturbed one."""

import time

from faults_hosts import BATCH, batch, until_elsewhere
from hosts_session import Session, World, check, finish
from slurm import Slurm

LINES = '["--exclusive --nodes 1", "--exclusive --nodes 1"]'


def jobs(slurm, state="RUNNING"):
    """Returns {node: number} of the jobs in a state."""
    return {node: number for number, what, node in slurm.queue() if what == state}


def wait_spread(session, slurm):
    """Waits until both nodes run something."""

    def spread():
        names = {f"{node}-{number}" for node, number in jobs(slurm).items()}
        return len(names) == 2 and names <= set(session.places().values())

    session.until(spread, 150, "both nodes run something")


def leaves(session, slurm):
    """A job that has left, as Slurm makes it before a time limit, is submitted again."""
    since, (node, number) = time.monotonic(), min(jobs(slurm).items())
    session.launcher_host.run("scancel", "--batch", "--signal=TERM", number)
    until_elsewhere(session, since, f"{node}-{number}")
    session.until(lambda: number not in jobs(slurm).values(), 30, "the job is over")
    wait_spread(session, slurm)
    check(number not in jobs(slurm).values(), "another job is there in its place")


def cut(session, slurm):
    """A node is cut off: the session notices it before Slurm does, which puts the job into its queue again."""
    node = session.agent_hosts[0]
    number, since = jobs(slurm)[node.name], time.monotonic()
    node.cut()
    until_elsewhere(session, since, f"{node.name}-{number}")
    check(number in jobs(slurm).values(), "for Slurm the job still runs")
    session.until(lambda: number in [n for n, what, _ in slurm.queue() if what == "PENDING"], 90, "the job is requeued")
    node.join()


def main():
    with World("hosts-slurm") as world:
        slurm = Slurm(world)
        with Session(world, spread=f"engine: slurm, slurm: {LINES}") as session:
            session.launch()
            wait_spread(session, slurm)
            for fault in (leaves, cut):
                batch(session, spread=False)
                fault(session, slurm)
            session.arrive(BATCH)
            session.finish()
            check(slurm.queue() == [] or all(what == "COMPLETING" for _, what, _ in slurm.queue()), "no job is left")
        session.compare()
    finish()


main()
