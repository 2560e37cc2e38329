/** Line plots as SVG text: two axes from zero, a legend, nothing else. */

export interface Line {
  readonly label: string;
  readonly points: readonly (readonly [x: number, y: number])[];
}

export interface Plot {
  readonly title: string;
  readonly x: string;
  readonly y: string;
  readonly lines: readonly Line[];
}

const WIDTH = 640;
const HEIGHT = 360;
const MARGIN = { top: 40, right: 190, bottom: 48, left: 64 } as const;
const COLOURS = ['#1b6ca8', '#c0392b', '#2e8b57', '#8e44ad', '#d68910', '#34495e'];
const TICKS = 5;

/** The next number of the form 1, 2, 5 times a power of ten. */
function round(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  const factor = [1, 2, 5, 10].find((candidate) => candidate * power >= value) ?? 10;
  return factor * power;
}

function ticks(most: number): number[] {
  const step = round(Math.max(most, 1e-3) / TICKS);
  return Array.from({ length: Math.ceil(most / step) + 1 }, (_, index) => index * step);
}

const escaped = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');

const label = (value: number): string => String(Number(value.toPrecision(6)));

export function svgPlot({ title, x, y, lines }: Plot): string {
  const points = lines.flatMap((line) => line.points);
  const xTicks = ticks(Math.max(...points.map(([value]) => value)));
  const yTicks = ticks(Math.max(...points.map(([, value]) => value)));
  const right = WIDTH - MARGIN.right;
  const bottom = HEIGHT - MARGIN.bottom;
  const atX = (value: number): string =>
    (MARGIN.left + (value / (xTicks.at(-1) ?? 1)) * (right - MARGIN.left)).toFixed(1);
  const atY = (value: number): string => (bottom - (value / (yTicks.at(-1) ?? 1)) * (bottom - MARGIN.top)).toFixed(1);
  const grid = [
    ...xTicks.map((value) => `<text x="${atX(value)}" y="${bottom + 18}" text-anchor="middle">${label(value)}</text>`),
    ...yTicks.map(
      (value) =>
        `<line x1="${MARGIN.left}" x2="${right}" y1="${atY(value)}" y2="${atY(value)}" stroke="#ddd"/>` +
        `<text x="${MARGIN.left - 8}" y="${atY(value)}" dy="4" text-anchor="end">${label(value)}</text>`,
    ),
  ];
  const drawn = lines.map((line, index) => {
    const colour = COLOURS[index % COLOURS.length];
    const path = line.points.map(([px, py]) => `${atX(px)},${atY(py)}`);
    const dots = line.points.map(([px, py]) => `<circle cx="${atX(px)}" cy="${atY(py)}" r="3" fill="${colour}"/>`);
    const legend = MARGIN.top + 18 * index;
    return [
      `<polyline points="${path.join(' ')}" fill="none" stroke="${colour}" stroke-width="2"/>`,
      ...dots,
      `<rect x="${right + 14}" y="${legend - 9}" width="10" height="10" fill="${colour}"/>`,
      `<text x="${right + 30}" y="${legend}">${escaped(line.label)}</text>`,
    ].join('');
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${HEIGHT}" ` +
      'font-family="sans-serif" font-size="12">',
    `<rect width="${WIDTH}" height="${HEIGHT}" fill="#fff"/>`,
    `<text x="${MARGIN.left}" y="20" font-size="14">${escaped(title)}</text>`,
    ...grid,
    `<text x="${(MARGIN.left + right) / 2}" y="${HEIGHT - 10}" text-anchor="middle">${escaped(x)}</text>`,
    `<text x="16" y="${(MARGIN.top + bottom) / 2}" transform="rotate(-90 16 ${(MARGIN.top + bottom) / 2})" ` +
      `text-anchor="middle">${escaped(y)}</text>`,
    ...drawn,
    '</svg>',
    '',
  ].join('\n');
}
