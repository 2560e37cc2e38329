/** Values that containers and volumes take from the Pod itself: fields, resources and the variables made of them. */
import type { Container, Pod, ResourceReference, ValueSource } from './types.ts';

/** Entries as files of a `downwardAPI` volume have them. */
const lines = (entries: unknown) =>
  Object.entries((entries ?? {}) as Record<string, string>)
    .map(([key, value]) => `${key}=${JSON.stringify(value)}`)
    .join('\n');

/** An entry of labels or annotations: `metadata.labels['app']`. */
const ENTRY = /^metadata\.(labels|annotations)\['([^']+)'\]$/;

/** The value of a `fieldRef`. */
export function fieldOf(pod: Pod, podIP: string, path: string): string {
  const [, group = '', key = ''] = ENTRY.exec(path) ?? [];
  if (group !== '') return ((pod.metadata[group] ?? {}) as Record<string, string>)[key] ?? '';
  const fields: Readonly<Record<string, string | undefined>> = {
    'metadata.name': pod.metadata.name,
    'metadata.namespace': pod.metadata.namespace,
    'metadata.uid': pod.metadata.uid,
    'metadata.labels': lines(pod.metadata.labels),
    'metadata.annotations': lines(pod.metadata.annotations),
    'spec.nodeName': pod.spec.nodeName,
    'spec.serviceAccountName': pod.spec.serviceAccountName ?? 'default',
    'status.podIP': podIP,
    'status.podIPs': podIP,
    'status.hostIP': podIP,
  };
  const value = fields[path];
  if (value === undefined) throw new Error(`the simulated kubelet knows no fieldRef ${path}`);
  return value;
}

/** What a container without a limit gets: all of the node. */
const NODE = { cpu: '2', memory: '4Gi', 'ephemeral-storage': '8Gi' } as const;

/** Suffixes of quantities (k8s.io/apimachinery, resource.Quantity). */
const SUFFIXES: Readonly<Record<string, number>> = {
  '': 1,
  m: 1e-3,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
};

function quantity(text: string): number {
  const [, number = '', suffix = ''] = /^([\d.]+)(\w*)$/.exec(text) ?? [];
  const factor = SUFFIXES[suffix];
  if (number === '' || factor === undefined) throw new Error(`the simulated kubelet knows no quantity ${text}`);
  return Number(number) * factor;
}

/** The value of a `resourceFieldRef`: in units of its divisor, rounded up. */
export function resourceOf(
  pod: Pod,
  own: Container | undefined,
  { containerName, resource, divisor = '1' }: ResourceReference,
): string {
  const all = [...(pod.spec.initContainers ?? []), ...pod.spec.containers];
  const container = containerName === undefined ? own : all.find(({ name }) => name === containerName);
  const [, kind = '', name = ''] = /^(limits|requests)\.([\w-]+)$/.exec(resource) ?? [];
  if (container === undefined || !Object.hasOwn(NODE, name))
    throw new Error(`the simulated kubelet knows no resourceFieldRef ${resource}`);
  const { limits, requests } = container.resources ?? {};
  const text = kind === 'limits' ? (limits?.[name] ?? NODE[name as keyof typeof NODE]) : (requests?.[name] ?? '0');
  // The default divisor is 0 in the API, which means 1.
  const unit = quantity(divisor) || 1;
  return String(Math.ceil(Number((quantity(text) / unit).toFixed(6))));
}

/** Reads a key of a ConfigMap or Secret; undefined when it is optional and missing. */
export type ReadKey = (
  kind: 'configmaps' | 'secrets',
  name: string,
  key: string,
  optional: boolean,
) => Promise<string | undefined>;

async function sourced(
  pod: Pod,
  container: Container,
  podIP: string,
  { fieldRef, resourceFieldRef, configMapKeyRef, secretKeyRef }: ValueSource,
  read: ReadKey,
): Promise<string | undefined> {
  if (fieldRef !== undefined) return fieldOf(pod, podIP, fieldRef.fieldPath);
  if (resourceFieldRef !== undefined) return resourceOf(pod, container, resourceFieldRef);
  const key = configMapKeyRef ?? secretKeyRef;
  if (key === undefined) throw new Error('the simulated kubelet knows no such source of a variable');
  const kind = configMapKeyRef === undefined ? 'secrets' : 'configmaps';
  return read(kind, key.name, key.key, key.optional ?? false);
}

/** `$(NAME)`, and `$$(NAME)` for that text itself. */
const REFERENCE = /\$(\$?)\((\w+)\)/g;

/** Replaces references to variables that are defined. */
export function expand(text: string, env: Readonly<Record<string, string>>): string {
  return text.replace(REFERENCE, (all, escaped: string, name: string) =>
    escaped === '' ? (env[name] ?? all) : all.slice(1),
  );
}

/** The variables of a container, in their order: each may refer to those before it. */
export async function environmentOf(
  pod: Pod,
  container: Container,
  podIP: string,
  read: ReadKey,
): Promise<Record<string, string>> {
  const env: Record<string, string> = {};
  for (const { name, value = '', valueFrom } of container.env ?? []) {
    const found = valueFrom === undefined ? expand(value, env) : await sourced(pod, container, podIP, valueFrom, read);
    if (found !== undefined) env[name] = found;
  }
  return env;
}
