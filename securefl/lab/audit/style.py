"""The style sheet of an audit's page, light and dark."""

from __future__ import annotations

from typing import Final

STYLE: Final = """
:root{--bg:#f6f8fa;--card:#fff;--ink:#1f2328;--soft:#57606a;--line:#d8dee4;--holds:#1a7f43;--note:#1f5fbf;
  --warning:#9a6700;--breach:#b42318;}
@media
  (prefers-color-scheme:dark){:root{--bg:#0d1117;--card:#161b22;--ink:#e6edf3;--soft:#9198a1;
  --line:#30363d;
  --holds:#57ab5a;--note:#6cb6ff;--warning:#d4a72c;--breach:#f47067;}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);
  font:15px/1.5 system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif}
main{max-width:860px;margin:0 auto;padding:28px 18px 60px}
h1{margin:.1em 0 .4em;font-size:30px;line-height:1.15}
h2{margin:0 0 .3em;font-size:20px}
.kicker{margin:0;color:var(--soft);font-size:12px;letter-spacing:.09em;text-transform:uppercase}
.verdict{display:inline-block;margin:0 0 18px;padding:7px 13px;border-radius:8px;font-weight:600;color:#fff}
.verdict.holds{background:var(--holds)}
.verdict.warning{background:var(--warning)}
.verdict.breach{background:var(--breach)}
@media (prefers-color-scheme:dark){.verdict{color:#0d1117}}
dl{display:grid;grid-template-columns:repeat(auto-fill,minmax(260px,1fr));gap:8px 22px;margin:0 0 20px}
dt{color:var(--soft);font-size:12px}
dd{margin:0}
nav{display:flex;flex-wrap:wrap;gap:8px}
nav a{display:block;padding:7px 12px;min-width:104px;border:1px solid var(--line);border-top:4px solid
  var(--soft);
  border-radius:8px;background:var(--card);color:var(--soft);text-decoration:none;font-size:12px}
nav b{display:block;color:var(--ink);font-size:14px}
nav a.holds{border-top-color:var(--holds)}
nav a.note{border-top-color:var(--note)}
nav a.warning{border-top-color:var(--warning)}
nav a.breach{border-top-color:var(--breach)}
section{margin-top:26px;padding:20px 22px;border:1px solid var(--line);border-radius:12px;
  background:var(--card)}
.method{margin:0 0 14px;color:var(--soft)}
article{margin:10px 0;padding:10px 14px;border-left:4px solid var(--soft);background:var(--bg);
  border-radius:0 8px 8px 0}
article p{margin:.25em 0}
article.holds{border-color:var(--holds)}
article.note{border-color:var(--note)}
article.warning{border-color:var(--warning)}
article.breach{border-color:var(--breach)}
.badge{font-size:11px;font-weight:700;letter-spacing:.06em;text-transform:uppercase;color:var(--soft)}
.holds .badge{color:var(--holds)}
.note .badge{color:var(--note)}
.warning .badge{color:var(--warning)}
.breach .badge{color:var(--breach)}
.remedy,.small,.note-text{color:var(--soft);font-size:13px}
.remedy b{color:var(--ink)}
details{margin-top:6px;font-size:13px}
summary{cursor:pointer;color:var(--soft)}
ul{margin:.4em 0;padding-left:20px}
code{font:12px/1.5 ui-monospace,Menlo,Consolas,monospace; overflow-wrap:anywhere}
figure.exhibit{margin:22px 0 0}
figure.exhibit>figcaption{font-weight:600;margin-bottom:8px}
.scroll{overflow-x:auto}
table{border-collapse:collapse;font-size:13px;font-variant-numeric:tabular-nums}
th,td{padding:4px 11px;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
th{color:var(--soft);font-weight:600;white-space:normal;vertical-align:bottom}
.t{text-align:left}
td.long{min-width:17em;white-space:normal}
.scroll>img{display:block;width:100%;min-width:600px;height:auto;background:#fff;border-radius:8px}
@media (max-width:600px){main{padding:18px 10px 40px}section{padding:14px 12px}}
.pictures{display:flex;gap:10px;margin-bottom:10px}
.picture{margin:0;font-size:11px;color:var(--soft);text-align:center}
.picture img{display:block;width:84px;image-rendering:pixelated;border:1px solid var(--line)}
"""
