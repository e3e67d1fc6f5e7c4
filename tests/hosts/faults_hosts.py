#!/usr/bin/env python3
"""Disturbs a session on three hosts. It must end like an undisturbed one: the same picks, particles and counts.

faults_hosts.py CASE        one fault: CASE is a name below
faults_hosts.py random N    N faults at random, on 200 micrographs"""

import signal
import sys
import time

from hosts_session import LOST, Session, World, check, finish, kill, seeded

SILENCE = 10  # s after which a host that is not heard is lost, and the launcher knows


def begun(session):
    """Starts a session; returns the pickers by host, once all hosts work."""
    session.begin()
    pickers = session.until_spread()
    session.until_done("extractor", 6)
    return pickers


def until_elsewhere(session, host, since):
    """Waits until nothing of a lost host counts any more and its instances run elsewhere."""
    session.until(lambda: host.name not in session.places().values(), LOST, f"nothing runs on {host.name}")
    check(time.monotonic() - since < LOST, f"what ran on {host.name} runs elsewhere after {time.monotonic() - since:.1f} s")


def until_back(session, host):
    session.until(lambda: host.name in session.places().values(), 60, f"{host.name} works again")


def instance(session):
    """An instance on another host is killed."""
    pickers = begun(session)
    for host in session.agent_hosts:
        kill(session.instances(host)[pickers[host.name]])
    session.finish()
    said = session.launcher.output()
    check(all(pickers[host.name] in said for host in session.agent_hosts), "the launcher tells of both")


def agent(session):
    """The agent of a host is killed; its instances end with it. Another agent joins from there."""
    begun(session)
    host, since = session.agent_hosts[0], time.monotonic()
    session.agents[host].kill()
    session.until(lambda: not session.instances(host), 10, "no instance outlives its agent")
    until_elsewhere(session, host, since)
    session.join(host)
    session.finish()


def host(session):
    """A whole host loses its power. It is there again later."""
    begun(session)
    one, since = session.agent_hosts[0], time.monotonic()
    one.kill()
    until_elsewhere(session, one, since)
    one.boot()
    session.join(one)
    session.finish()


def leaves(session):
    """An agent gets SIGTERM, as before a time limit: it leaves in order, and its items go elsewhere."""
    begun(session)
    one, since = session.agent_hosts[0], time.monotonic()
    session.agents[one].signal(signal.SIGTERM)
    until_elsewhere(session, one, since)
    check(session.agents[one].wait(20) == 0, "the agent has left")
    session.finish()


def cut(session, seconds=5):
    """A cable is out for less than it takes to be lost."""
    begun(session)
    one = session.agent_hosts[0]
    before = session.instances(one)
    one.cut()
    time.sleep(seconds)
    one.join()
    session.finish()
    check("is lost" not in session.launcher.output(), f"no host was lost ({len(before)} instances)")


def cut_long(session, seconds=20):
    """A cable is out for longer than that."""
    begun(session)
    one, since = session.agent_hosts[0], time.monotonic()
    one.cut()
    until_elsewhere(session, one, since)
    time.sleep(max(0, since + seconds - time.monotonic()))
    one.join()
    session.finish()


def mute(session):
    """A host hears all others, and nobody hears it."""
    begun(session)
    one, since = session.agent_hosts[0], time.monotonic()
    one.mute()
    until_elsewhere(session, one, since)
    one.heal()
    until_back(session, one)
    session.finish()


def stopped(session):
    """A host stands still, and wakes when others have done its work."""
    begun(session)
    one, since = session.agent_hosts[0], time.monotonic()
    one.stop()
    until_elsewhere(session, one, since)
    one.wake()
    until_back(session, one)
    session.finish()


def launcher(session):
    """The launcher stands still, and another one takes the session over on another host. The first one wakes."""
    begun(session)
    first, other = session.launcher, session.agent_hosts[1]
    session.world.hosts[0].stop()
    more = ("--set", f"session.listen={other.address}", "--set", "session.hosts=[beta]")
    session.launch(other, *more)
    session.until_done("extractor", 20)
    session.world.hosts[0].wake()
    check(first.wait(60) != 0, "the launcher that was replaced ends when it wakes")
    check("taken this session over" in first.output(), "and says why")
    session.finish()


def database(session):
    """The server crashes, is away for longer than a host may be silent, and loses answers of COMMITs."""
    begun(session)
    world = session.world
    world.relay.swallow(3)
    world.database.restart()
    session.until_done("extractor", 15)
    world.database.end()
    time.sleep(SILENCE)
    world.database.begin()
    session.finish()
    check(world.relay.lost == 3, "answers of COMMITs were lost")


def folder(session):
    """The shared folder is away from one host."""
    begun(session)
    one = session.agent_hosts[0]
    one.hide()
    time.sleep(SILENCE / 2)
    one.show()
    session.finish()


CASES = {one.__name__: one for one in (instance, agent, host, leaves, cut, cut_long, mute, stopped, launcher, database, folder)}


# ---- at random


class Chaos:
    """Faults that last a random time, each on a random host."""

    def __init__(self, session, rng):
        self.session, self.rng, self.world = session, rng, session.world

    def pause(self, least, most):
        time.sleep(self.rng.uniform(least, most))

    def instance(self, one):
        pids = list(self.session.instances(one).values())
        if pids:
            kill(self.rng.choice(pids))

    def agent(self, one):
        self.session.agents[one].kill()
        self.pause(0, 12)
        self.session.join(one)

    def host(self, one):
        one.kill()
        self.pause(0, 15)
        one.boot()
        self.session.join(one)

    def cut(self, one):
        one.cut()
        self.pause(1, 25)
        one.join()

    def mute(self, one):
        one.mute()
        self.pause(1, 25)
        one.heal()

    def stop(self, one):
        one.stop()
        self.pause(1, 25)
        one.wake()

    def hide(self, one):
        one.hide()
        self.pause(1, 10)
        one.show()

    def server(self, _):
        self.world.database.end()
        self.pause(0, 15)
        self.world.database.begin()

    def answers(self, _):
        self.world.relay.swallow(self.rng.randrange(1, 10))

    def launcher(self, _):
        self.session.launcher.kill()
        self.pause(0, 10)
        self.session.launch()

    def run(self, count):
        faults = [self.instance, self.agent, self.host, self.cut, self.mute, self.stop, self.hide, self.server]
        faults += [self.answers, self.launcher]
        for k in range(count):
            fault, one = self.rng.choice(faults), self.rng.choice(self.session.agent_hosts)
            print(f"{k}: {fault.__name__} {one.name}, {self.session.done('extractor')} done", flush=True)
            fault(one)
            self.pause(0.2, 3)


def at_random(world, count):
    with Session(world, count=200, pace=max(0.2, 0.05 * count), options=("--until-idle", "30")) as session:
        session.begin()
        session.until_spread()
        Chaos(session, seeded()).run(count)
        session.finish(900)
    session.compare(f"after {count} faults")


def main():
    case = sys.argv[1]
    with World(f"hosts-{case}") as world:
        if case == "random":
            at_random(world, int(sys.argv[2]))
        else:
            with Session(world) as session:
                CASES[case](session)
            session.compare()
    finish()


main()
