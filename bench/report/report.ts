/** Writes the results: Markdown with plots, and JSON. */
import { mkdir, writeFile } from 'node:fs/promises';
import { arch, availableParallelism, cpus, platform, release, totalmem } from 'node:os';
import { join } from 'node:path';
import type { BenchOptions } from '../options.ts';
import type { Outcome, Table } from '../results.ts';
import { plotsOf } from './plots.ts';
import { svgPlot } from './svg.ts';
import { asMarkdown, tablesOf } from './table.ts';

const GIB = 1024 ** 3;

export interface Report {
  readonly command: string;
  readonly at: string;
  readonly options: BenchOptions;
  readonly outcomes: readonly Outcome[];
  /** Of CPU profiles. */
  readonly profiles: readonly Table[];
}

function machine(): string {
  const [cpu] = cpus();
  const memory = (totalmem() / GIB).toFixed(0);
  return `${availableParallelism()} x ${cpu?.model.trim() ?? arch()}, ${memory} GiB, ${platform()} ${release()}, Node ${process.version}`;
}

/** Returns the path of the Markdown file. */
export async function writeReport({ command, at, options, outcomes, profiles }: Report): Promise<string> {
  await mkdir(options.out, { recursive: true });
  const rows = outcomes.flatMap((outcome) => outcome.rows);
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
    'Latency: from the edit on disk (one `rename`) to the last byte that shows it at each proxy, all rounds together. CPU, MB, messages and resources: per round, all proxies together. MB: gRPC messages as received.',
    '',
    ...tablesOf(outcomes).map(asMarkdown),
    ...[...plots].map(([file, { title }]) => `![${title}](${file})\n`),
    ...profiles.map(asMarkdown),
  ].join('\n');
  const file = join(options.out, 'RESULTS.md');
  await writeFile(file, markdown);
  const json = JSON.stringify({ at, command, machine: machine(), options, outcomes, profiles }, undefined, 2);
  await writeFile(options.json ?? join(options.out, 'results.json'), `${json}\n`);
  return file;
}
