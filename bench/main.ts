/**
 * `npm run bench`: measures the real ctl-discovery from outside and prints one table. Without names every bench runs;
 * see `--help`. The server is the one that `npm run build` makes, as in production; `--server sources` runs
 * the sources.
 */

import { parseCommandLine, usage } from './options.ts';
import { asideAims } from './report/aims.ts';
import { machine, writeReport } from './report/report.ts';
import { asText, LEGEND, tablesOf } from './report/table.ts';
import { BENCHES, chooseBenches, runBenches } from './suite.ts';

const started = performance.now();

function progress(text: string): void {
  process.stderr.write(`[${((performance.now() - started) / 1000).toFixed(1).padStart(6)} s] ${text}\n`);
}

async function main(args: readonly string[]): Promise<number> {
  if (args.includes('--help') || args.includes('-h')) {
    process.stdout.write(usage(BENCHES.map(({ name }) => name)));
    for (const { name, about } of BENCHES) process.stdout.write(`  ${name.padEnd(14)} ${about}\n`);
    return 0;
  }
  const { names, runs } = parseCommandLine(args);
  const benches = chooseBenches(names);
  const { outcomes, profiles, failures } = await runBenches({ benches, runs, progress });
  process.stdout.write(`\n${machine()}\n`);
  for (const table of [...tablesOf(outcomes), ...profiles]) process.stdout.write(`\n${asText(table)}`);
  const rows = outcomes.flatMap((outcome) => outcome.rows);
  if (rows.length > 0) process.stdout.write(`\n${LEGEND.join('\n')}\n`);
  const aims = asideAims(rows);
  if (aims !== undefined) process.stdout.write(`\n${asText(aims)}`);
  const [options] = runs;
  if (options !== undefined) {
    const command = ['npm run bench --', ...args].join(' ');
    const report = await writeReport({ command, at: new Date().toISOString(), options, outcomes, profiles });
    process.stdout.write(`\nreport: ${report}\n`);
  }
  for (const failure of failures) process.stdout.write(`FAILED ${failure}\n`);
  return failures.length === 0 ? 0 : 1;
}

// Children end with this process. An interrupted run leaves its temporary folder to the system.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130));

main(process.argv.slice(2)).then(
  (code) => process.exit(code),
  (error: unknown) => {
    process.stderr.write(`bench: ${error instanceof Error ? error.message : String(error)}\n`);
    process.exit(1);
  },
);
