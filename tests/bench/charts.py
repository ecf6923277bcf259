# SPDX-License-Identifier: Apache-2.0
"""Draws the results of distlock_bench as SVG that follows the reader's colour scheme.

usage: charts.py RESULTS.json FOLDER [MS]

throughput.svg and handoff.svg are bars; growth-*.svg are lines over a logarithmic x axis. Each shows the median of the
rounds and a whisker from the least to the greatest. Only sections that were run are drawn. A case without values shows
the reason in place of its bar, or is a gap in its line. MS: the store was so many milliseconds away; then the bars'
files and titles say so.
"""
import json
import math
import os
import statistics
import sys
from html import escape

STYLE = """<style>
text{font:12px system-ui,-apple-system,"Segoe UI",Helvetica,Arial,sans-serif;fill:#1f2328}
.title{font-size:15px;font-weight:600}.group{font-weight:600}.quiet{fill:#59636e}
.page{fill:#ffffff}.grid{stroke:#d1d9e0}.whisker{stroke:#1f2328}.ours{fill:#0969da}.other{fill:#9aa4af}
.s0{fill:#0969da;stroke:#0969da}.s1{fill:#bc4c00;stroke:#bc4c00}
.s2{fill:#1a7f37;stroke:#1a7f37}.s3{fill:#8250df;stroke:#8250df}
line{stroke-width:1}.thick{stroke-width:2}
@media (prefers-color-scheme:dark){text{fill:#f0f6fc}.quiet{fill:#9198a1}
.page{fill:#0d1117}.grid{stroke:#3d444d}.whisker{stroke:#f0f6fc}.ours{fill:#4493f8}.other{fill:#656c76}
.s0{fill:#4493f8;stroke:#4493f8}.s1{fill:#f0883e;stroke:#f0883e}
.s2{fill:#3fb950;stroke:#3fb950}.s3{fill:#ab7df8;stroke:#ab7df8}}
</style>
"""
BARS = [  # file, title, unit, column, sections
    ("throughput.svg", "Locks taken and given back, nobody else wanting them",
     "pairs/s, more is better: median of the rounds and min..max", "pairs/s", ("lone", "multiplexed", "peers")),
    ("handoff.svg", "Hand-off: from release called to the next one's grant seen",
     "µs, less is better: p50, median of the rounds and min..max", "p50 µs",
     ("handoff-hot", "handoff-idle", "peers-handoff")),
    ("quorum.svg", "A lock at several servers: 50 waiters hold it for 1 ms each",
     "ms for all of them, less is better: median of the rounds and min..max", "makespan ms", ("quorum-queue",))]
LINES = [  # file, title, title of the x axis, unit, [(section, column, label)]
    ("growth-leases.svg", "CPU of taking a lock and giving it back, beside so many held leases",
     "held leases, logarithmic scale",
     "µs of CPU per pair: median of the rounds and min..max",
     [("growth-leases", "daemon CPU", "broker; other sessions hold the leases, at most 10 000 each"),
      ("growth-leases", "redis CPU", "Redis; other sessions hold the leases, at most 10 000 each"),
      ("growth-session", "daemon CPU", "broker; the measured session holds them all"),
      ("growth-session", "redis CPU", "Redis; the measured session holds them all")]),
    ("growth-memory.svg", "Memory of a held lease", "held leases, logarithmic scale",
     "bytes per lease: median of the rounds and min..max",
     [("growth-leases", "daemon B/lease", "broker: growth of its resident memory"),
      ("growth-leases", "redis B/lease", "Redis: growth of used_memory")]),
    ("growth-waiters.svg", "Hand-off of one lock that so many wait for", "waiters, logarithmic scale",
     "µs from release called to grant seen: median of the rounds and min..max",
     [("growth-waiters", "p50 µs", "p50"), ("growth-waiters", "p99 µs", "p99")]),
    ("growth-waiters-cpu.svg", "CPU of a hand-off of one lock that so many wait for", "waiters, logarithmic scale",
     "µs of CPU per hand-off: median of the rounds and min..max",
     [("growth-waiters", "daemon CPU", "broker"), ("growth-waiters", "redis CPU", "Redis")])]
WIDEST_RATIO = 30  # longest bar to shortest; beyond it the scale is logarithmic


