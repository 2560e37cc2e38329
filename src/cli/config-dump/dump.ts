/**
 * Reads a configuration dump: that of the control plane (`/debug/config_dump`) or of an Envoy (`/config_dump`). Field
 * names are in snake case or in camel case, as proto3 JSON permits; what this file returns has camel case.
 */
import { CtlError } from '../../core/errors.ts';

export type Json = string | number | boolean | null | readonly Json[] | JsonObject;
export interface JsonObject {
  readonly [key: string]: Json | undefined;
}

/** A cluster, listener, route configuration, load assignment, secret or extension. */
export interface DumpedResource {
  readonly name: string;
  readonly version: string;
  /** Part of Envoy's bootstrap: no control plane has sent it. */
  readonly isStatic: boolean;
  readonly message: JsonObject;
}

export const SECTIONS = ['clusters', 'listeners', 'routes', 'endpoints', 'secrets', 'extensions'] as const;
export type Section = (typeof SECTIONS)[number];

export interface ConfigDump extends Readonly<Record<Section, readonly DumpedResource[]>> {
  /** Sections that the dump has, empty or not: Envoy leaves endpoints out unless it is asked for them. */
  readonly has: ReadonlySet<Section>;
  /** Undefined in the dump of the control plane. */
  readonly bootstrap: JsonObject | undefined;
}

/** Levels of nesting; those of Envoy's messages are fewer. */
const MAX_DEPTH = 300;

/** Where each message is in its section: list, wrapper of its state, field, field of its name. */
interface Place {
  readonly list: string;
  readonly field: string;
  readonly name: string;
  /** Listeners have their message in one of these. */
  readonly states?: readonly string[];
}

const PLACES: Readonly<Record<string, { readonly section: Section; readonly places: readonly Place[] }>> = {
  ClustersConfigDump: { section: 'clusters', places: placesOf('Clusters', 'cluster', 'name') },
  ListenersConfigDump: {
    section: 'listeners',
    places: [
      { list: 'staticListeners', field: 'listener', name: 'name' },
      { list: 'dynamicListeners', field: 'listener', name: 'name', states: ['activeState', 'warmingState'] },
    ],
  },
  RoutesConfigDump: {
    section: 'routes',
    places: ['staticRouteConfigs', 'dynamicRouteConfigs'].map((list) => ({ list, field: 'routeConfig', name: 'name' })),
  },
  EndpointsConfigDump: {
    section: 'endpoints',
    places: ['staticEndpointConfigs', 'dynamicEndpointConfigs'].map((list) => ({
      list,
      field: 'endpointConfig',
      name: 'clusterName',
    })),
  },
  SecretsConfigDump: { section: 'secrets', places: placesOf('Secrets', 'secret', 'name') },
  EcdsConfigDump: {
    section: 'extensions',
    places: [{ list: 'ecdsFilters', field: 'ecdsFilter', name: 'name' }],
  },
};

function placesOf(plural: string, field: string, name: string): Place[] {
  return [`static${plural}`, `dynamicActive${plural}`, `dynamicWarming${plural}`].map((list) => ({
    list,
    field,
    name,
  }));
}

/** Throws CtlError when the JSON is not a configuration dump. */
export function readDump(json: unknown): ConfigDump {
  const { configs } = asObject(camelCased(json));
  if (!Array.isArray(configs)) throw new CtlError('invalid_argument', 'expected a config_dump: it has no "configs"');
  const dump = Object.fromEntries(SECTIONS.map((section) => [section, [] as DumpedResource[]])) as unknown as Record<
    Section,
    DumpedResource[]
  >;
  const has = new Set<Section>();
  let bootstrap: JsonObject | undefined;
  for (const config of configs.map(asObject)) {
    const type = textOf(config['@type']).replace(/^.*\./, '');
    if (type === 'BootstrapConfigDump') bootstrap = asObject(config.bootstrap);
    const found = Object.hasOwn(PLACES, type) ? PLACES[type] : undefined;
    if (found === undefined) continue;
    has.add(found.section);
    for (const place of found.places) dump[found.section].push(...resourcesAt(config, place));
  }
  return { ...dump, has, bootstrap };
}

function* resourcesAt(config: JsonObject, { list, field, name, states }: Place): Generator<DumpedResource> {
  for (const entry of listOf(config[list])) {
    const outer = asObject(entry);
    const state = states === undefined ? outer : states.map((key) => outer[key]).find((one) => one !== undefined);
    const { versionInfo, [field]: message } = asObject(state);
    if (message === undefined) continue;
    const content = asObject(message);
    yield {
      name: textOf(content[name]) || textOf(outer.name),
      version: textOf(versionInfo),
      isStatic: list.startsWith('static'),
      message: content,
    };
  }
}

/** `{}` for anything else. */
export function asObject(value: Json | undefined): JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonObject) : {};
}

/** `[]` for anything else. */
export function listOf(value: Json | undefined): readonly Json[] {
  return Array.isArray(value) ? value : [];
}

/** '' for anything else. */
export function textOf(value: Json | undefined): string {
  return typeof value === 'string' || typeof value === 'number' ? String(value) : '';
}

/** The value at a path of fields. */
export function at(value: Json | undefined, ...path: readonly string[]): Json | undefined {
  return path.reduce<Json | undefined>((from, key) => asObject(from)[key], value);
}

function camelCased(value: unknown, depth = 0): Json {
  if (depth > MAX_DEPTH) throw new CtlError('invalid_argument', `expected at most ${MAX_DEPTH} levels of nesting`);
  if (Array.isArray(value)) return value.map((item) => camelCased(item, depth + 1));
  if (typeof value !== 'object' || value === null) return value as Json;
  const entries = Object.entries(value).map(([key, item]) => [camelCase(key), camelCased(item, depth + 1)] as const);
  return Object.fromEntries(entries);
}

/** Keys of maps, such as names of filters, keep their dots and dashes. */
function camelCase(key: string): string {
  if (!/^[a-z][a-z0-9]*(?:_[a-z0-9]+)+$/.test(key)) return key;
  return key.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
}
