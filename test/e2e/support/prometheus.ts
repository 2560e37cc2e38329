/** A real Prometheus that scrapes programs of a test, and promtool, its checker of scrapes. */
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { stringify } from 'yaml';
import { eventually, freePort, type Owner, startChild, tempDir } from '../../harness/index.ts';

const PROGRAM = process.env.PROMETHEUS_PATH ?? '';

/** For the `skip` of a test. */
export const prometheusUnavailable: string | false = existsSync(PROGRAM) ? false : 'Prometheus is not unpacked';

/** What promtool says about a text that it cannot read; '' for one that it can, whatever it thinks of the names. */
export function promtoolErrors(text: string): string {
  const promtool = join(dirname(PROGRAM), 'promtool');
  const { status, stderr } = spawnSync(promtool, ['check', 'metrics'], { input: text, encoding: 'utf8' });
  // 3: names or help texts that are not as recommended.
  return status === 0 || status === 3 ? '' : stderr || `exit code ${status}`;
}

export interface Prometheus {
  /** The state of the first target: its last error is '' after a scrape that was read as a whole. */
  target(): Promise<{ readonly health: string; readonly lastError: string; readonly lastScrape: string }>;
  /** The newest value of a query, the first of several; undefined without one. */
  value(query: string): Promise<string | undefined>;
  /** The newest values of a query. */
  values(query: string): Promise<readonly string[]>;
  /** Exemplars of the last minutes, by their labels. */
  exemplars(query: string): Promise<readonly Readonly<Record<string, string>>[]>;
}

/** Scrapes the addresses at their paths all the time, in a job each, and evaluates files of rules. */
export async function startPrometheus(
  owner: Owner,
  targets: readonly { readonly address: string; readonly path: string }[],
  rules: readonly string[] = [],
): Promise<Prometheus> {
  const folder = await tempDir(owner);
  const port = await freePort();
  const scrapes = targets.map(({ address, path }, index) => ({
    job_name: `job-${index}`,
    metrics_path: path,
    static_configs: [{ targets: [address] }],
  }));
  const global = { scrape_interval: '500ms', scrape_timeout: '500ms', evaluation_interval: '500ms' };
  const config = join(folder, 'prometheus.yml');
  await writeFile(config, stringify({ global, rule_files: rules, scrape_configs: scrapes }));
  const child = await startChild(owner, {
    name: 'prometheus',
    command: PROGRAM,
    args: [
      `--config.file=${config}`,
      `--storage.tsdb.path=${join(folder, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
      '--enable-feature=exemplar-storage',
    ],
  });
  const api = async (query: string): Promise<unknown> => {
    child.assertRunning();
    const answer = await fetch(`http://127.0.0.1:${port}/api/v1/${query}`);
    if (!answer.ok) throw new Error(`${query}: ${answer.status}`);
    return ((await answer.json()) as { data: unknown }).data;
  };
  const values = async (query: string): Promise<string[]> => {
    const { result } = (await api(`query?query=${encodeURIComponent(query)}`)) as {
      result: { value: [number, string] }[];
    };
    return result.map(({ value: [, value] }) => value);
  };
  await eventually(() => api('targets'), { timeoutMs: 30_000, what: 'a running Prometheus' });
  return {
    async target() {
      const { activeTargets } = (await api('targets')) as {
        activeTargets: { health: string; lastError: string; lastScrape: string; scrapePool: string }[];
      };
      const target = activeTargets.find(({ scrapePool }) => scrapePool === 'job-0');
      if (target === undefined) throw new Error('there is no target');
      return target;
    },
    value: async (query) => (await values(query))[0],
    values,
    async exemplars(query) {
      const [start, end] = [Date.now() / 1000 - 300, Date.now() / 1000 + 60];
      const found = (await api(`query_exemplars?query=${encodeURIComponent(query)}&start=${start}&end=${end}`)) as {
        exemplars: { labels: Record<string, string> }[];
      }[];
      return found.flatMap(({ exemplars }) => exemplars.map(({ labels }) => labels));
    },
  };
}
