/**
 * What the catalogue's answers contain, as far as it is read: names of services, checks, instances of a service
 * (https://developer.hashicorp.com/consul/api-docs/health). The bytes are an outsider's: everything else is ignored.
 */
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
  readonly tags: readonly string[];
  readonly meta: ReadonlyMap<string, string>;
  readonly weights: Weights;
  /** The worst state of its checks when it was read. */
  readonly critical: boolean;
  readonly warning: boolean;
}

/** Tags and metadata of one instance beyond this are ignored. Consul itself allows 64 pairs of metadata. */
const MAX_TAGS = 256;
const MAX_META = 128;

/** Undefined for what is no check. */
export function checkOf(value: unknown): Check | undefined {
  if (!isObject(value)) return undefined;
  const { Node, ServiceID, ServiceName, Status, ServiceTags } = value;
  if (typeof Node !== 'string' || typeof Status !== 'string') return undefined;
  return {
    node: Node,
    serviceId: textOf(ServiceID),
    serviceName: textOf(ServiceName),
    status: Status,
    tags: strings(ServiceTags),
  };
}

/** Undefined for what is no instance. */
export function registrationOf(value: unknown): Registration | undefined {
  if (!isObject(value) || !isObject(value.Node) || !isObject(value.Service)) return undefined;
  const { Node: node, Service: service } = value;
  if (typeof node.Node !== 'string' || typeof service.ID !== 'string') return undefined;
  const checks = Array.isArray(value.Checks) ? value.Checks.flatMap((each) => checkOf(each) ?? []) : [];
  return {
    datacenter: textOf(node.Datacenter),
    node: node.Node,
    id: service.ID,
    address: textOf(service.Address) || textOf(node.Address),
    port: typeof service.Port === 'number' && Number.isInteger(service.Port) ? service.Port : 0,
    kind: textOf(service.Kind),
    tags: strings(service.Tags),
    meta: metaOf(service.Meta),
    weights: weightsOf(service.Weights),
    critical: checks.some(({ status }) => status === 'critical'),
    warning: checks.some(({ status }) => status === 'warning'),
  };
}

/** The tags of a service in the list of services, in a form that differs when they do. */
export function tagsSignature(value: unknown): string {
  return JSON.stringify(strings(value).toSorted());
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function strings(value: unknown): readonly string[] {
  if (!Array.isArray(value)) return [];
  return value.filter((each): each is string => typeof each === 'string').slice(0, MAX_TAGS);
}

function metaOf(value: unknown): ReadonlyMap<string, string> {
  if (!isObject(value)) return new Map();
  const entries = Object.entries(value).slice(0, MAX_META);
  return new Map(entries.flatMap(([key, text]) => (typeof text === 'string' ? [[key, text]] : [])));
}

function weightsOf(value: unknown): Weights {
  const { Passing, Warning } = isObject(value) ? value : {};
  return { passing: weightOf(Passing), warning: weightOf(Warning) };
}

/** Consul allows 0 to 65,535, and 1 is its default. */
function weightOf(value: unknown): number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= 65_535 ? value : 1;
}