def spread(section, case, column):
    """((median, least, greatest), "") over the rounds, or (None, why there is none)."""
    samples = [r[case] for r in section["rounds"] if case in r]
    for key, word in (("error", "INVALID"), ("not_run", "NOT RUN")):
        if any(s[key] for s in samples):
            return None, word
    values = [s["values"][column] for s in samples if s["values"].get(column) is not None]
    return ((statistics.median(values), min(values), max(values)), "") if values else (None, "no value")


def short(value):
    """Three digits, with k and M for large numbers."""
    shown, suffix = (value / 1e6, " M") if value >= 999.5e3 else (value / 1e3, " k") if value >= 9999.5 else (value, "")
    text = f"{shown:.{0 if shown >= 99.95 else 1 if shown >= 9.995 else 2}f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) + suffix


def width_of(text):
    return 6.8 * len(text)  # an upper estimate, since the font is not known


def linear_ticks(greatest):
    power = 10 ** math.floor(math.log10(greatest / 5)) if greatest > 0 else 1
    step = next((f * power for f in (1, 2, 2.5, 5) if f * power * 5 >= greatest), 10 * power)
    return [i * step for i in range(max(1, math.ceil(greatest / step - 1e-9)) + 1)]


def power_ticks(least, greatest):
    first = math.floor(math.log10(least) + 1e-9)
    last = max(first + 1, math.ceil(math.log10(greatest) - 1e-9))
    return [10.0 ** power for power in range(first, last + 1)]


def scale(first, last, from_px, to_px, logarithmic=False):
    """A function from values to pixels, which never leaves from_px..to_px."""
    def at(value):
        inside = min(max(value, first), last)
        part = math.log(inside / first) / math.log(last / first) if logarithmic else (inside - first) / (last - first)
        return from_px + part * (to_px - from_px)
    return at


class Svg:
    def __init__(self, width, height, title):
        size = f'viewBox="0 0 {width:.1f} {height:.1f}" width="{width:.1f}" height="{height:.1f}"'
        self.parts = [f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">\n'
                      f'<title>{escape(title)}</title>\n{STYLE}']
        self.rect(0, 0, width, height, "page")

    def text(self, x, y, text, style="", anchor="start"):
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" class="{style}" text-anchor="{anchor}">{escape(text)}</text>\n')

    def rect(self, x, y, width, height, style):
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" class="{style}"/>\n')

    def line(self, x1, y1, x2, y2, style):
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{style}"/>\n')

    def dot(self, x, y, style):
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.0" class="{style}"/>\n')

    def done(self):
        return "".join(self.parts) + "</svg>\n"


def draw_bars(title, unit, groups):
    """groups: [(label, [(label, spread or None, why)])]"""
    bars = [bar for _, group in groups for bar in group]
    drawn = [value for _, value, _ in bars if value and value[0] > 0]
    greatest = max([max(v[0], v[2]) for v in drawn], default=0)
    logarithmic = bool(drawn) and max(v[0] for v in drawn) > WIDEST_RATIO * min(v[0] for v in drawn)
    if logarithmic:
        unit += "; logarithmic scale"
    # A logarithmic scale has no zero: it begins below the least value, so that its bar is visible.
    ticks = power_ticks(min(v[1] if v[1] > 0 else v[0] for v in drawn) / 3,
                        greatest) if logarithmic else linear_ticks(greatest)
    left = 24 + max(width_of(label) for label, _, _ in bars)
    height = 92 + sum(28 + 20 * len(group) for _, group in groups)
    width = max([left + 530, 32 + 1.3 * width_of(title), 32 + width_of(unit)] + \
                [32 + width_of(label) for label, _ in groups])
    at = scale(ticks[0], ticks[-1], left, left + 460, logarithmic)
    svg = Svg(width, height, title)
    svg.text(16, 28, title, "title")
    svg.text(16, 48, unit, "quiet")
    for tick in ticks:
        svg.line(at(tick), 64, at(tick), height - 28, "grid")
        svg.text(at(tick), height - 12, short(tick), "quiet", "middle")
    y = 64
    for label, group in groups:
        svg.text(16, y + 18, label, "group")
        y += 28
        for name, value, why in group:
            svg.text(left - 8, y + 10.5, name, "", "end")
            if value is None:
                svg.text(left + 6, y + 10.5, why, "quiet")
            else:
                median, low, high = value
                ours = "broker" in name or "distlock" in name
                svg.rect(left, y, at(median) - left, 13, "ours" if ours else "other")
                if high > low:
                    svg.line(at(low), y + 6.5, at(high), y + 6.5, "whisker")
                    for end in (low, high):
                        svg.line(at(end), y + 3.5, at(end), y + 9.5, "whisker")
                svg.text(max(at(median), at(high)) + 6, y + 10.5, short(median))
            y += 20
    return svg.done()


