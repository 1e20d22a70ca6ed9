"""Plots of lines over two logarithmic axes, as SVG."""

import html
import math

WIDTH, HEIGHT = 1000, 480
LEFT, RIGHT, TOP, BOTTOM = 80, 330, 20, 60
COLORS = ["#c0392b", "#2980b9", "#27ae60", "#8e44ad", "#d35400", "#2c3e50", "#16a085", "#7f8c8d"]


def ticks(low, high):
    """The powers of ten between, and those around."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [10.0**power for power in range(first, max(last, first + 1) + 1)]


def number(value):
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def write(path, lines, x_title, y_title):
    """Writes `lines`, a dictionary of names to lists of points above zero, to a file."""
    points = [point for line in lines.values() for point in line]
    if not points:
        return
    xs, ys = (ticks(min(axis), max(axis)) for axis in zip(*points))

    def place(value, marks, start, end):
        part = math.log10(value / marks[0]) / math.log10(marks[-1] / marks[0])
        return start + part * (end - start)

    def at(point):
        return place(point[0], xs, LEFT, WIDTH - RIGHT), place(point[1], ys, HEIGHT - BOTTOM, TOP)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="13">']
    out.append(f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>')
    for mark in xs:
        x, _ = at((mark, ys[0]))
        out.append(f'<line x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{HEIGHT - BOTTOM}" stroke="#dddddd"/>')
        out.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{number(mark)}</text>')
    for mark in ys:
        _, y = at((xs[0], mark))
        out.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#dddddd"/>')
        out.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{number(mark)}</text>')
    middle = (HEIGHT - BOTTOM + TOP) / 2
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 14}" text-anchor="middle">{html.escape(x_title)}</text>')
    out.append(f'<text transform="translate(20 {middle}) rotate(-90)" text-anchor="middle">{html.escape(y_title)}</text>')
    for index, (name, line) in enumerate(lines.items()):
        color = COLORS[index % len(COLORS)]
        path_points = [at(point) for point in sorted(line)]
        text = " ".join(f"{x:.1f},{y:.1f}" for x, y in path_points)
        out.append(f'<polyline points="{text}" fill="none" stroke="{color}" stroke-width="2"/>')
        out.extend(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{color}"/>' for x, y in path_points)
        y = TOP + 12 + 20 * index
        out.append(f'<rect x="{WIDTH - RIGHT + 15}" y="{y - 9}" width="12" height="12" fill="{color}"/>')
        out.append(f'<text x="{WIDTH - RIGHT + 33}" y="{y + 2}">{html.escape(name)}</text>')
    out.append("</svg>\n")
    path.write_text("\n".join(out))
