"""The harness of browser tests: made sessions, `icestream serve` on them, and one Chromium for all tests of a program.

    def test_the_ledger_gives_reasons(page):
        page.open("ledger")
        page.wait("document.querySelector('.reasons li')", "a reason")

    web.main(sys.modules[__name__])

main() runs the functions test_*(page) of modules in their order, each on the session that page.site shows. After each it
looks for errors in the browser's console. ICESTREAM_SHOTS=FOLDER keeps a picture of the page after each test.
Missing programs are a skip (77) with its reason."""
import inspect
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

import make_session

BIN = os.environ.get("ICESTREAM_BIN", os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../build/cpu/bin"))
ICESTREAM = os.path.join(BIN, "icestream")
SKIP, LIMIT = 77, 120
FLAGS = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars", "--use-angle=swiftshader",
         "--enable-unsafe-swiftshader", "--window-size=1400,1000", "--no-first-run", "--disable-extensions",
         "--disable-background-networking", "--disable-component-update", "--force-color-profile=srgb", "--lang=en"]
# Each view, and what stands in it when it is drawn.
DRAWN = {"overview": "figure.series .handle", "exposures": ".cell", "exposure": ".stages tbody tr", "ledger": ".lines .entry",
         "grid": ".square", "classes": ".class-tile", "map": "#map-surface, .placeholder", "system": ".instances tbody tr",
         "alarms": "#alarms-firing .group", "controls": "#mark-numbers"}


def skip(reason):
    print("skipped: " + reason)
    sys.exit(SKIP)


def need():
    """Ends the test with a reason where a browser or its driver is not installed."""
    for program in ("chromium", "chromedriver"):
        if not shutil.which(program):
            skip(program + " is not installed (scripts/packages.sh --tests)")
    try:
        import selenium.webdriver  # noqa: F401
    except ImportError:
        skip("python3-selenium is not installed (scripts/packages.sh --tests)")


class Site:
    """A made session (arguments of make_session.Session) or the session of a folder, and the server that shows it."""

    def __init__(self, folder=None, serve=(), **session):
        self.scratch = tempfile.mkdtemp(prefix="icestream-web-")
        self.session = None if folder else make_session.Session(os.path.join(self.scratch, "session"), **session)
        self.folder = folder or self.session.folder
        self.server, self.url = None, None
        try:
            self.start(*serve)
        except BaseException:
            self.close()
            raise

    def start(self, *options):
        errors = open(os.path.join(self.scratch, "serve.err"), "a+", encoding="utf-8")
        self.server = subprocess.Popen([ICESTREAM, "serve", "--session", self.folder, "--listen", "127.0.0.1:0", *options],
                                       stdout=subprocess.PIPE, stderr=errors, text=True)
        for line in self.server.stdout:
            match = re.search(r"http://\S+", line)
            if match:
                self.url = match.group(0)
                return
        self.server.wait()
        errors.seek(0)
        said = errors.read()
        if "without libmicrohttpd" in said:
            skip("icestream was built without libmicrohttpd")
        raise AssertionError("icestream serve printed no address: " + said)

    def stop(self, how=signal.SIGTERM):
        if self.server:
            self.server.send_signal(how)
            self.server.wait()
            self.server.stdout.close()
            self.server = None

    def close(self):
        self.stop()
        if self.session:
            self.session.close()
        shutil.rmtree(self.scratch, ignore_errors=True)


