/**
 * What the catalogue's answers contain, as far as it is read: names of services, checks, instances of a service
 * (https://developer.hashicorp.com/consul/api-docs/health). The bytes are an outsider's: everything else is ignored.
 */
import { hash } from 'node:crypto';
import { isObject } from '../../core/objects.ts';

/** The states in which a check changes how its instance is used; all others count as passing. */
export type BadState = 'critical' | 'warning';

/** A check. Without a service it concerns all services of its node. */
export interface Check {
  readonly node: string;
  readonly serviceId: string;
  readonly serviceName: string;
  readonly status: string;
  readonly tags: readonly string[];
}

export interface Weights {
  readonly passing: number;
  readonly warning: number;
}

/** A registered instance of a service. */
export interface Registration {
  readonly datacenter: string;
  readonly node: string;
  readonly id: string;
  /** As registered; that of the node if the service has none. */
  readonly address: string;
  /** 0: none. */
  readonly port: number;
  /** `connect-proxy`, `mesh-gateway` and others; '' for a service. */
  readonly kind: string;
  /** Those that can be labels, `key|value`. */
  readonly tags: readonly string[];
  /** Of the keys in `META`. */
  readonly meta: ReadonlyMap<string, string>;
  readonly weights: Weights;
  /** The worst state of its checks when it was read. */
  readonly critical: boolean;
  readonly warning: boolean;
}

/** The keys of metadata of an instance that are read, as in Istio 1.7 or, the last two, beyond it. */
export const META = {
  protocol: 'protocol',
  external: 'external',
  serviceAccount: 'service-account',
  servicePort: 'service-port',
} as const;

/** Tags of one instance beyond this are ignored. */
const MAX_TAGS = 256;
/** Characters that are kept. The longest label has 381, the longest value of metadata that is valid has 253. */
const MAX_TAG = 400;
const MAX_META = 256;
/** Names of datacenters that are regions have at most 63, kinds are compared with none. */
const MAX_WORD = 64;
/** Longest node, identifier and address, in characters. Names of hosts have at most 253. */
export const MAX_NAME = 512;

/** Undefined for what is no check, and for a check of an instance whose names are too long. */
export function checkOf(value: unknown): Check | undefined {
  if (!isObject(value)) return undefined;
  const { Node, ServiceID, ServiceName, Status, ServiceTags } = value;
  if (typeof Node !== 'string' || typeof Status !== 'string') return undefined;
  const [serviceId, serviceName] = [textOf(ServiceID), textOf(ServiceName)];
  if ([Node, serviceId, serviceName].some(isTooLong)) return undefined;
  return { node: Node, serviceId, serviceName, status: Status, tags: labelTags(ServiceTags) };
}

/** Undefined for what is no instance. `'too long'`: its node, identifier or address is. */
export function registrationOf(value: unknown): Registration | 'too long' | undefined {
  if (!isObject(value) || !isObject(value.Node) || !isObject(value.Service)) return undefined;
  const { Node: node, Service: service } = value;
  if (typeof node.Node !== 'string' || typeof service.ID !== 'string') return undefined;
  const address = textOf(service.Address) || textOf(node.Address);
  if ([node.Node, service.ID, address].some(isTooLong)) return 'too long';
  const checks = Array.isArray(value.Checks) ? value.Checks.flatMap((each) => checkOf(each) ?? []) : [];
  return {
    datacenter: cut(textOf(node.Datacenter), MAX_WORD),
    node: node.Node,
    id: service.ID,
    address,
    port: typeof service.Port === 'number' && Number.isInteger(service.Port) ? service.Port : 0,
    kind: cut(textOf(service.Kind), MAX_WORD),
    tags: labelTags(service.Tags),
    meta: metaOf(service.Meta),
    weights: weightsOf(service.Weights),
    critical: checks.some(({ status }) => status === 'critical'),
    warning: checks.some(({ status }) => status === 'warning'),
  };
}

/** A hash of the name of a service and its tags in the list of services, in any order. */
export function tagsSignature(name: string, tags: unknown): string {
  return hash('sha256', JSON.stringify([name, ...strings(tags).toSorted()]), 'base64url');
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function strings(value: unknown): readonly string[] {
  if (!Array.isArray(value)) return [];
  return value.filter((each): each is string => typeof each === 'string');
}

function labelTags(value: unknown): readonly string[] {
  const tags = strings(value).filter((tag) => tag.slice(0, MAX_TAG).includes('|'));
  return tags.slice(0, MAX_TAGS).map((tag) => cut(tag, MAX_TAG));
}

function metaOf(value: unknown): ReadonlyMap<string, string> {
  if (!isObject(value)) return new Map();
  return new Map(
    Object.values(META).flatMap((key) => {
      const written = Object.hasOwn(value, key) ? value[key] : undefined;
      return typeof written === 'string' ? [[key, cut(written, MAX_META)]] : [];
    }),
  );
}

function isTooLong(name: string): boolean {
  return name.length > MAX_NAME;
}

/** The first characters, as a copy: a part of a string keeps the whole string in memory. */
function cut(written: string, most: number): string {
  return written.length <= most ? written : Buffer.from(written.slice(0, most)).toString();
}

function weightsOf(value: unknown): Weights {
  const { Passing, Warning } = isObject(value) ? value : {};
  return { passing: weightOf(Passing), warning: weightOf(Warning) };
}

/** Consul allows 0 to 65,535, and 1 is its default. */
function weightOf(value: unknown): number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= 65_535 ? value : 1;
}
