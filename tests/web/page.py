#!/usr/bin/env python3
"""page.py MODULE...: runs the tests of these modules beside it in one browser (web.py)."""
import importlib
import sys

import web

web.main(*(importlib.import_module(name) for name in sys.argv[1:]))
