"""A hook of mkdocs: the C++ reference, a page for each public header, from what Doxygen reads in include/."""

import re
import subprocess
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from xml.etree.ElementTree import Element

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
XML = ROOT / "build" / "doxygen" / "xml"
NAMESPACE = "flockstep::"
HEADERS = ["flockstep.h", "error.h", "mpi.h", "torch.h"]


def on_files(files: Files, config: object) -> Files:
    """Runs Doxygen, which fails at its first warning, and adds the pages."""
    XML.parent.mkdir(parents=True, exist_ok=True)
    call = ["doxygen", "scripts/site/Doxyfile"]
    done = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode != 0:
        raise PluginError(f"Doxygen, about comments in include/:\n{done.stderr}")
    reference = Reference()
    for header in HEADERS:
        files.append(File.generated(config, page_of(header), content=reference.page(header)))
    return files


def page_of(header: str) -> str:
    return f"reference/cpp/{header.removesuffix('.h')}.md"


class Reference:
    """What the headers declare, by the header."""

    def __init__(self) -> None:
        roots = [ElementTree.parse(path).getroot() for path in sorted(XML.glob("*.xml"))]
        compounds = [each for root in roots for each in root.iter("compounddef")]
        self._files = {each.findtext("compoundname", ""): each for each in compounds if each.get("kind") == "file"}
        self._classes = sorted((each for each in compounds if each.get("kind") in ("class", "struct")), key=line_of)
        [space] = [each for each in compounds if each.findtext("compoundname") == NAMESPACE[:-2]]
        self._free = sorted(space.iter("memberdef"), key=line_of)
        self._homes: dict[str, tuple[str, str]] = {}  # of everything that has an id: its header, its place on that page
        for each in [
            *self._classes,
            *self._free,
            *(member for kind in self._classes for member in public_members(kind)),
        ]:
            words, taken = anchor(each), set(self._homes.values())
            names = [words, *(f"{words}-{number}" for number in range(2, 9))]
            self._homes[each.get("id")] = next(
                (header_of(each), name) for name in names if (header_of(each), name) not in taken
            )

    def page(self, header: str) -> str:
        """The page of a header: what it is for, then what it declares, in its order."""
        file = self._files[header]
        own = [each for each in [*self._free, *self._classes] if header_of(each) == header]
        parts = [f"# flockstep/{header}", f"```cpp\n#include <flockstep/{header}>\n```", self._described(file, header)]
        for each in sorted(own, key=line_of):
            parts += self._compound(each, header) if each.tag == "compounddef" else self._member(each, header, "##")
        return "\n\n".join(part for part in parts if part) + "\n"

    def _compound(self, kind: Element, header: str) -> Iterator[str]:
        yield self._title("##", kind, name_of(kind))
        bases = ", ".join(f"{base.get('prot')} {base.text}" for base in kind.findall("basecompoundref"))
        yield f"```cpp\n{kind.get('kind')} {name_of(kind)}{f' : {bases}' if bases else ''}\n```"
        yield self._described(kind, header)
        variables = [each for each in public_members(kind) if each.get("kind") == "variable"]
        if variables:
            rows = [
                f'| <a id="{self._homes[each.get("id")][1]}"></a>`{each.findtext("name")}` | `{type_of(each)}` | {value_of(each)} | '
                f"{self._described(each, header)} |"
                for each in variables
            ]
            yield "\n".join(["| member | type | default | |", "|---|---|---|---|", *rows])
        for member in public_members(kind):
            if member.get("kind") == "function" and self._described(member, header):  # a destructor may say nothing
                yield from self._member(member, header, "###")

    def _member(self, member: Element, header: str, level: str) -> Iterator[str]:
        yield self._title(level, member, member.findtext("name", ""))
        if member.get("kind") == "enum":
            yield f"```cpp\nenum class {member.findtext('name')}\n```"
            yield self._described(member, header)
            values = [
                f"| `{each.findtext('name')}` | {self._described(each, header)} |" for each in member.iter("enumvalue")
            ]
            yield "\n".join(["| value | |", "|---|---|", *values])
            return
        yield f"```cpp\n{signature(member)}\n```"
        yield self._described(member, header)

    def _title(self, level: str, what: Element, text: str) -> str:
        return f"{level} `{text}` {{: #{self._homes[what.get('id')][1]} }}"

    def _described(self, what: Element, header: str) -> str:
        """Its description, as Markdown."""
        paragraphs = [
            para for part in ("briefdescription", "detaileddescription") for para in what.findall(f"{part}/para")
        ]
        text = "\n\n".join(self._text(para, header).strip() for para in paragraphs)
        return text[:1].upper() + text[1:] + ("" if text.endswith((".", "```")) or not text else ".")

    def _text(self, element: Element, header: str) -> str:
        inside = escaped(element.text or "")
        for child in element:
            inside += self._inline(child, header) + escaped(child.tail or "")
        return inside

    def _inline(self, element: Element, header: str) -> str:
        plain = "".join(element.itertext())
        if element.tag in ("verbatim", "preformatted"):
            return f"\n\n```cpp\n{plain.strip(chr(10))}\n```\n\n"
        if element.tag == "computeroutput":
            return f"`{plain}`"
        if element.tag == "ref" and element.get("refid") in self._homes:
            home, place = self._homes[element.get("refid")]
            return f"[`{plain}`]({'' if home == header else Path(page_of(home)).name}#{place})"
        if element.tag in ("ref", "emphasis", "bold", "nonbreakablespace"):
            return self._text(element, header)
        raise PluginError(f"cpp_reference.py does not know <{element.tag}>, which a comment of {header} has led to")


