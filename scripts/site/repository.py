"""A hook of mkdocs: pages are written for a code host, and this makes the same files work as a site.

README.md, CONTRIBUTING.md and the like become pages. A link to a source file or a folder of the repository leads to a page that
shows it, so that the site needs no other address.
"""

import os
import posixpath
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "CODE_OF_CONDUCT.md": "code_of_conduct.md",
}
LANGUAGES = {".cpp": "cpp", ".h": "cpp", ".py": "python", ".sh": "sh", ".xml": "xml", ".cff": "yaml", ".toml": "toml"}
CODE = re.compile(r"(^ *```.*?^ *```$|(?<!`)`[^`]+`(?!`))", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
FILE_NAME = re.compile(r"\[(?:[\w/]+/)?\w+\.md(?=\]\(([^)\s#]+)(#[^)\s]*)?\))")
# Python-Markdown takes <g_i, g_j> for a tag, and a list only after an empty line; code hosts do neither.
NO_TAG = re.compile(r"<(?![/a-zA-Z][a-zA-Z0-9-]*[\s/>]|!--|https?:)")
LIST_AFTER_TEXT = re.compile(r"^((?![-*|#> ]|\d+\. )\S.*\n)(?=[-*] )", re.MULTILINE)


def on_files(files: Files, config: object) -> Files:
    """Adds the pages that are not in docs/, and those of all sources that any page links to."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    if listed.returncode != 0:
        raise PluginError(f"the site is built in a clone of the repository: {listed.stderr}")
    tracked = listed.stdout.split("\n")
    site = Site(files, config, set(filter(None, tracked)))
    for source in PAGES:
        site.add(source)
    for file in list(files.documentation_pages()):
        site.follow(file)
    on_page_markdown.site = site
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Turns links into those of the site, and what Python-Markdown would take for something else."""
    parts = CODE.split(markdown)
    parts[::2] = [NO_TAG.sub("&lt;", part) for part in parts[::2]]
    parts[::2] = [
        FILE_NAME.sub(lambda link: on_page_markdown.site.titled(link, page.file), part) for part in parts[::2]
    ]
    parts[::2] = [LINK.sub(lambda link: on_page_markdown.site.relink(link, page.file), part) for part in parts[::2]]
    return LIST_AFTER_TEXT.sub(r"\1\n", "".join(parts))


def titles(nav: list[dict[str, object]]) -> Iterator[tuple[str, str]]:
    """Pages of the navigation, and what they are called there."""
    for title, content in [item for entry in nav for item in entry.items()]:
        if isinstance(content, str):
            yield content, title
        else:
            yield from titles(content)


class Site:
    """Which file of the repository is which page."""

    def __init__(self, files: Files, config: object, tracked: set[str]) -> None:
        self._files, self._config, self._tracked = files, config, tracked
        self._sources: dict[str, str] = {}  # page: what it shows
        self._titles = dict(titles(config["nav"]))

    def add(self, path: str) -> None:
        """Makes a page of a file or a folder of the repository, and of what it links to."""
        uri = self._uri(path)
        if uri in self._sources:
            return
        self._sources[uri] = path
        file = File.generated(self._config, uri, content=self._shown(path))
        self._files.append(file)
        self.follow(file)

    def follow(self, file: File) -> None:
        """Adds what a page links to."""
        prose = "".join(CODE.split(file.content_string)[::2])
        for link in LINK.finditer(prose):
            path = self._target(link[2], file)
            if path is not None and not path.startswith("docs/"):
                self.add(path)

    def titled(self, link: re.Match[str], file: File) -> str:
        """The text of a link that is a file's name: on the site, the page's title in the navigation."""
        path = self._target(link[1], file)
        title = path and self._titles.get(self._uri(path))
        return f"[{title}" if title else link[0]

    def relink(self, link: re.Match[str], file: File) -> str:
        """The link as mkdocs wants it: to a page, relative to this one."""
        path = self._target(link[2], file)
        if path is None:
            return link[0]
        here = posixpath.dirname(file.src_uri)
        return f"{link[1]}{posixpath.relpath(self._uri(path), here or '.')}{link[3]}"

    def _target(self, link: str, file: File) -> str | None:
        """What a link leads to, as a path in the repository; None where that is not in it."""
        if re.match(r"[a-z]+:", link):
            return None
        shown = self._sources.get(file.src_uri, f"docs/{file.src_uri}")
        here = shown if self._is_folder(shown) else posixpath.dirname(shown)
        path = posixpath.normpath(posixpath.join(here, link))
        return path if path in self._tracked or self._is_folder(path) else None

    def _is_folder(self, path: str) -> bool:
        return (ROOT / path).is_dir() and any(each.startswith(f"{path}/") for each in self._tracked)

    def _uri(self, path: str) -> str:
        if path in PAGES:
            return PAGES[path]
        if path.startswith("docs/"):
            return path.removeprefix("docs/")
        if self._is_folder(path):
            return f"source/{path}/index.md"
        return f"source/{path}" if path.endswith(".md") else f"source/{path}.md"

    def _shown(self, path: str) -> str:
        if self._is_folder(path):
            inside = sorted({posixpath.join(path, each[len(path) + 1 :].split("/")[0]) for each in self._listed(path)})
            rows = [f"- [{os.path.basename(each)}]({os.path.basename(each)})" for each in inside]
            return "\n".join([f"# {path}", "", *rows, ""])
        text = (ROOT / path).read_text(encoding="utf-8")
        if path == "README.md":
            return f"---\nhide:\n  - navigation\n---\n{text}"  # it is alone in its section
        if path.endswith(".md"):
            return text
        language = LANGUAGES.get(Path(path).suffix, "cmake" if path.endswith("CMakeLists.txt") else "text")
        return f"# {path}\n\n````{language}\n{text}\n````\n"

    def _listed(self, folder: str) -> list[str]:
        return [each for each in self._tracked if each.startswith(f"{folder}/")]
