#!/usr/bin/env python3
"""tests/docs/troubleshooting.py [CHAPTER]: checks the handbook's chapter on troubleshooting. It must have a row for
each WARN and ERROR log id of the sources, under the program that writes it, and for no other id."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHAPTER = ROOT / "docs/handbook/troubleshooting.md"
# log_write(log, LOG_WARN, "id", …), also with a choice of two ids; {.id = "id", .level = LOG_WARN}.
CALL = re.compile(r"\b(?:stage_log|log_write|log_write_list)\s*\(")
LITERAL = re.compile(r"LOG_(DEBUG|INFO|WARN|ERROR)")
MEMBER = re.compile(r'\.id\s*=\s*"([a-z-]+)"\s*,\s*\.level\s*=\s*LOG_(WARN|ERROR)')
# The launcher's warnings: run_warn(run, "id", text), warn(s, "id", text).
WARN_CALL = re.compile(r'\b(?:run_warn|warn)\(\w+,\s+([^;]*"[a-z-]+"[^;]*),\s+text\);')
# Calls that pass on the level of their caller, or of a member that MEMBER finds: file and level.
PASSED_ON = {
    ("common/edges/dropped.c", "dropped->level"),
    ("common/harness/callbacks.c", "level"),
    ("common/log.c", "level"),
}
ROW = re.compile(r"^\| `([a-z-]+)` \| (WARN|ERROR) \|")


def program_of(path):
    """Returns the heading of the chapter under which a source file's ids stand."""
    parts = path.relative_to(ROOT).parts
    if parts[0] == "stages":
        return parts[1]
    return "icestream" if parts[0] == "pipelines" else "Every stage"


def arguments_of(text, start):
    """Returns the first three arguments of the call whose arguments begin at start."""
    arguments, depth, begin = [], 0, start
    for part in re.finditer(r'"(?:\\.|[^"\\])*"|[(){}\[\],]', text[start:]):
        at = start + part.start()
        if part[0] in ("(", "[", "{"):
            depth += 1
        elif part[0] == "," and depth == 0 or part[0] in (")", "]", "}"):
            depth -= part[0] != ","
            if depth < 0 or part[0] == ",":
                arguments.append(" ".join(text[begin:at].split()))
                begin = at + 1
            if depth < 0 or len(arguments) == 3:
                break
    return arguments


def ids_of_calls(path, text, problems):
    """Returns the ids of one file's calls. A call whose level only the running program knows is a problem."""
    found = set()
    for call in CALL.finditer(text):
        arguments = arguments_of(text, call.end())
        if len(arguments) < 3 or arguments[1].startswith("enum log_level"):
            continue
        level = LITERAL.fullmatch(arguments[1])
        name = str(path.relative_to(ROOT))
        line = text.count("\n", 0, call.start()) + 1
        if level is None and (name, arguments[1]) not in PASSED_ON:
            problems.append(f"{name}:{line}: the level {arguments[1]} is not one of LOG_DEBUG, LOG_INFO, LOG_WARN, "
                            "LOG_ERROR: write two calls")
        elif level is not None and level[1] in ("WARN", "ERROR"):
            ids = re.findall(r'"([a-z-]+)"', arguments[2])
            if not ids:
                problems.append(f"{name}:{line}: the id {arguments[2]} is not a text")
            found |= {(program_of(path), level[1], word) for word in ids}
    return found


def ids_of_sources(problems):
    found = set()
    for folder in ("common", "kernels", "stages", "pipelines"):
        for path in sorted((ROOT / folder).rglob("*.[ch]")) + sorted((ROOT / folder).rglob("*.cu")):
            text = path.read_text(encoding="utf-8")
            found |= ids_of_calls(path, text, problems)
            found |= {(program_of(path), level, name) for name, level in MEMBER.findall(text)}
            if folder == "pipelines":
                words = " ".join(WARN_CALL.findall(text))
                found |= {("icestream", "WARN", name) for name in re.findall(r'"([a-z-]+)"', words)}
    return found


def ids_of_chapter(chapter):
    found, program = set(), None
    for line in chapter.read_text(encoding="utf-8").splitlines():
        if line.startswith("### "):
            program = line[4:].strip()
        elif match := ROW.match(line):
            found.add((program, match[2], match[1]))
    return found


def main():
    chapter = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else CHAPTER
    problems = []
    sources, documented = ids_of_sources(problems), ids_of_chapter(chapter)
    for problem in problems:
        print(problem)
    for program, level, name in sorted(sources - documented):
        print(f"{chapter.name}: no row for {level} {name} of {program}")
    for program, level, name in sorted(documented - sources):
        print(f"{chapter.name}: no source of {program} logs {level} {name}")
    print(f"{len(sources)} ids in the sources, {len(documented)} in the chapter")
    # Very few ids mean that this search itself is broken.
    return 0 if sources == documented and not problems and len(sources) > 20 else 1


sys.exit(main())
