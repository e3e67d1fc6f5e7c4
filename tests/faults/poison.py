#!/usr/bin/env python3
"""Tests an item that crashes its stage, while it is read or while its products are written and other items are in work.
This item alone is set aside after three attempts; `retry` sends it again."""

import json
import os

from faults import COUNT, Run, Work, calm, check, finish, graph, ledger, outcome, program, run, same, whole

LIBRARY = os.path.join(os.path.dirname(program("icestream")), "../tests/preload_poison.so")


def without(undisturbed, item, stage):
    """Returns the outcome when an item does not get past a stage."""
    image = f"{item}.mrcs"
    expected = {
        key: {name: value for name, value in undisturbed[key].items() if not name.startswith(f"{item}_")}
        for key in ("cuts", "picks")
    }
    expected["stacks"] = {name: value for name, value in undisturbed["stacks"].items() if name != image}
    expected["particles"] = [row for row in undisturbed["particles"] if not any(image in value for value in row)]
    if stage == "extractor":
        expected["picks"] = undisturbed["picks"]
    return expected


def poisoned(work, stage, name, item):
    session = work(stage)
    path = graph(work.path, f"{stage}.yaml", picker="replicas: 2", extractor="replicas: 2")
    options = ("--until-idle", "1", "--backoff", "0.1")
    poison = {"LD_PRELOAD": os.path.abspath(LIBRARY), "ICESTREAM_FAULT_POISON": f"icestream-{stage}:{name}"}
    with Run(path, session, *options, env={**os.environ, **poison}) as live:
        # The list at the end names the last death once more.
        output = "\n".join(line for line in live.finish(3).splitlines() if ": warning: " not in line)
    check(
        output.count(f"died while it worked on {item}") == 2 and f"{item} is set aside" in output,
        f"{stage}: reported twice, then set aside",
    )
    failed = ledger(session, stage, "SELECT id, reason, crashes FROM items WHERE state = 3")
    check([row[0] for row in failed] == [item] and failed[0][2] == 3, f"{stage}: {failed}")
    others = ledger(session, stage, "SELECT id, crashes FROM items WHERE crashes > 0 AND state <> 3")
    check(not others, f"{stage}: no other item is blamed {others}")
    state = json.loads(run("status", "--session", session, "--json").stdout)
    check(
        [(i["id"], i["stage"]) for i in state["items"] if i["state"] == "failed"] == [(item, stage)], "status knows it"
    )
    check(
        "was killed by Segmentation fault on it, 3 times" in run("status", "--session", session).stdout,
        f"{stage}: status has the reason",
    )
    found, expected = outcome(session), without(calm(), item, stage)
    same(expected, {key: found[key] for key in expected}, f"{stage} without it")
    check(run("retry", "--session", session).stdout.startswith(f"{stage}: {item} goes through again"), "retry takes it")
    with Run(path, session, *options) as live:
        live.finish(0)
    same(calm(), outcome(session), f"{stage} after the retry")
    whole(session, f"{stage} after the retry")


with Work("poison") as work:
    item = sorted(name[: -len(".mrcs")] for name in calm()["stacks"])[COUNT // 3]
    poisoned(work, "lowpass-picker", f"{item}.mrc", item)
    poisoned(work, "extractor", f".{item}.mrcs.partial", item)
    finish()