class Page:
    """One tab of one browser."""

    def __init__(self):
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
        self.profile = tempfile.mkdtemp(prefix="icestream-browser-")
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        for flag in FLAGS + ["--user-data-dir=" + self.profile]:
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)
        self.driver.set_script_timeout(LIMIT)
        self.driver.set_page_load_timeout(LIMIT)
        self.site, self.shown = None, None

    def close(self):
        self.driver.quit()
        shutil.rmtree(self.profile, ignore_errors=True)

    def visit(self, site, view=""):
        """Opens the page of a site from its address with token, and waits until the session is there."""
        self.site = site
        self.driver.get(site.url)
        self.go(view)
        self.wait("ice.store.session && ice.store.status && ice.store.heard", "the session")
        return self

    def open(self, view):
        """Opens a view of the site that is shown, such as "exposures?f=rejected"."""
        if self.shown is not self.site:
            self.visit(self.site, view)
            self.shown = self.site
        else:
            self.go(view)
        return self

    def go(self, view):
        self.driver.execute_async_script(
            "const done = arguments[1]; if (location.hash === arguments[0]) return done();"
            " addEventListener('hashchange', () => done(), {once: true}); location.hash = arguments[0]", "#" + view)
        if view:
            name = re.split("[/?]", view)[0]
            self.wait("ice.route.view === %s && document.querySelector('main section')" % json.dumps(name), "the view " + view)

    def drawn(self, view):
        """Waits until the view that go() or open() went to is drawn."""
        self.wait("document.querySelector(arguments[0])", "the view " + view + " drawn", DRAWN[re.split("[/?]", view)[0]])

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def get(self, expression, *arguments):
        return self.run("return " + expression, *arguments)

    def wait(self, expression, what, *arguments, limit=LIMIT):
        """Waits until a JavaScript expression is true; returns its value."""
        end = time.monotonic() + limit
        while True:
            value = self.run("try { return %s } catch (error) { return null }" % expression, *arguments)
            if value:
                return value
            assert time.monotonic() < end, "after %d s still not: %s (%s)" % (limit, what, expression)
            time.sleep(0.03)

    def text(self, selector):
        return self.get("document.querySelector(arguments[0]).textContent", selector)

    def texts(self, selector):
        return self.get("Array.from(document.querySelectorAll(arguments[0]), (node) => node.textContent)", selector)

    def count(self, selector):
        return self.get("document.querySelectorAll(arguments[0]).length", selector)

    def click(self, selector):
        """Clicks with the mouse, as a person does: what covers the element gets the click. An element that is drawn anew
        meanwhile is looked for again."""
        from selenium.common.exceptions import WebDriverException
        from selenium.webdriver.common.by import By
        end = time.monotonic() + LIMIT
        while True:
            try:
                element = self.driver.find_element(By.CSS_SELECTOR, selector)
                self.run("arguments[0].scrollIntoView({block: 'center'})", element)
                element.click()
                return
            except WebDriverException:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)

    def drag(self, selector, from_x, from_y, to_x, to_y):
        """Drags within an element; places are parts of its width and height. What is to be drawn anew is, before."""
        self.driver.execute_async_script("const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() =>"
                                         " requestAnimationFrame(() => done())))")
        box = self.run("const it = document.querySelector(arguments[0]); it.scrollIntoView({block: 'center'});"
                       " const box = it.getBoundingClientRect(); return [box.left, box.top, box.width, box.height]", selector)

        def mouse(kind, x, y):
            self.driver.execute_cdp_cmd("Input.dispatchMouseEvent", {
                "type": kind, "x": box[0] + x * box[2], "y": box[1] + y * box[3], "button": "left",
                "buttons": 0 if kind == "mouseReleased" else 1, "clickCount": 1})
        mouse("mousePressed", from_x, from_y)
        for step in range(1, 6):
            mouse("mouseMoved", from_x + (to_x - from_x) * step / 5, from_y + (to_y - from_y) * step / 5)
        mouse("mouseReleased", to_x, to_y)

    def keys(self, *keys):
        """Presses keys, on whatever has the focus: characters, or names such as "ENTER"."""
        from selenium.webdriver import ActionChains
        from selenium.webdriver.common.keys import Keys
        actions = ActionChains(self.driver)
        for key in keys:
            actions.send_keys(getattr(Keys, key) if len(key) > 1 else key)
        actions.perform()

    def write(self, selector, text):
        """Puts text into a field, as if typed."""
        self.run("const it = document.querySelector(arguments[0]); it.value = arguments[1];"
                 " it.dispatchEvent(new Event('input', {bubbles: true})); it.dispatchEvent(new Event('change', {bubbles: true}))",
                 selector, text)

    def media(self, **features):
        """Emulates what a user prefers: media(prefers_color_scheme="dark")."""
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]})

    def shot(self, path):
        self.driver.save_screenshot(path)

    def complaints(self):
        """Errors of the console since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]


def shows(**session):
    """Gives a test its own session: arguments of make_session.Session."""
    def mark(test):
        test.SITE = session
        return test
    return mark


def tests_of(modules):
    for module in modules:
        for name, test in inspect.getmembers(module, inspect.isfunction):
            if name.startswith("test_") and test.__module__ == module.__name__:
                yield module, name, test


def run_test(page, test):
    """Returns what went wrong, or None."""
    try:
        test(page)
        complaints = page.complaints()
        assert not complaints, "the console says: " + "; ".join(complaints)
    except Exception:
        return traceback.format_exc()
    return None


def main(*modules, **session):
    """Runs the tests of the modules on one site: a made session of 60 exposures that runs, or as `session` says.
    A dict SITE of such arguments
    gives a module, or a function that shows(...) stands over, its own. ONLY=NAME in the environment runs that test alone."""
    need()
    failed, shots, only = [], os.environ.get("ICESTREAM_SHOTS"), os.environ.get("ONLY")
    page, sites = Page(), {}
    try:
        for module, name, test in sorted(tests_of(modules), key=lambda it: (modules.index(it[0]), it[2].__code__.co_firstlineno)):
            if only and only != name:
                continue
            wanted = dict({"exposures": 60, "running": True, "in_flight": 4}, **session)
            wanted.update(getattr(module, "SITE", {}))
            wanted.update(getattr(test, "SITE", {}))
            key = json.dumps(wanted, sort_keys=True)
            if key not in sites:
                sites[key] = Site(**wanted)
            if page.site is not sites[key]:
                page.site, page.shown = sites[key], None
            begun = time.monotonic()
            wrong = run_test(page, test)
            print("%-7s %s (%.1f s)" % ("FAILED" if wrong else "ok", name, time.monotonic() - begun), flush=True)
            if shots or wrong:
                folder = shots or os.path.join(os.path.dirname(BIN), "tests")
                os.makedirs(folder, exist_ok=True)
                page.shot(os.path.join(folder, name + ".png"))
            if wrong:
                print(wrong + "picture: %s/%s.png" % (folder, name), flush=True)
                failed.append(name)
                page.shown = None
                page.complaints()
    finally:
        page.close()
        for site in sites.values():
            site.close()
    if failed:
        print("failed: " + ", ".join(failed))
    sys.exit(1 if failed else 0)