def line_of(element: Element) -> int:
    return int(element.find("location").get("line", "0"))


def header_of(element: Element) -> str:
    return Path(element.find("location").get("file", "")).name


def public_members(kind: Element) -> list[Element]:
    return [each for each in kind.iter("memberdef") if each.get("prot") == "public" and each.get("kind") != "friend"]


def name_of(kind: Element) -> str:
    return kind.findtext("compoundname", "").removeprefix(NAMESPACE)


def anchor(element: Element) -> str:
    full = element.findtext("compoundname") or element.findtext("qualifiedname") or ""
    return re.sub(r"[^a-z0-9_]+", "-", full.removeprefix(NAMESPACE).lower()).strip("-")


def type_of(member: Element) -> str:
    return as_written("".join(member.find("type").itertext()))


def as_written(code: str) -> str:
    """Without the blanks that Doxygen adds."""
    return re.sub(r" ?([&*]+) ?(?=\w)", r"\1 ", code).replace("< ", "<").replace(" >", ">").replace(" &", "&")


def value_of(member: Element) -> str:
    value = "".join(member.find("initializer").itertext()) if member.find("initializer") is not None else ""
    return f"`{value.lstrip('= ')}`" if value else ""


def signature(member: Element) -> str:
    """As it is declared, one parameter to a line where it is long."""
    words = ["explicit" if member.get("explicit") == "yes" else "", type_of(member), member.findtext("name", "")]
    arguments = re.sub(r"(?<=\w)=", " = ", member.findtext("argsstring", ""))
    spaced = as_written(" ".join(filter(None, words)) + arguments)
    if len(spaced) <= 80 or "," not in arguments:
        return spaced
    inside, _, after = spaced.partition("(")[2].rpartition(")")
    pieces, depth = [""], 0
    for letter in inside:
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            pieces.append("")
        else:
            pieces[-1] += letter
    return f"{spaced.partition('(')[0]}(\n" + ",\n".join(f"    {piece.strip()}" for piece in pieces) + f"){after}"


def escaped(text: str) -> str:
    """Braces too, which would be attributes of the link before them, as in Error{mismatch}."""
    text = re.sub(r"([\\`*_\[\]])", r"\\\1", text)
    return text.replace("<", "&lt;").replace("{", "&#123;")
