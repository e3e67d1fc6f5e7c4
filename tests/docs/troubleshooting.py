#!/usr/bin/env python3
"""tests/docs/troubleshooting.py [CHAPTER]: checks the handbook's chapter on troubleshooting. It must have a row for
each WARN and ERROR log id of the sources, under the program that writes it, and for no other id."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHAPTER = ROOT / "docs/handbook/troubleshooting.md"
# log_write(log, LOG_WARN, "id", …), also with a choice of two ids; {.id = "id", .level = LOG_WARN}.
CALL = re.compile(r'\bLOG_(WARN|ERROR)\s*,([^,;{}]*"[a-z-]+"[^,;{}]*),')
MEMBER = re.compile(r'\.id\s*=\s*"([a-z-]+)"\s*,\s*\.level\s*=\s*LOG_(WARN|ERROR)')
ROW = re.compile(r"^\| `([a-z-]+)` \| (WARN|ERROR) \|")


def program_of(path):
    """Returns the heading of the chapter under which a source file's ids stand."""
    parts = path.relative_to(ROOT).parts
    if parts[0] == "stages":
        return parts[1]
    return "icestream" if parts[0] == "pipelines" else "Every stage"


def ids_of_sources():
    found = set()
    for folder in ("common", "kernels", "stages", "pipelines"):
        for path in sorted((ROOT / folder).rglob("*.[ch]")) + sorted((ROOT / folder).rglob("*.cu")):
            text = path.read_text(encoding="utf-8")
            for level, ids in CALL.findall(text):
                found |= {(program_of(path), level, name) for name in re.findall(r'"([a-z-]+)"', ids)}
            found |= {(program_of(path), level, name) for name, level in MEMBER.findall(text)}
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
    sources, documented = ids_of_sources(), ids_of_chapter(chapter)
    for program, level, name in sorted(sources - documented):
        print(f"{chapter.name}: no row for {level} {name} of {program}")
    for program, level, name in sorted(documented - sources):
        print(f"{chapter.name}: no source of {program} logs {level} {name}")
    print(f"{len(sources)} ids in the sources, {len(documented)} in the chapter")
    # Very few ids mean that this search itself is broken.
    return 0 if sources == documented and len(sources) > 20 else 1


sys.exit(main())
