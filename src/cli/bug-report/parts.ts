/** The files of a bug report, and where each comes from. */
import { scrubJson, scrubSettings, scrubText } from '../../core/scrub.ts';

/** The addresses of the service. */
export type Interface = 'http' | 'monitoring' | 'introspection';

export interface Part {
  /** The file in the archive. */
  readonly file: string;
  readonly from: Interface;
  /** The path with its query. */
  readonly path: string;
  /** What goes into the archive; the response is left out when this throws. */
  readonly content: (response: Buffer) => string | Buffer;
  /** Time that the service needs before it answers, ms. */
  readonly takesMs?: number;
}

const parsed = (response: Buffer): unknown => JSON.parse(response.toString('utf8'));
const jsonText = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`;
const asJson = (response: Buffer): string => jsonText(scrubJson(parsed(response)));
const asSettings = (response: Buffer): string => jsonText(scrubSettings(parsed(response)));
const asText = (response: Buffer): string => scrubText(response.toString('utf8'));

/** A debug page. */
const page = (file: string, name: string): Part => ({ file, from: 'http', path: `/debug/${name}`, content: asJson });

/** What the introspection address says about the process. */
const topic = (name: string, content = asJson): Part => ({
  file: `process/${name}.json`,
  from: 'introspection',
  path: `/${name}`,
  content,
});

/** Log lines as the log has them, the oldest first. */
function asLog(response: Buffer): string {
  const { events } = parsed(response) as {
    events: readonly { at: number; level: string; scope: string; message: string }[];
  };
  return events
    .toReversed()
    .map(
      ({ at, level, scope, message }) => `${new Date(at).toISOString()}\t${level}\t${scope}\t${scrubText(message)}\n`,
    )
    .join('');
}

/** The texts that users write about injection are left out: they are templates, in which anything may be. */
export const PARTS: readonly Part[] = [
  { file: 'version.txt', from: 'http', path: '/version', content: asText },
  { file: 'ready.txt', from: 'http', path: '/ready?verbose', content: asText },
  page('status/overview.json', 'overviewz'),
  page('status/proxies.json', 'proxiesz?limit=1000'),
  page('status/sync.json', 'syncz'),
  page('status/pushes.json', 'pushz'),
  page('status/last-30-minutes.json', 'seriesz'),
  page('status/push-engine.json', 'push_status'),
  page('status/withheld.json', 'withheldz'),
  page('status/leaders.json', 'leaderz'),
  page('status/clusters.json', 'clusterz'),
  page('findings.json', 'analysisz'),
  page('configuration/mesh.json', 'mesh'),
  page('configuration/networks.json', 'networkz'),
  page('configuration/documents.json', 'configz'),
  page('configuration/counts.json', 'resourcesz'),
  page('configuration/services.json', 'registryz'),
  { file: 'log.txt', from: 'http', path: '/debug/eventsz', content: asLog },
  { file: 'metrics.txt', from: 'monitoring', path: '/metrics', content: asText },
  topic('versionj'),
  topic('flagj', asSettings),
  topic('envj', asSettings),
  topic('argj'),
  topic('procj'),
  topic('memj'),
];

/** What a proxy should have. */
export const proxyPart = (name: string): Part =>
  page(`proxies/${name.replace(/[^\w.-]/g, '_').slice(0, 80)}.json`, `config_dump?proxyID=${encodeURIComponent(name)}`);

/** Profiles; the service has them with `--profile`. */
export const profileParts = (seconds: number): readonly Part[] =>
  ['profile', 'heap'].map((kind) => ({
    file: `profiles/${kind}.pprof`,
    from: 'http',
    path: `/debug/pprof/${kind}?seconds=${seconds}`,
    content: (response) => response,
    takesMs: seconds * 1000,
  }));
