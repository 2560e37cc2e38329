/**
 * Route configurations without references to withheld clusters. A route configuration has the virtual hosts of many
 * documents: only those that name such a cluster keep their accepted version, so that the document of one tenant does
 * not hold back the routes of others.
 */
import { WireReader } from '../../protobuf/wire/index.ts';
import { contentVersion, encodeResource, resourceMessage } from '../bundles/index.ts';
import type { EncodedResource } from '../types.ts';

/** Fields of envoy.config.route.v3.RouteConfiguration and VirtualHost. */
const VIRTUAL_HOSTS = 2;
const NAME = 1;
const DOMAINS = 2;

/** A field of a route configuration. */
interface Field {
  /** With its tag. */
  readonly bytes: Buffer;
  /** Of a virtual host. */
  readonly host: { readonly name: string; readonly domains: readonly string[] } | undefined;
}

export interface KeptHosts {
  readonly resource: EncodedResource;
  /** Names of the virtual hosts that are not those of the route configuration that was generated. */
  readonly hosts: readonly string[];
}

/**
 * The route configuration with the accepted version of the virtual hosts that name one of these clusters, and without
 * them where there is none. Undefined when that is impossible: something else names them, or two virtual hosts would
 * have a domain in common, which Envoy rejects.
 */
export function withKeptHosts(
  made: EncodedResource,
  accepted: EncodedResource | undefined,
  clusters: readonly string[],
): KeptHosts | undefined {
  const names = (bytes: Buffer): boolean => clusters.some((cluster) => bytes.includes(cluster));
  const known = new Map<string, Field>();
  for (const field of accepted === undefined ? [] : fieldsOf(accepted))
    if (field.host !== undefined && !names(field.bytes)) known.set(field.host.name, field);
  const kept: Field[] = [];
  const hosts: string[] = [];
  for (const field of fieldsOf(made)) {
    if (!names(field.bytes)) {
      kept.push(field);
      continue;
    }
    if (field.host === undefined) return undefined;
    hosts.push(field.host.name);
    const before = known.get(field.host.name);
    if (before !== undefined) kept.push(before);
  }
  const domains = kept.flatMap(({ host }) => host?.domains ?? []);
  if (new Set(domains).size < domains.length) return undefined;
  const message = Buffer.concat(kept.map(({ bytes }) => bytes));
  return { resource: encodeResource('rds', made.name, contentVersion(message), message, made.refs), hosts };
}

function fieldsOf(resource: EncodedResource): Field[] {
  const message = Buffer.from(resourceMessage(resource));
  const reader = new WireReader(message);
  const fields: Field[] = [];
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    const { number, tag, end } = field;
    const host = number === VIRTUAL_HOSTS ? hostOf(reader.inside(field)) : undefined;
    fields.push({ bytes: message.subarray(tag, end), host });
  }
  return fields;
}

function hostOf(reader: WireReader): Field['host'] {
  let name = '';
  const domains: string[] = [];
  for (let field = reader.next(); field !== undefined; field = reader.next()) {
    if (field.number === NAME) name = reader.text(field);
    else if (field.number === DOMAINS) domains.push(reader.text(field));
  }
  return { name, domains };
}