def draw_lines(title, x_title, unit, lines):
    """lines: [(label, [(x, spread or None)])], x growing; None is a gap."""
    drawn = [(x, value) for _, points in lines for x, value in points if value]
    xs = sorted({x for x, _ in drawn})
    top, bottom = 76 + 18 * len(lines), 336 + 18 * len(lines)
    ticks = linear_ticks(max(max(v[0], v[2]) for _, v in drawn))
    up = scale(ticks[0], ticks[-1], bottom, top)
    first, last = (xs[0], xs[-1]) if len(xs) > 1 else (xs[0] / 2, xs[0] * 2)
    across = scale(first, last, 92, 612, logarithmic=True)
    width = max([672, 32 + 1.3 * width_of(title), 32 + width_of(unit)] + [60 + width_of(label) for label, _ in lines])
    svg = Svg(width, bottom + 52, title)
    svg.text(16, 28, title, "title")
    svg.text(16, top - 12, unit, "quiet")
    for tick in ticks:
        svg.line(72, up(tick), 632, up(tick), "grid")
        svg.text(64, up(tick) + 4, short(tick), "quiet", "end")
    free = 0
    for x in xs:
        if across(x) >= free:  # numbers that are closer would touch
            svg.line(across(x), top, across(x), bottom, "grid")
            svg.text(across(x), bottom + 18, short(x), "quiet", "middle")
            free = across(x) + 48
    svg.text(352, bottom + 40, x_title, "quiet", "middle")
    for i, (label, points) in enumerate(lines):
        style = f"s{i}"
        svg.line(16, 50 + 18 * i, 36, 50 + 18 * i, style + " thick")
        svg.text(44, 54 + 18 * i, label)
        before = None
        for x, value in points:
            here = value and (across(x), up(value[0]))
            if here and before:
                svg.line(*before, *here, style + " thick")
            if here and value[2] > value[1]:
                svg.line(here[0], up(value[1]), here[0], up(value[2]), style)
                for end in value[1:]:
                    svg.line(here[0] - 3, up(end), here[0] + 3, up(end), style)
            if here:
                svg.dot(*here, style)
            before = here
    return svg.done()


def charts(results, ms=""):
    """({file: SVG}, [what is missing, and why]); ms: how far away the store was, "" for not at all"""
    sections, files, missing = results["sections"], {}, []
    for file, title, unit, column, wanted in BARS:
        if ms:
            file, title = file.replace(".svg", f"-{ms}ms.svg"), f"{title}; the store {ms} ms away"
        groups = [(s["title"], [(case, *spread(s, case, column)) for case in s["cases"]])
                  for name, s in sections.items() if name in wanted and s["cases"]]
        if groups:
            files[file] = draw_bars(title, unit, groups)
    for file, title, x_title, unit, wanted in LINES:
        lines = []
        for section, column, label in (w for w in wanted if w[0] in sections):
            s = sections[section]
            points = [(float(case), spread(s, case, column)[0])
                       for case in s["cases"] if case.isdigit() and int(case) > 0]
            if sum(value is not None for _, value in points) >= 2:
                lines.append((label, sorted(points)))
            else:
                missing.append(f'{file} has no line of "{column}" of {section}: fewer than two cases gave a value')
        if lines:
            files[file] = draw_lines(title, x_title, unit, lines)
    return files, missing


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as results:
        files, missing = charts(json.load(results), *sys.argv[3:])
    os.makedirs(sys.argv[2], exist_ok=True)
    for name, svg in files.items():
        with open(os.path.join(sys.argv[2], name), "w", encoding="utf-8") as out:
            out.write(svg)
    print("".join(f"charts.py: {sentence}\n" for sentence in missing), end="", file=sys.stderr)


if __name__ == "__main__":
    main()
