"""The page in a browser without a network (offline.py)."""


def test_every_view_is_there_without_a_network(page):
    """Each view is drawn, and nothing was asked for elsewhere."""
    page.open("overview")
    page.wait("ice.store.rows.length === 60", "all exposures")
    seen = set()
    for view in page.get("[...document.querySelectorAll('#tabs a')].map((it) => it.hash.slice(1))") + ["exposure/2"]:
        page.open(view)
        page.drawn(view)
        assert len(page.text("main")) > 20, view
        seen.add(view)
    assert len(seen) >= 5, seen
    away = page.get("performance.getEntriesByType('resource').map((it) => it.name)"
                    ".filter((it) => !it.startsWith(location.origin) && !it.startsWith('blob:') && !it.startsWith('data:'))")
    assert away == [], away
