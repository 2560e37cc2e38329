/** Writes the results: Markdown with plots, and JSON. */
import { mkdir, writeFile } from 'node:fs/promises';
import { arch, availableParallelism, cpus, platform, release, totalmem } from 'node:os';
import { join } from 'node:path';
import { percent } from '../disturbance.ts';
import type { BenchOptions } from '../options.ts';
import type { Outcome, Table } from '../results.ts';
import type { RoundsPolicy } from '../rounds.ts';
import { asideAims } from './aims.ts';
import { plotsOf } from './plots.ts';
import { svgPlot } from './svg.ts';
import { asMarkdown, LEGEND, tablesOf } from './table.ts';

const GIB = 1024 ** 3;

export interface Report {
  readonly command: string;
  readonly at: string;
  readonly options: BenchOptions;
  readonly outcomes: readonly Outcome[];
  /** Of CPU profiles. */
  readonly profiles: readonly Table[];
}

/** The machine in one line: cores, model, memory, kernel, Node. */
export function machine(): string {
  const [cpu] = cpus();
  const memory = (totalmem() / GIB).toFixed(0);
  const processor = `${availableParallelism()} x ${cpu?.model.trim() ?? arch()}`;
  return `${processor}, ${memory} GiB, ${platform()} ${release()}, Node ${process.version}`;
}

function disturbanceText({ repeats, stolen, others }: RoundsPolicy): string {
  const limits =
    `the hypervisor took more than ${percent(stolen)} of the CPU time it wanted, ` +
    `or other processes used more than ${percent(others)} of all cores`;
  return `A round is disturbed when ${limits}; ${repeats} rounds of a row are run again for that at most.`;
}

/** Returns the path of the Markdown file. */
export async function writeReport({ command, at, options, outcomes, profiles }: Report): Promise<string> {
  await mkdir(options.out, { recursive: true });
  const rows = outcomes.flatMap((outcome) => outcome.rows);
  const aims = asideAims(rows);
  const plots = plotsOf(rows);
  for (const [file, plot] of plots) await writeFile(join(options.out, file), svgPlot(plot));
  const served = options.server === 'dist' ? 'as built (`dist/`)' : 'from its sources';
  const markdown = [
    '# Bench results',
    '',
    `${at}, \`${command}\``,
    '',
    `${machine()}. ctl-discovery ran ${served}; the simulated proxies ran on the same machine.`,
    '',
    disturbanceText(options.policy),
    '',
    ...LEGEND.flatMap((line) => [line, '']),
    ...tablesOf(outcomes).map(asMarkdown),
    ...[...plots].map(([file, { title }]) => `![${title}](${file})\n`),
    ...profiles.map(asMarkdown),
    ...(aims === undefined ? [] : [asMarkdown(aims)]),
  ].join('\n');
  const file = join(options.out, 'RESULTS.md');
  await writeFile(file, markdown);
  const json = JSON.stringify({ at, command, machine: machine(), options, outcomes, profiles, aims }, undefined, 2);
  await writeFile(options.json ?? join(options.out, 'results.json'), `${json}\n`);
  return file;
}
