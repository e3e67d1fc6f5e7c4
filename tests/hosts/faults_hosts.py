#!/usr/bin/env python3
"""Disturbs a session on three hosts. It must end like an undisturbed one: the same picks, particles and counts.

faults_hosts.py CASE...     faults one after the other; CASE is a name below
faults_hosts.py random N    N faults at random, on 200 micrographs"""

import importlib.util
import json
import os
import signal
import socket
import sys
import time

from hosts_session import LOST, Session, World, check, finish, kill, seeded

SILENCE = 10  # s after which a host that is not heard is lost, and the launcher knows


BATCH = 20  # micrographs that arrive while something is at fault


def batch(session, spread=True):
    """Lets micrographs arrive, and waits until some are done; returns the pickers by host, once all hosts work."""
    session.arrive(BATCH)
    pickers = session.until_spread() if spread else {}
    session.until_done("extractor", session.arrived - BATCH + 4)
    return pickers


def until_elsewhere(session, since, *hosts):
    """hosts: or their names. Waits until nothing of lost hosts counts any more, and all that had arrived is done by
    others. A machine that is busy with other tests takes a while to start what does it."""
    names = {getattr(host, "name", host) for host in hosts}
    left = since + LOST - time.monotonic()
    session.until(lambda: not names & set(session.places().values()), left, f"nothing runs on {names}")
    found = time.monotonic() - since
    session.until_all_done(2 * LOST)
    text = f"what {', '.join(sorted(names))} had in work went elsewhere after {found:.1f} s, and was done"
    check(True, f"{text} after {time.monotonic() - since:.1f} s")


def until_back(session, *hosts):
    names = {host.name for host in hosts}
    session.until(lambda: names <= set(session.places().values()), 60, f"{names} work again")


# ---- What passes before anybody is lost


def instance(session, pickers):
    """Instances on other hosts are killed."""
    for host in session.agent_hosts:
        kill(session.instances(host)[pickers[host.name]])
    session.until_all_done()
    killed = [pickers[host.name] for host in session.agent_hosts]
    session.until(lambda: all(session.launcher.says(name) for name in killed), 20, "both are told of")


def cut(session, _):
    """A cable is out for less than it takes to be lost."""
    session.agent_hosts[0].cut()
    time.sleep(5)
    session.agent_hosts[0].join()
    session.until_all_done()
    check("not heard any more" not in session.launcher.output(), "no host was lost")


def folder(session, _):
    """The shared folder is away from one host."""
    session.agent_hosts[0].hide()
    time.sleep(3)
    session.agent_hosts[0].show()
    session.until_all_done()


def database(session, _):
    """The server crashes, loses answers of COMMITs, and is away for longer than a host may be silent."""
    session.world.relay.swallow(3)
    session.world.database.restart()
    session.until_done("extractor", session.arrived - BATCH // 2)
    session.world.database.end()
    time.sleep(SILENCE)
    session.world.database.begin()
    session.until_all_done()


def listening(host):
    """Returns the addresses at which a host listens, but for loopback: ["10.0.0.2:4242"]."""
    found = []
    for line in host.run("cat", "/proc/net/tcp").stdout.splitlines()[1:]:
        local, state = line.split()[1], line.split()[3]
        address, port = socket.inet_ntoa(bytes.fromhex(local.split(":")[0])[::-1]), int(local.split(":")[1], 16)
        if state == "0A" and not address.startswith("127."):
            found.append(f"{address if address != '0.0.0.0' else host.address}:{port}")
    return found


def strangers(session, _):
    """A process on the network that has no keys speaks to all ports of the session."""
    one, other = session.agent_hosts
    ports = [port for host in (session.launcher_host, one) for port in listening(host)]
    told = other.run(sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "stranger.py"), 4, *ports)
    answer = json.loads(told.stdout)
    check(len(ports) >= 5, f"the control channel and the edges listen: {ports}")
    check(answer == {"tried": len(ports), "heard": 0, "spoke": 0}, f"a stranger gets nothing: {answer}")
    session.until_all_done()
    check("stranger" not in session.places().values(), "and is no host")


