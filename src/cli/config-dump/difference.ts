/**
 * What differs between the configuration that a proxy should have and what its Envoy has. Pages do this in browsers:
 * it imports nothing of Node.js.
 */
import { addressOf } from './describe.ts';
import {
  asObject,
  at,
  type ConfigDump,
  type DumpedResource,
  type Json,
  type JsonObject,
  listOf,
  type Section,
  textOf,
} from './dump.ts';

export interface Difference {
  readonly section: Section;
  readonly name: string;
  readonly kind: 'not in Envoy' | 'only in Envoy' | 'different';
  /** Paths of fields that differ; the first ones. */
  readonly fields?: readonly string[];
}

/** Envoy's own dump redacts secrets in another form, and has no extensions of other kinds than filters. */
const COMPARED: readonly Section[] = ['clusters', 'listeners', 'routes', 'endpoints'];

/** Fields of one resource that are named. */
const MAX_FIELDS = 10;

/** Sections that one of the dumps does not have are not compared. */
export function differences(wanted: ConfigDump, actual: ConfigDump): Difference[] {
  const sections = COMPARED.filter((section) => wanted.has.has(section) && actual.has.has(section));
  return sections.flatMap((section) => [...inSection(section, byName(wanted[section]), byName(actual[section]))]);
}

function byName(resources: readonly DumpedResource[]): ReadonlyMap<string, DumpedResource> {
  return new Map(resources.filter(({ isStatic }) => !isStatic).map((resource) => [resource.name, resource]));
}

function* inSection(
  section: Section,
  wanted: ReadonlyMap<string, DumpedResource>,
  actual: ReadonlyMap<string, DumpedResource>,
): Generator<Difference> {
  for (const [name, { message }] of wanted) {
    const other = actual.get(name);
    if (other === undefined) yield { section, name, kind: 'not in Envoy' };
    else {
      const compared = section === 'endpoints' ? addresses : sorted;
      const fields = [...changedFields(compared(message), compared(other.message))];
      if (fields.length > 0) yield { section, name, kind: 'different', fields: fields.slice(0, MAX_FIELDS) };
    }
  }
  // Endpoints of clusters without EDS are in Envoy's dump, too.
  if (section === 'endpoints') return;
  for (const name of actual.keys()) if (!wanted.has(name)) yield { section, name, kind: 'only in Envoy' };
}

/** Envoy's dump of endpoints has fields of its own, such as the health that it has found: only addresses are compared. */
function addresses(message: JsonObject): JsonObject {
  const all = listOf(message.endpoints).flatMap((group) => listOf(asObject(group).lbEndpoints));
  const shown = all.map((one) => addressOf(at(one, 'endpoint', 'address'))).map(({ host, port }) => `${host}:${port}`);
  return { addresses: shown.sort() };
}

/** With virtual hosts by name, because those that were discovered have no order. */
function sorted(message: JsonObject): JsonObject {
  if (message.virtualHosts === undefined) return message;
  const name = (host: Json): string => textOf(asObject(host).name);
  const hosts = [...listOf(message.virtualHosts)].sort((a, b) => (name(a) < name(b) ? -1 : 1));
  return { ...message, virtualHosts: hosts };
}

function* changedFields(one: Json | undefined, two: Json | undefined, path = ''): Generator<string> {
  if (one === two) return;
  const [first, second] = [entriesOf(one), entriesOf(two)];
  if (first === undefined || second === undefined) return yield path === '' ? '.' : path;
  for (const key of new Set([...first.keys(), ...second.keys()])) {
    const step = Array.isArray(one) ? `[${key}]` : `${path === '' ? '' : '.'}${key}`;
    yield* changedFields(first.get(key), second.get(key), `${path}${step}`);
  }
}

/** By index or by key; undefined for a scalar. Values of different shapes differ as a whole. */
function entriesOf(value: Json | undefined): ReadonlyMap<string, Json | undefined> | undefined {
  if (Array.isArray(value)) return new Map(value.map((item, index) => [String(index), item]));
  if (typeof value !== 'object' || value === null) return undefined;
  return new Map(Object.entries(value));
}
