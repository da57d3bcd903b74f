"""The report's style sheet: one column, system fonts, colours by variables for light, dark and paper.

No part of it is fetched: a page must look the same on a machine without a network.
"""

from __future__ import annotations

_LIGHT = """
--paper:#fdfdfb; --card:#ffffff; --ink:#1c2024; --soft:#5b6470; --rule:#dde1e6; --mark:#f1f3f5;
--c0:#8a929c; --c1:#1f6fb2; --c2:#c8551b; --c3:#2f8a57; --c4:#8b4fa8; --c5:#b58900; --c6:#c2367a; --alarm:#a3260f;
--alarm-paper:#fdf0ec;
"""

_DARK = """
--paper:#14171a; --card:#1b1f24; --ink:#e7e9ec; --soft:#a3acb7; --rule:#343b43; --mark:#242a30;
--c0:#7d8792; --c1:#6cb2ee; --c2:#f29261; --c3:#6fcf97; --c4:#c996e3; --c5:#e3c04f; --c6:#f083b3; --alarm:#ff9c85;
--alarm-paper:#33201b;
"""

_COLOURS = "\n".join(
    f".line.c{k}{{stroke:var(--c{k})}} .mark.c{k},.area.c{k}{{fill:var(--c{k})}} "
    f".key.c{k},.dot.c{k}{{background:var(--c{k})}}"
    for k in range(7)
)