# ---- What is lost for a while


def host(session, _):
    """A whole host loses its power, while another one stands still. Both come back."""
    since = time.monotonic()
    one, other = session.agent_hosts
    one.kill()
    other.stop()
    until_elsewhere(session, since, one, other)
    other.wake()
    one.boot()
    session.join(one)
    until_back(session, one, other)


def agent(session, _):
    """The agent of a host is killed, and its instances end with it; nothing of another host is heard, and it hears all."""
    since = time.monotonic()
    one, other = session.agent_hosts
    session.agents[one].kill()
    other.mute()
    session.until(lambda: not session.instances(one), 10, "no instance outlives its agent")
    until_elsewhere(session, since, one, other)
    other.heal()
    session.join(one)
    until_back(session, one, other)


def away(session, seconds, take, give):
    """Something is the matter with a host for long. It is told that its instances do not count any more."""
    since = time.monotonic()
    take()
    until_elsewhere(session, since, session.agent_hosts[0])
    time.sleep(max(0, since + seconds - time.monotonic()))
    give()
    until_back(session, session.agent_hosts[0])


def cut_20(session, _):
    away(session, 20, session.agent_hosts[0].cut, session.agent_hosts[0].join)


def cut_90(session, _):
    away(session, 90, session.agent_hosts[0].cut, session.agent_hosts[0].join)


def stop_60(session, _):
    away(session, 60, session.agent_hosts[0].stop, session.agent_hosts[0].wake)


def database_60(session, _):
    """The server is away for a minute."""
    session.world.database.end()
    time.sleep(60)
    session.world.database.begin()
    session.until_all_done()


def leaves(session, _):
    """An agent gets SIGTERM, as before a time limit: it leaves in order, and its items go elsewhere."""
    since, one = time.monotonic(), session.agent_hosts[0]
    session.agents[one].signal(signal.SIGTERM)
    until_elsewhere(session, since, one)
    check(session.agents[one].wait(20) == 0, "the agent has left")


# ---- Launchers


def take_over(session, other, *more):
    """The launcher's host stands still, and a launcher on another host takes the session over. The first one wakes."""
    first = session.launcher
    session.world.hosts[0].stop()
    run = session.run_number()
    session.launch(other, "--set", f"session.listen={other.address}", *more)
    session.until(lambda: session.run_number() > run, 60, "another launcher runs the session")
    session.arrive(BATCH)
    session.until_all_done()
    session.world.hosts[0].wake()
    check(first.wait(60) != 0, "the launcher that was replaced ends when it wakes")
    check("taken this session over" in first.output(), "and says why")


def launcher(session, _):
    take_over(session, session.agent_hosts[1])


def moved(session):
    """A session of one host goes on on another one."""
    session.launch()
    session.arrive(BATCH)
    session.until_done("extractor", 4)
    take_over(session, session.world.hosts[1])


CASES = (instance, cut, folder, strangers, database, host, agent, cut_20, cut_90, stop_60, database_60, leaves, launcher)


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
    with Session(world) as session:
        session.begin()
        session.until_spread()
        session.arrive(200, 0.05 * count)
        Chaos(session, seeded()).run(count)
        session.finish(900)
    session.compare(f"after {count} faults")


def run(world, cases):
    known = {one.__name__: one for one in CASES}
    with Session(world) as session:
        session.begin()
        for case in cases:
            begin = time.monotonic()
            known[case](session, batch(session))
            check(True, f"{case}: {time.monotonic() - begin:.1f} s")
        session.arrive(4)
        session.finish()
    session.compare()


def main():
    cases = sys.argv[1:]
    if "strangers" in cases and importlib.util.find_spec("zmq") is None:
        print("skipped: python3-zmq is not installed")
        sys.exit(77)
    with World(f"hosts-{cases[0]}") as world:
        if cases[0] == "random":
            at_random(world, int(cases[1]))
        elif cases[0] == "moved":
            with Session(world, spread="transport: tcp") as session:
                moved(session)
                session.arrive(4)
                session.finish()
            session.compare()
        else:
            run(world, cases)
    finish()


if __name__ == "__main__":
    main()
