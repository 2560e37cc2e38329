/**
 * Merges two pieces of a Pod: what the second has takes precedence. Objects are merged field by field, and lists of
 * objects with a key (containers by name, variables by name, mounts by path) entry by entry, as the API server does
 * with a strategic merge patch. Fields of which only one may be set (the handlers of a probe, the source of a volume)
 * are never combined. Parts that do not change are the same objects as before.
 */
import { isObject } from '../../core/objects.ts';
import type { PodRecord } from './pod-shape.ts';

interface ListRule {
  /** What identifies an entry; undefined: nothing, the entry is kept. */
  readonly key: (entry: PodRecord) => string | undefined;
  /** How two entries with one key are merged: field by field, or the second wins. */
  readonly merge: 'fields' | 'second';
  /** The position of entries that only the first list has. */
  readonly first: 'before' | 'after';
}

/** `before`: the mesh's variables precede those of the user, which can then refer to them (`$(POD_NAME)`). */
function byField(field: string, merge: ListRule['merge'] = 'second', first: ListRule['first'] = 'before'): ListRule {
  return { key: (entry) => (typeof entry[field] === 'string' ? entry[field] : undefined), merge, first };
}

/** Lists by the name of their field, with the merge keys of the Pod's API. Other lists: the second wins. */
const LISTS: Readonly<Record<string, ListRule>> = {
  containers: byField('name', 'fields', 'after'),
  initContainers: byField('name', 'fields', 'after'),
  volumes: byField('name', 'second', 'after'),
  imagePullSecrets: byField('name', 'second', 'after'),
  hostAliases: byField('ip', 'second', 'after'),
  resourceClaims: byField('name', 'second', 'after'),
  schedulingGates: byField('name', 'second', 'after'),
  topologySpreadConstraints: {
    key: ({ topologyKey, whenUnsatisfiable }) => JSON.stringify([topologyKey, whenUnsatisfiable]),
    merge: 'second',
    first: 'after',
  },
  env: byField('name'),
  volumeMounts: byField('mountPath'),
  volumeDevices: byField('devicePath'),
  ports: {
    key: ({ containerPort, protocol }) => JSON.stringify([containerPort, protocol ?? 'TCP']),
    merge: 'second',
    first: 'before',
  },
};

/** Objects of which the second wins as a whole: they are a choice between their fields. */
const CHOICES: ReadonlySet<string> = new Set([
  'appArmorProfile',
  'postStart',
  'preStop',
  'seccompProfile',
  'nodeAffinity',
  'podAffinity',
  'podAntiAffinity',
]);

const PROBES: ReadonlySet<string> = new Set(['livenessProbe', 'readinessProbe', 'startupProbe']);
const HANDLERS: readonly string[] = ['exec', 'grpc', 'httpGet', 'tcpSocket'];

/** What `second` has takes precedence over what `first` has. Neither is changed. */
export function mergePods(first: PodRecord, second: PodRecord): PodRecord {
  return mergeFields(first, second);
}

function mergeFields(first: PodRecord, second: PodRecord): PodRecord {
  const changed: [string, unknown][] = [];
  for (const [name, value] of Object.entries(first)) {
    const merged = Object.hasOwn(second, name) ? mergeValue(name, value, second[name]) : value;
    if (merged !== second[name] || !Object.hasOwn(second, name)) changed.push([name, merged]);
  }
  if (changed.length === 0) return second;
  // The order of the second's fields stays.
  return Object.fromEntries(new Map([...Object.entries(second), ...changed]));
}

function mergeValue(name: string, first: unknown, second: unknown): unknown {
  if (second === null || second === undefined) return first;
  // `auto` is the image of the template.
  if (name === 'image' && (second === 'auto' || second === '') && typeof first === 'string') return first;
  if (Array.isArray(first) && Array.isArray(second)) {
    const rule = Object.hasOwn(LISTS, name) ? LISTS[name] : undefined;
    return rule === undefined ? second : mergeLists(rule, first, second);
  }
  if (!isObject(first) || !isObject(second) || CHOICES.has(name)) return second;
  if (PROBES.has(name) && HANDLERS.some((handler) => isObject(second[handler]))) {
    const kept = Object.entries(first).filter(([field]) => !HANDLERS.includes(field));
    return mergeFields(Object.fromEntries(kept), second);
  }
  return mergeFields(first, second);
}

/**
 * Without the pull policy of `image: auto`: the API server has set it, `Always` for an image without a tag, and sets
 * that of the image of the template again.
 */
function ofTemplate(container: PodRecord): PodRecord {
  const { imagePullPolicy, ...others } = container;
  return container.image === 'auto' && imagePullPolicy === 'Always' ? others : container;
}

function mergeLists(rule: ListRule, first: readonly unknown[], second: readonly unknown[]): readonly unknown[] {
  const key = (entry: unknown): string | undefined => (isObject(entry) ? rule.key(entry) : undefined);
  const known = new Map(first.map((entry) => [key(entry), entry]));
  known.delete(undefined);
  const present = new Set<string>();
  let isChanged = false;
  const kept = second.map((entry) => {
    const found = key(entry);
    if (found !== undefined) present.add(found);
    const below = found === undefined ? undefined : known.get(found);
    if (rule.merge === 'second' || !isObject(below) || !isObject(entry)) return entry;
    const merged = mergeFields(below, ofTemplate(entry));
    isChanged ||= merged !== entry;
    return merged;
  });
  const missing = first.filter((entry) => {
    const found = key(entry);
    return found === undefined || !present.has(found);
  });
  if (missing.length === 0) return isChanged ? kept : second;
  return rule.first === 'before' ? [...missing, ...kept] : [...kept, ...missing];
}
