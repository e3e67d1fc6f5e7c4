#!/usr/bin/env python3
"""Makes the n-th call of one kind fail in one stage, for one n after the other: memory, reads, writes, syncs, opened
files, threads. The stage must end with the same products, or with a reason (exit code 1, 3 or 75), and never with a
crash, a hang or a wrong product. The same command again, undisturbed, must mend what is missing.

sweep.py files STAGE [TRIES]      on files; TRIES: of each kind, spread over all n; without it every n
sweep.py pipeline STAGE [TRIES]   as the stage of a session, which starts it again"""

import concurrent.futures
import hashlib
import os
import shutil
import subprocess
import sys

from faults import BIN, Work, arrive, check, finish, graph, names, program, run

PRELOAD = os.path.join(BIN, "../tests/preload_nth.so")
KINDS = ("malloc", "read", "write", "fsync", "open", "thread")
COUNT = 2
LIMIT = 120  # s; a run takes a fraction of a second


def environment(kind, number, **more):
    return {**os.environ, "LD_PRELOAD": PRELOAD, "NTH_CALL": kind, "NTH": str(number), "OMP_NUM_THREADS": "1", **more}


def content(folder):
    """Returns {path: digest} of all that a stage has written, hidden files too. The rows of joined tables stand in the
    order in which items came; an item whose message was lost comes later."""
    found = {}
    for base, _, files in os.walk(folder):
        for name in files:
            path = os.path.join(base, name)
            with open(path, "rb") as file:
                text = file.read()
            if name in ("particles.star", "autopick.star"):
                text = b"".join(sorted(text.splitlines()))
            found[os.path.relpath(path, folder)] = hashlib.sha256(text).hexdigest()
    return found


def chosen(total, tries):
    """Returns numbers from 1 to total: all, or so many at equal distances."""
    if not tries or tries >= total:
        return list(range(1, total + 1))
    return sorted({1 + (total - 1) * i // max(1, tries - 1) for i in range(tries)})


def sweep(stage, work, tries, attempt, count_calls):
    """Tries the numbers of each kind, and checks what became of them. attempt: returns what is wrong with a number (or
    None), whether the call failed at all, and the exit code."""
    for kind in KINDS:
        count = work(f"{kind}.count")
        count_calls(kind, count)
        total = max(int(line.split()[-1]) for line in open(count))
        numbers = chosen(total, tries)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            results = list(pool.map(lambda number: attempt(kind, number), numbers))
        bad = [(number, wrong) for number, (wrong, _, _) in zip(numbers, results) if wrong]
        hits = sum(hit for _, hit, _ in results)
        codes = sorted({str(code) for _, _, code in results})
        check(
            not bad,
            f"{stage}, {kind}: {len(numbers)} of {total} calls, {hits} failed, exit codes {' '.join(codes)}; "
            f"{len(bad)} wrong {bad[:5]}",
        )
        # Threads take turns differently from run to run, so the last calls may not come.
        check(hits >= len(numbers) // 2, f"{stage}, {kind}: {hits} of {len(numbers)} calls were made to fail")


def on_files(stage, tries):
    with Work("sweep") as work:
        arrive(names()[:COUNT], work("in"))
        words = {
            "lowpass-picker": ["--i", work("in"), "--diameter", "130", "--pixel_size", "6", "--write_png", "false"],
            "extractor": ["--i", work("picks/autopick.star"), "--box", "32"],
        }
        common = ["--threads", "1"]
        picks = [program("icestream-lowpass-picker"), *words["lowpass-picker"], "--o", work("picks"), *common]
        subprocess.run(picks, check=True, capture_output=True)

        def begin(folder, **environment):
            """Runs the stage; returns its exit code and what it said."""
            command = [program(f"icestream-{stage}"), *words[stage], "--o", folder, *common]
            try:
                done = subprocess.run(
                    command, capture_output=True, text=True, timeout=LIMIT, cwd=work.path, **environment
                )
            except subprocess.TimeoutExpired:
                return "hangs", ""
            return done.returncode, done.stderr

        check(begin(work("calm/out"))[0] == 0, "undisturbed")
        calm = content(work("calm/out"))

        def attempt(kind, number):
            """Returns what is wrong with one n, and whether the call failed at all."""
            folder = work(f"{kind}-{number}/out")
            mark = work(f"{kind}-{number}.mark")
            os.mkdir(os.path.dirname(folder))
            code, said = begin(folder, env=environment(kind, number, NTH_ONCE=mark))
            wrong = None
            last = said.strip().splitlines()[-1:] or [""]
            if code not in (0, 1, 3, 75):
                wrong = f"exit {code}: {last[0]}"
            elif code == 0 and content(folder) != calm:
                wrong = "exit 0, but other products"
            elif code != 0 and not said.strip():
                wrong = f"exit {code} without a word"
            if code != 0 and not wrong:
                again, said = begin(folder)
                if again != 0 or content(folder) != calm:
                    wrong = f"exit {code}, and again: exit {again}: {said.strip()[-200:]}"
            hit = os.path.exists(mark)
            if not wrong:
                shutil.rmtree(os.path.dirname(folder))
            return wrong, hit, code

        sweep(
            stage,
            work,
            tries,
            attempt,
            lambda kind, count: begin(work(f"{kind}-count/out"), env=environment(kind, 0, NTH_COUNT=count)),
        )
        finish()


def in_pipeline(stage, tries):
    with Work("sweep") as work:
        arrive(names()[:COUNT], work("in"))
        path = graph(work.path, micrographs=work("in"))
        options = ("--until-idle", "0.5", "--backoff", "0.05")

        def begin(session, **environment):
            """Runs a session; returns its exit code and what it said."""
            command = [program("icestream"), "run", path, "--session", session, *options]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, **environment)
            except subprocess.TimeoutExpired:
                return "hangs", ""
            return done.returncode, done.stderr

        def products(session):
            return {name: content(os.path.join(session, name)) for name in ("lowpass-picker", "extractor")}

        check(begin(work("calm"))[0] == 0, "undisturbed")
        calm = products(work("calm"))
        aim = {"NTH_PROGRAM": f"icestream-{stage}"[:15], "NTH_ARGUMENT": "--instance"}

        def attempt(kind, number):
            session, mark = work(f"{kind}-{number}"), work(f"{kind}-{number}.mark")
            code, said = begin(session, env=environment(kind, number, NTH_ONCE=mark, **aim))
            died = "killed by signal" in said
            wrong = None if code in (0, 1, 3, 75) else f"exit {code}: {said.strip()[-200:]}"
            if not wrong and code != 0:  # a reason, and a way on
                if code == 3:
                    run("retry", "--session", session)
                again, said = begin(session)
                wrong = None if again == 0 else f"exit {code}, and again: exit {again}: {said.strip()[-200:]}"
            if not wrong and products(session) != calm:
                wrong = f"exit {code}, but other products"
            hit = os.path.exists(mark)
            if not wrong and died:
                wrong = f"a crash: {said.strip()[-300:]}"
            if not wrong:
                shutil.rmtree(session)
            return wrong, hit, code

        sweep(
            stage,
            work,
            tries,
            attempt,
            lambda kind, count: begin(work(f"{kind}-count"), env=environment(kind, 0, NTH_COUNT=count, **aim)),
        )
        finish()


cases = {"files": on_files, "pipeline": in_pipeline}
if len(sys.argv) not in (3, 4) or sys.argv[1] not in cases:
    sys.exit(f"usage: sweep.py {'|'.join(cases)} STAGE [TRIES]")
cases[sys.argv[1]](sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else None)
