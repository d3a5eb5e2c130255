"""HTML: one page that needs nothing but itself."""

import html
from collections.abc import Iterable, Sequence

from flockstep.report.style import Picture

STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 74rem; padding: 2rem 1.25rem 4rem; background: #fff; color: #1a1a1a;
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .25rem; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .75rem; padding-top: .9rem; border-top: 1px solid #d9d9d9; }
p { margin: .5rem 0; max-width: 46rem; }
.lead { color: #555; margin-top: 0; }
.note { color: #555; font-size: .9rem; }
.findings { margin: 1rem 0; padding: 0; list-style: none; max-width: 46rem; }
.findings li { margin: .5rem 0; padding: .6rem .9rem; border-left: 4px solid #d55e00; background: #fdf4ee; }
.findings small { display: block; color: #555; }
.calm { border-left: 4px solid #009e73; background: #eef8f5; padding: .6rem .9rem; }
.scroll { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .95rem; }
th, td { padding: .35rem .9rem .35rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid #e8e8e8; }
th { font-weight: 600; color: #444; }
table.numbers th, table.numbers td { white-space: nowrap; }
table.numbers th + th, table.numbers td + td { text-align: right; padding-left: .9rem; }
table.pairs td + td { overflow-wrap: anywhere; }
.key { display: inline-block; width: .7rem; height: .7rem; margin-right: .5rem; border-radius: 2px; }
.pictures { display: grid; gap: 1.5rem 2rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); }
.pictures figure { margin: 0; }
.pictures figure.wide { grid-column: 1 / -1; max-width: 46rem; }
.pictures img { width: 100%; max-width: 36rem; height: auto; display: block; }
.pictures figure.wide img { max-width: 46rem; }
@media print { h2 { break-after: avoid; } figure { break-inside: avoid; } }
"""


def escape(text: str) -> str:
    return html.escape(text, quote=True)


def document(title: str, body: Iterable[str]) -> str:
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def headline(title: str, lead: str) -> str:
    return f'<h1>{escape(title)}</h1>\n<p class="lead">{escape(lead)}</p>'


def heading(text: str) -> str:
    return f"<h2>{escape(text)}</h2>"


def paragraph(text: str, kind: str = "") -> str:
    start = f'<p class="{kind}">' if kind else "<p>"
    return f"{start}{escape(text)}</p>" if text else ""


def findings(items: Iterable[tuple[str, str]]) -> str:
    """Sentences, each with its detail in small print."""
    lines = [f"<li>{escape(text)}{f'<small>{escape(detail)}</small>' if detail else ''}</li>" for text, detail in items]
    return '<ul class="findings">\n' + "\n".join(lines) + "\n</ul>"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], keys: Sequence[str] = (), kind: str = "numbers") -> str:
    """`keys` are colours shown before the first cell of each row."""
    lines = ["<tr>" + "".join(f'<th scope="col">{escape(name)}</th>' for name in head) + "</tr>"] if head else []
    for index, row in enumerate(rows):
        key = f'<span class="key" style="background:{keys[index]}"></span>' if index < len(keys) else ""
        cells = [key + escape(row[0]), *map(escape, row[1:])]
        lines.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return f'<div class="scroll"><table class="{kind}">\n' + "\n".join(lines) + "\n</table></div>"


def pictures(drawn: Iterable[Picture | None]) -> str:
    figures = [
        f'<figure class="{"wide" if picture.wide else "half"}"><img src="{picture.source}" alt="{escape(picture.alt)}">'
        "</figure>"
        for picture in drawn
        if picture
    ]
    return '<div class="pictures">\n' + "\n".join(figures) + "\n</div>" if figures else ""