STYLE = f"""
:root {{ color-scheme: light dark; {_LIGHT} }}
@media (prefers-color-scheme: dark) {{ :root {{ {_DARK} }} }}
* {{ box-sizing: border-box; }}
html {{ -webkit-text-size-adjust: 100%; }}
body {{ margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif;
  overflow-wrap: anywhere; }}
main {{ max-width: 60rem; margin: 0 auto; padding: 2rem 1rem 4rem; }}
h1 {{ font-size: 1.9rem; line-height: 1.2; margin: 0 0 .4rem; }}
h2 {{ font-size: 1.3rem; line-height: 1.3; margin: 0 0 .6rem; }}
h3 {{ font-size: 1rem; margin: 0 0 .4rem; }}
p, ul, ol {{ margin: 0 0 .8rem; }}
p, li {{ max-width: 44rem; }}
ul {{ padding-left: 1.2rem; }}
.soft, figcaption, .kicker {{ color: var(--soft); }}
.kicker {{ margin: 0; font-size: .9rem; }}
.lead {{ font-size: 1.1rem; }}
section {{ margin-top: 2.4rem; padding-top: 1.6rem; border-top: 1px solid var(--rule); }}
.facts {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 8.5rem), 1fr)); gap: .7rem;
  margin: 1.2rem 0 0; }}
.facts div {{ background: var(--card); border: 1px solid var(--rule); border-radius: .5rem; padding: .7rem .9rem; }}
.facts dt {{ color: var(--soft); font-size: .85rem; }}
.facts dd {{ margin: 0; font-size: 1.35rem; font-weight: 600; }}
.facts dd small {{ display: block; font-size: .8rem; font-weight: 400; color: var(--soft); line-height: 1.35; }}
.alarm p:last-child {{ margin: 0; }}
.alarm {{ border-left: 4px solid var(--alarm); background: var(--alarm-paper); padding: .7rem 1rem; margin: 1rem 0;
  max-width: 48rem; }}
.pair {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); gap: 1.2rem 2rem;
  align-items: start; }}
.cards {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 18rem), 1fr)); gap: 1rem;
  margin: 0 0 .8rem; align-items: start; }}
.card {{ background: var(--card); border: 1px solid var(--rule); border-radius: .5rem; padding: .8rem .9rem;
  min-width: 0; }}
.card h3 {{ display: flex; justify-content: space-between; gap: .6rem; }}
.card h3 span {{ font-weight: 400; color: var(--soft); white-space: nowrap; }}
.card .aside {{ font-size: .82rem; color: var(--soft); margin: .1rem 0 .4rem; }}
.wide {{ max-width: 40rem; margin: 0 0 .8rem; }}
.wide .row {{ grid-template-columns: minmax(0, 12rem) minmax(3rem, 1fr) 3.6rem; }}
.drawn {{ display: grid; grid-template-columns: repeat(auto-fill, 6.5rem); gap: .7rem; margin: 0 0 .8rem; }}
.drawn div {{ break-inside: avoid; font-size: .8rem; line-height: 1.3; color: var(--soft); }}
.drawn img {{ display: block; width: 6.5rem; image-rendering: pixelated; border: 1px solid var(--rule); }}
figure {{ margin: 0 0 1rem; max-width: 30rem; }}
figcaption {{ font-size: .85rem; line-height: 1.45; margin-top: .3rem; }}
svg {{ display: block; width: 100%; height: auto; font: 12px system-ui, -apple-system, "Segoe UI", "Liberation Sans",
  sans-serif; }}
svg text {{ fill: var(--soft); }}
svg text.axis {{ fill: var(--ink); }}
.grid {{ stroke: var(--rule); stroke-width: 1; }}
.line {{ fill: none; stroke-width: 2; stroke-linejoin: round; }}
.line.thin {{ stroke-width: 1.2; }}
.line.dashed {{ stroke-dasharray: 5 4; stroke-width: 1.5; }}
.area {{ opacity: .13; }}
{_COLOURS}
.legend {{ list-style: none; display: flex; flex-wrap: wrap; gap: .1rem 1rem; padding: 0; margin: .2rem 0 .4rem;
  font-size: .85rem; }}
.key {{ display: inline-block; width: .8rem; height: .8rem; border-radius: 2px; margin-right: .4rem;
  vertical-align: -1px; }}
.dots {{ font-size: .82rem; line-height: 1.25; }}
.dots .row {{ display: grid; grid-template-columns: minmax(0, 7rem) minmax(3rem, 1fr) 3.6rem; gap: .5rem;
  align-items: center; padding: .1rem 0; }}
.dots.several .row {{ grid-template-columns: minmax(0, 7rem) minmax(3rem, 1fr); }}
.dots.several .value {{ display: none; }}
.track {{ position: relative; height: .85rem; margin: 0 .35rem; background:
  linear-gradient(var(--rule), var(--rule)) center / 100% 1px no-repeat; }}
.dot {{ position: absolute; top: .1rem; width: .65rem; height: .65rem; margin-left: -.325rem; border-radius: 50%; }}
.value {{ text-align: right; color: var(--soft); font-variant-numeric: tabular-nums; white-space: nowrap; }}
.scroll {{ overflow-x: auto; max-width: 100%; margin: 0 0 1rem; }}
table {{ border-collapse: collapse; font-size: .9rem; }}
th, td {{ text-align: left; padding: .35rem .8rem .35rem 0; border-bottom: 1px solid var(--rule); vertical-align: top;
  overflow-wrap: normal; }}
th {{ font-weight: 600; color: var(--soft); font-size: .82rem; line-height: 1.3; vertical-align: bottom; }}
td.n, th.n {{ text-align: right; font-variant-numeric: tabular-nums; }}
td.n {{ white-space: nowrap; }}
.still {{ white-space: nowrap; }}
code {{ font: .92em ui-monospace, Menlo, Consolas, monospace; }}
footer {{ margin-top: 3rem; color: var(--soft); font-size: .85rem; }}
@media (max-width: 30rem) {{ main {{ padding-top: 1.2rem; }} h1 {{ font-size: 1.55rem; }}
  #schema td:nth-child(3), #details td:nth-child(2) {{ min-width: 13rem; overflow-wrap: anywhere; }} }}
@media print {{
  :root {{ color-scheme: light; {_LIGHT} --paper:#ffffff; }}
  * {{ -webkit-print-color-adjust: exact; print-color-adjust: exact; }}
  @page {{ margin: 16mm; }}
  body {{ font-size: 10.5pt; }}
  main {{ max-width: none; padding: 0 1px; }}
  section {{ margin-top: 1.2rem; padding-top: 1rem; }}
  h2, h3, section > p:first-of-type {{ break-after: avoid; }}
  figure, .card, .facts div, tr, .alarm {{ break-inside: avoid; }}
  .pair {{ grid-template-columns: 1fr 1fr; }}
  .cards {{ grid-template-columns: 1fr 1fr; }}
  .scroll {{ overflow: visible; }}
  table {{ font-size: 8.5pt; }}
}}
"""
