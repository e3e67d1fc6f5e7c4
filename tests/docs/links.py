#!/usr/bin/env python3
"""tests/docs/links.py: checks that links between the pages of the documentation work, headings included, that files
named on the pages exist, that files of a session have the names that stages give them, and that the README stays short
enough to read at once."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
# `stages/extractor/stage.c`, `kernels/alignment`, `docs/handbook`; not `stages/NAME/name.c`, which is a pattern.
NAMED = re.compile(r"`((?:common|docs|examples|kernels|pipelines|scripts|stages|tests)/[\w./-]+)`")
PATTERN = re.compile(r"\b(NAME|OP|name)\b|_OP\b|…")
# A folder or file of the session `grid3`, which the pages use throughout; not `/data/grid3`, which it watches.
IN_SESSION = re.compile(r"(?<![\w/])grid3/([\w.-]+)(?:/([\w.-]+))?")
README_LINES = 150


def anchors(page):
    """Returns the anchors that GitHub makes of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def unmade_files(page):
    """Yields the files and folders of the pages' session that no stage makes."""
    for stage, file in IN_SESSION.findall(page.read_text(encoding="utf-8")):
        sources = (path.read_text(encoding="utf-8") for path in (ROOT / "stages" / stage).rglob("*.c"))
        if not any(file == "" or f'"{file}"' in source for source in sources):
            yield f"{page.relative_to(ROOT)}: grid3/{stage}{file and '/'}{file}: no stage makes this in its session"


def problems_of(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.S)
    for link in LINK.findall(text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            yield f"{page.relative_to(ROOT)}: {link} is not there"
        elif anchor and anchor not in anchors(target):
            yield f"{page.relative_to(ROOT)}: {link}: no such heading"
    yield from unmade_files(page)
    for name in NAMED.findall(text):
        # "common/files" stands for the two files of this name.
        if not PATTERN.search(name) and not (ROOT / name).exists() and not (ROOT / f"{name}.h").exists():
            yield f"{page.relative_to(ROOT)}: {name} is not there"


def main():
    pages = sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").rglob("*.md"))
    problems = [problem for page in pages for problem in problems_of(page)]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = readme.count("\n")
    if lines > README_LINES:
        problems.append(f"README.md has {lines} lines; what is more than {README_LINES} belongs in docs/handbook")
    for chapter in sorted((ROOT / "docs/handbook").glob("*.md")):
        if f"docs/handbook/{chapter.name}" not in readme:
            problems.append(f"README.md does not link to docs/handbook/{chapter.name}")
    print("\n".join(problems) if problems else f"{len(pages)} pages")
    return 1 if problems else 0


sys.exit(main())
