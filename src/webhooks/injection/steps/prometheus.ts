/**
 * Exposes the metrics of the application through the agent: the Pod's annotations `prometheus.io/…` are passed to the
 * agent as MESH_METRICS_ANNOTATIONS, and then name the agent. So Prometheus scrapes one port, which is reachable where
 * mutual TLS is required, and gets the metrics of application, Envoy and agent.
 */
import { boolean } from '../annotations/values.ts';
import { type PodRecord, recordOf, textsOf } from '../pod-shape.ts';
import { proxyOf, withProxyVariable } from './sidecar-container.ts';
import type { InjectionStep } from './step.ts';

const VARIABLE = 'MESH_METRICS_ANNOTATIONS';

const AGENT_PATH = '/stats/prometheus';

interface Scraped {
  readonly scrape: string;
  readonly port: string;
  readonly path: string;
}

export const mergeMetrics: InjectionStep = (pod, { data, isRepeated, warnings }) => {
  const { proxy } = data;
  if (!proxy.mergeMetrics || proxyOf(pod) === undefined) return pod;
  const annotations = asPrometheusReads(textsOf(recordOf(pod.metadata).annotations));
  const app = scrapedOf(annotations, data.pod.metadata.annotations);
  if (app.scrape === 'false') return pod;
  const own = { scrape: 'true', port: String(proxy.statusPort), path: AGENT_PATH };
  const isOwn = app.port === own.port && app.path === own.path;
  if (isOwn && isRepeated) return pod;
  const problem = problemOf(app, annotations, own.port);
  if (problem !== undefined) {
    warnings.push(`${problem}: the metrics of the application are not merged`);
    return pod;
  }
  const named = app.scrape === 'true' && !isOwn ? JSON.stringify(app) : undefined;
  return withAnnotations(withProxyVariable(pod, VARIABLE, named), own);
};

const NAMES = ['scrape', 'port', 'path', 'scheme'].map((name) => `prometheus.io/${name}`);
const BY_LABEL: ReadonlyMap<string, string> = new Map(NAMES.map((name) => [labelOf(name), name]));

/** Prometheus makes labels of annotations, in which every other character is an underscore. */
function labelOf(name: string): string {
  return name.replaceAll(/[^a-zA-Z0-9_]/g, '_');
}

/** The name of an annotation that Prometheus cannot distinguish from this one (`prometheus.io.scrape`). */
function sameForPrometheus(name: string): string | undefined {
  return name.startsWith('prometheus') ? BY_LABEL.get(labelOf(name)) : undefined;
}

/** Adds the usual names of annotations that have a name with the same meaning. */
function asPrometheusReads(annotations: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const others = Object.entries(annotations).map(([name, value]) => [sameForPrometheus(name) ?? name, value]);
  return { ...Object.fromEntries(others), ...annotations };
}

/** The names of the mesh take precedence over those that every Prometheus reads. */
function scrapedOf(
  annotations: Readonly<Record<string, string>>,
  withTwins: Readonly<Record<string, string>>,
): Scraped {
  const text = (name: keyof Scraped): string =>
    (withTwins[`prometheus.mesh.io/${name}`] ?? annotations[`prometheus.io/${name}`] ?? '').trim();
  return { scrape: scrapeOf(text('scrape')), port: text('port'), path: text('path') };
}

/** `true` and `false` in all spellings; other strings are not changed. */
function scrapeOf(text: string): string {
  try {
    return String(boolean(text));
  } catch {
    return text;
  }
}

/** Why the agent could not scrape the application, if so. */
function problemOf(app: Scraped, annotations: Readonly<Record<string, string>>, ownPort: string): string | undefined {
  if (app.scrape !== 'true') return undefined;
  const field = (name: string): string => `metadata.annotations[prometheus.io/${name}]`;
  const port = /^\d{1,5}$/.test(app.port) ? Number(app.port) : app.port === '' ? 80 : Number.NaN;
  if (!(port >= 1 && port <= 65_535)) return `${field('port')}: expected a port`;
  if (app.port === ownPort && app.path !== AGENT_PATH) return `${field('port')}: ${ownPort} is the port of the agent`;
  if (app.path !== '' && !/^\/[!-~]*$/.test(app.path)) return `${field('path')}: expected a path that begins with /`;
  const scheme = annotations['prometheus.io/scheme'] ?? '';
  return scheme === '' || scheme === 'http' ? undefined : `${field('scheme')}: expected http`;
}

function withAnnotations(pod: PodRecord, { scrape, port, path }: Scraped): PodRecord {
  const metadata = recordOf(pod.metadata);
  // Prometheus would use any of several names that are equal for it.
  const kept = Object.entries(recordOf(metadata.annotations)).filter(
    ([name]) => NAMES.includes(name) || sameForPrometheus(name) === undefined,
  );
  const annotations = {
    ...Object.fromEntries(kept),
    'prometheus.io/scrape': scrape,
    'prometheus.io/port': port,
    'prometheus.io/path': path,
  };
  return { ...pod, metadata: { ...metadata, annotations } };
}
