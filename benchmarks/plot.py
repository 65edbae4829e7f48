"""The ratios of a run as one picture: a bar per workload and metric, from 1x to what was measured, targets marked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from benchmarks.report import Row, number_words, rows
from benchmarks.results import Results
from benchmarks.summary import Ratio
from benchmarks.targets import BROKERS, Comparison, Target

_WIDTH, _LABEL_WIDTH, _VALUE_WIDTH, _BAR_HEIGHT, _TOP = 1180, 380, 330, 18, 70
_CHART_WIDTH = _WIDTH - _LABEL_WIDTH - _VALUE_WIDTH
_TICKS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
# More is better for the first; less for the rest.
_RATES = ("messages/s", "transactions/s", "rows/s", "rows/s per core")
_COSTS = (
    *("p50 ms", "p99 ms", "p99.9 ms", "broker CPU-s/GB", "broker CPU-ms/transaction", "peak RSS MB"),
    *("start to first ack s", "ms/micro-batch"),
)
_BETTER, _WORSE = "#2a7f62", "#b5483a"


def svg(results: Results, comparison: Comparison = BROKERS) -> str:
    """Only what both sides measured has a bar. The scale is logarithmic: twice as fast is as long as half."""
    shown = [(row, row.ratio) for row in rows(results) if row.metric in _RATES + _COSTS and row.ratio is not None]
    height = _TOP + _BAR_HEIGHT * len(shown) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
        'font-family="sans-serif" font-size="11">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        _text(10, 20, f"{comparison.title}: ratio per workload", 'font-size="15" font-weight="bold"'),
        _text(10, 38, f"{results.command} · {results.date} · {results.machine.get('cores', '?')} cores"),
        _text(10, 54, "green: Penstock better, red: worse; black mark: target. Rates: right is better; costs: left."),
        *_axis(height),
    ]
    for number, (row, ratio) in enumerate(shown):
        parts += _bar(row, ratio, _TOP + _BAR_HEIGHT * number, comparison.targets)
    return "\n".join([*parts, "</svg>"]) + "\n"


def position(ratio: float) -> float:
    """Where a ratio is on the picture, in pixels from its left edge; beyond the axis it stays at the edge."""
    low, high = math.log(_TICKS[0]), math.log(_TICKS[-1])
    share = (math.log(ratio) - low) / (high - low) if ratio > 0 else 0.0
    return _LABEL_WIDTH + _CHART_WIDTH * min(1.0, max(0.0, share))


def _axis(height: int) -> list[str]:
    parts = []
    for tick in _TICKS:
        x = position(tick)
        colour = "#444" if tick == 1.0 else "#ddd"
        parts.append(f'<line x1="{x:.0f}" y1="{_TOP - 4}" x2="{x:.0f}" y2="{height - 24}" stroke="{colour}"/>')
        parts.append(_text(x, height - 10, f"{tick:g}x", 'text-anchor="middle"'))
    return parts


def _bar(row: Row, ratio: Ratio, top: int, targets: Sequence[Target]) -> list[str]:
    base, end = position(1.0), position(ratio.value)
    better = ratio.value >= 1 if row.metric in _RATES else ratio.value <= 1
    middle = top + _BAR_HEIGHT - 6
    medians = [number_words(side.median) for side in (ratio.ours, ratio.theirs)]
    values = f"{ratio.value:.2f}x ({' / '.join(medians)})"
    parts = [
        _text(_LABEL_WIDTH - 8, middle, f"{row.durability}/{row.case}: {row.metric}", 'text-anchor="end"'),
        f'<rect x="{min(base, end):.1f}" y="{top + 3}" width="{max(1.0, abs(end - base)):.1f}" '
        f'height="{_BAR_HEIGHT - 6}" fill="{_BETTER if better else _WORSE}"/>',
        _text(_WIDTH - _VALUE_WIDTH + 10, middle, values),
    ]
    for target in _targets_of(row, targets):
        x = position(target.bound)
        parts.append(
            f'<line x1="{x:.1f}" y1="{top + 1}" x2="{x:.1f}" y2="{top + _BAR_HEIGHT - 1}" '
            'stroke="black" stroke-width="2"/>'
        )
    return parts


def _targets_of(row: Row, targets: Sequence[Target]) -> list[Target]:
    # A rate in messages and one in bytes have the same ratio.
    metrics = (row.metric, "MB/s") if row.metric == "messages/s" else (row.metric,)
    return [
        target
        for target in targets
        if target.metric in metrics and not target.beside and target.applies_to(row.durability, row.case)
    ]


def _text(x: float, y: float, words: str, attributes: str = "") -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" {attributes}>{escape(words)}</text>'
