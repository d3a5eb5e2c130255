"""HTML: one page that needs nothing but itself."""

import html
from collections.abc import Iterable, Sequence

from flockstep.report.style import Picture

STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 76rem; padding: 1.5rem 1rem 4rem; background: #fff; color: #1a1a1a;
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
  -webkit-text-size-adjust: 100%; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 .5rem; padding-top: .9rem; border-top: 1px solid #d9d9d9; }
h3 { font-size: 1.1rem; margin: 2rem 0 .25rem; }
p, li { overflow-wrap: anywhere; }
p { margin: .5rem 0; max-width: 46rem; }
.lead { color: #444; margin-top: 0; }
.note { color: #444; font-size: .9rem; }
.findings { margin: 1rem 0; padding: 0; list-style: none; max-width: 46rem; }
.findings li { margin: .5rem 0; padding: .6rem .9rem; border-left: 4px solid #d55e00; background: #fdf4ee; }
.findings small { display: block; color: #444; font-size: .9rem; }
.findings.said li { margin: .3rem 0; padding: .1rem 0 .1rem .9rem; border-left: 3px solid #bbb; background: none; }
.findings.said li:first-child { padding-block: .5rem; border-left: 4px solid #0072b2; background: #eef5fa; }
.calm { border-left: 4px solid #009e73; background: #eef8f5; padding: .6rem .9rem; }
/* A table that is too wide scrolls in its box, under a first column that stays; a shadow says that there is more. */
.scroll { overflow-x: auto; margin: .5rem 0 1rem; background:
  linear-gradient(to left, #fff 30%, transparent) right / 2.5rem 100% no-repeat local,
  linear-gradient(to left, rgba(0, 0, 0, .22), transparent) right / .8rem 100% no-repeat scroll; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .95rem; }
th, td { padding: .35rem .9rem .35rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid #e0e0e0; }
th { font-weight: 600; color: #333; vertical-align: bottom; }
table.numbers td { white-space: nowrap; }
table.numbers tr > :first-child { position: sticky; left: 0; background: #fff; max-width: 13.5rem; white-space: normal;
  overflow-wrap: break-word; }
table.numbers th + th, table.numbers td + td { text-align: right; padding-left: .6rem; }
table.pairs td + td { overflow-wrap: anywhere; }
.pictures { display: grid; gap: 1.75rem 2rem; align-items: start; margin-top: 1rem;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 21rem), 1fr)); }
.pictures figure { margin: 0; max-width: 27rem; }
.pictures figcaption { font-weight: 600; line-height: 1.3; margin-bottom: .4rem; overflow-wrap: anywhere; }
.pictures img { width: 100%; height: auto; display: block; }
@media print {
  body { padding: 0; font-size: .8rem; }
  h2, h3 { break-after: avoid; }
  figure, tr, li { break-inside: avoid; }
  .scroll { overflow: visible; background: none; }
  table { font-size: .75rem; }
  .pictures { grid-template-columns: repeat(2, 1fr); }
  .key { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
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


def findings(items: Sequence[tuple[str, str]], kind: str = "") -> str:
    """Sentences, each with its detail in small print."""
    if not items:
        return ""
    lines = [f"<li>{escape(text)}{f'<small>{escape(detail)}</small>' if detail else ''}</li>" for text, detail in items]
    return f'<ul class="{f"findings {kind}".strip()}">\n' + "\n".join(lines) + "\n</ul>"


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    keys: Sequence[tuple[str, str]] = (),
    kind: str = "numbers",
) -> str:
    """`keys` are marks and their colours, shown before the first cell of each row."""
    lines = ["<tr>" + "".join(f'<th scope="col">{escape(name)}</th>' for name in head) + "</tr>"] if head else []
    for index, row in enumerate(rows):
        mark, shade = keys[index] if index < len(keys) else ("", "")
        key = f'<span class="key" style="color:{shade}" aria-hidden="true">{mark}&nbsp;</span>' if mark else ""
        cells = [key + escape(row[0]), *map(escape, row[1:])]
        lines.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return f'<div class="scroll"><table class="{kind}">\n' + "\n".join(lines) + "\n</table></div>"


def pictures(drawn: Iterable[Picture | None]) -> str:
    figures = [
        f"<figure><figcaption>{escape(picture.title)}</figcaption>"
        f'<img src="{picture.source}" alt="{escape(picture.alt)}"></figure>'
        for picture in drawn
        if picture
    ]
    return '<div class="pictures">\n' + "\n".join(figures) + "\n</div>" if figures else ""


def section(name: str, drawn: Sequence[Picture | None], note: str = "") -> list[str]:
    """Pictures under a heading of their own; nothing where there are none."""
    return [f"<h3>{escape(name)}</h3>", paragraph(note, "note"), pictures(drawn)] if any(drawn) else []
