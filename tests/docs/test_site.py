"""The site is whole: no other host, no dead link, nothing public without a page."""

import re
import tomllib
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from urllib.parse import unquote, urlsplit

import bagwise
from bagwise.comparison import list_methods

CORE = {"numpy", "scipy", "scikit-learn", "numba", "joblib", "pot", "matplotlib"}
# What a browser fetches by itself; a plain link waits for a click.
FETCHED = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "object": "data",
    "embed": "src",
}


class Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.ids, self.fetched, self.links = set(), [], []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if attrs.get("id"):
            self.ids.add(attrs["id"])
        if tag == "a" and attrs.get("href"):
            self.links.append(attrs["href"])
        if tag == "a" and attrs.get("name"):
            self.ids.add(attrs["name"])
        relation = (attrs.get("rel") or "").split()
        if tag == "link" and not {"canonical", "index", "search"} & set(relation):
            self.fetched.append(attrs.get("href") or "")
        if tag in FETCHED and attrs.get(FETCHED[tag]):
            self.fetched.append(attrs[FETCHED[tag]])
        self.fetched += re.findall(r"url\(([^)]+)\)", attrs.get("style") or "")


def parsed(pages):
    found = {}
    for path, text in pages.items():
        reader = Links()
        reader.feed(text)
        found[path.resolve()] = reader
    return found


def test_nothing_is_asked_of_other_hosts(site, pages):
    asked = {
        (str(path.relative_to(site.resolve())), url)
        for path, reader in parsed(pages).items()
        for url in reader.fetched
        if urlsplit(url).netloc
    }
    for path in site.rglob("*.css"):
        text = path.read_text(encoding="utf-8")
        for url in re.findall(r"url\(['\"]?(https?:)?//[^)]*", text):
            asked.add((path.name, url))
    assert asked == set()


def test_no_dead_link(site, pages):
    readers = parsed(pages)
    dead = []
    for path, reader in readers.items():
        for link in [*reader.links, *reader.fetched]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc or link == "#":
                continue
            target = path if not parts.path else path.parent / unquote(parts.path)
            target = target.resolve()
            if target.is_dir():
                target = target / "index.html"
            anchor = unquote(parts.fragment)
            if not target.exists():
                dead.append((str(path.relative_to(site.resolve())), link))
            elif anchor and target in readers and anchor not in readers[target].ids:
                dead.append((str(path.relative_to(site.resolve())), link))
    assert dead == []


def test_nothing_public_without_a_page(pages):
    described = set()
    for text in pages.values():
        described |= set(re.findall(r'<dt [^>]*id="(bagwise[^"]+)"', text))
        described |= set(re.findall(r'id="module-(bagwise[^"]+)"', text))
    objects = {}
    rooms = [info.name for info in iter_modules(bagwise.__path__)]
    for name in ["", *(room for room in rooms if not room.startswith("_"))]:
        module = import_module(f"bagwise.{name}".rstrip("."))
        for public in getattr(module, "__all__", []):
            if name == "cli":  # the page of the commands
                continue
            value = getattr(module, public)
            objects.setdefault(id(value), []).append(f"{module.__name__}.{public}")
    missing = [paths for paths in objects.values() if not described & set(paths)]
    assert missing == []


def test_the_site_has_the_version_of_the_package(site):
    index = (site / "index.html").read_text(encoding="utf-8")
    title = re.search(r"<title>(.*?)</title>", index, re.DOTALL)[1]
    assert f"bagwise {bagwise.__version__}" in title
    new = (site / "whats-new.html").read_text(encoding="utf-8")
    assert f"<h2>{bagwise.__version__}<" in new


def test_every_method_has_a_picture_and_figures(site):
    pages = [p for p in (site / "methods").glob("*.html") if p.stem != "index"]
    assert len(pages) > 30
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert "method-" in text, page.name
        assert 'id="measurements"' in text, page.name


def test_the_gallery_is_large_and_has_notebooks(site):
    scripts = {p.name for p in (site / "_downloads").rglob("plot_*.py")}
    notebooks = {p.stem for p in (site / "_downloads").rglob("plot_*.ipynb")}
    assert len(scripts) >= 16
    assert {Path(name).stem for name in scripts} == notebooks


def test_examples_end_without_warnings(site):
    for page in (site / "gallery").glob("plot_*.html"):
        text = page.read_text(encoding="utf-8")
        assert "src/bagwise/" not in text, page.name


def test_tables_are_made_from_what_was_measured(pages):
    empty = [p.name for p, text in pages.items() if "Not measured where" in text]
    assert empty == []


def test_licences_are_listed_with_their_texts(site):
    page = (site / "licences.html").read_text(encoding="utf-8")
    texts = {path.stem for path in (site / "_downloads").rglob("*.txt")}
    for name in CORE:
        assert f">{name}<" in page.lower(), name
        assert name in texts, name


def test_search_is_local(site):
    assert (site / "searchindex.js").exists()
    text = (site / "searchindex.js").read_text(encoding="utf-8")
    for word in ("bag", "patient", "threshold"):
        assert word in text


def test_method_pages_say_when_to_use_the_method(pages):
    """The two sentences come before the measurements, on the page of their class."""
    advice = Path(__file__).parents[2] / "docs" / "_ext" / "advice.toml"
    texts = tomllib.loads(advice.read_text("utf-8"))
    shown = {
        path.name: html
        for path, html in pages.items()
        if path.parent.name == "methods" and path.name != "index.html"
    }
    said = [html for html in shown.values() if "Use it if:" in html]
    assert len(said) == len(texts)
    for html in said:
        use, avoid = html.index("Use it if:"), html.index("Not if:")
        assert use < avoid < html.index("Measurements", avoid)


def test_every_method_says_when_to_use_it_and_when_not():
    path = Path(__file__).parents[2] / "docs" / "_ext" / "advice.toml"
    advice = tomllib.loads(path.read_text(encoding="utf-8"))
    classes = {method.path.rpartition(".")[2] for method in list_methods()}
    assert classes <= advice.keys()
    for texts in advice.values():
        assert all(texts[key].endswith(".") for key in ("use", "avoid"))
