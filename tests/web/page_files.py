#!/usr/bin/env python3
"""page_files.py FILE...: the files of the page together are small, whole and our own.

They are under 80 kB compressed, ask for nothing from elsewhere, make no markup from text, and list every module."""
import gzip
import os
import re
import sys

LIMIT = 80000  # bytes, gzip -9
# SVG elements need the name of their language; it is never fetched.
NAMES = ["http://www.w3.org/2000/svg"]
# These would run a text as markup or as a program, or need a policy that allows inline styles and scripts.
FORBIDDEN = [r"\binnerHTML\b", r"\bouterHTML\b", r"\binsertAdjacentHTML\b", r"\bdocument\.write\b", r"\beval\(",
             r"\bnew Function\b", r"<script(?![^>]*\bsrc=)", r"\sstyle=\"", r"\son[a-z]+=\"", r"@import", r"\bimport\("]


def problems_of(path, text):
    for name in NAMES:
        text = text.replace(name, "")
    found = re.findall(r"(?:https?:)?//[a-z0-9-]+(?:\.[a-z0-9-]+)+[^\s'\"]*", text)
    problems = [f"{path}: refers to {address}: the page must work offline" for address in found]
    for pattern in FORBIDDEN:
        for match in re.finditer(pattern, text):
            line = text.count("\n", 0, match.start()) + 1
            problems.append(f"{path}:{line}: has {match.group(0).strip()}, which the page's policy forbids")
    return problems


def main():
    paths = [path for argument in sys.argv[1:] for path in argument.split(";")]
    names = {os.path.basename(path): path for path in paths}
    problems = [f"{name}: not given to this test" for name in ("index.html", "app.css", "app.js", "worker.js")
                if name not in names]
    total = 0
    for path in paths:
        with open(path, "rb") as file:
            content = file.read()
        size = len(gzip.compress(content, 9))
        total += size
        print(f"{os.path.basename(path)}: {len(content)} bytes, {size} compressed")
        problems += problems_of(path, content.decode("utf-8"))
    print(f"together {total} bytes compressed, of at most {LIMIT}")
    if total >= LIMIT:
        problems.append(f"the page has {total} bytes compressed; it may have {LIMIT}")
    folder = os.path.dirname(names["index.html"])
    with open(os.path.join(folder, "CMakeLists.txt"), encoding="utf-8") as file:
        listed = re.findall(r"\bapp/(\w+\.js)", file.read())
    for name in sorted(os.listdir(os.path.join(folder, "app"))):
        if listed.count(name) != 1:
            problems.append(f"{name}: listed {listed.count(name)} times in pipelines/web/CMakeLists.txt; expected once")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
