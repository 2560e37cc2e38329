/**
 * `/debug/proxyz`: what one proxy should have, a screen at a time: the number of its resources by type, a list of one
 * type, one resource with what it was generated from, and what differs from another proxy, or from what it should have
 * had some minutes ago.
 */
import { CtlError } from '../core/errors.ts';
import { XDS, XDS_TYPES, type XdsType } from '../core/xds-types.ts';
import type { Bundle, ConnectionStatus, EncodedResource } from '../push/index.ts';
import type { ResourceKey } from '../resources/index.ts';
import { onDemandOf } from './held.ts';
import { numberOf } from './numbers.ts';
import { decoded, resourcesOf } from './proxies.ts';
import { rowOf } from './proxy-table.ts';
import type { ProxyDetail, ProxyDifference, ProxyResource, ProxyResources } from './shapes.ts';
import type { Viewed } from './viewed.ts';

const DEFAULT_ROWS = 100;
const MAX_ROWS = 1000;
/** The number of documents and of references that one answer names. */
const MAX_NAMED = 100;

/**
 * `?proxyID=`, with `&type=lds` a list (`&search=`, `&start=`, `&limit=`), with `&name=` one resource, with `&versus=`
 * or `&at=` a difference.
 */
export function proxyz(
  mesh: Viewed,
  connection: ConnectionStatus,
  query: URLSearchParams,
  other: ConnectionStatus | undefined,
): ProxyDetail | ProxyResources | ProxyResource | ProxyDifference | undefined {
  const type = typeIn(query);
  if (type === undefined) return detail(mesh, connection);
  const name = query.get('name');
  const at = query.get('at');
  if (at !== null) {
    const then = mesh.earlierParts(connection, Number(at), type);
    if (then === undefined)
      throw new CtlError('invalid_argument', `at=${at.slice(0, 50)}: nothing is kept of this moment`);
    return name === null ? difference(mesh.parts(connection, type), then) : earlierResource(then, type, name);
  }
  if (name !== null) return oneResource(mesh, connection, type, name);
  if (other !== undefined) return differenceOfProxies(mesh, type, connection, other);
  return listed(mesh, connection, type, query);
}

function typeIn(query: URLSearchParams): XdsType | undefined {
  const text = query.get('type') ?? '';
  if (text === '') return undefined;
  const type = XDS_TYPES.find((known) => known === text);
  if (type !== undefined) return type;
  throw new CtlError('invalid_argument', `unknown type ${text.slice(0, 50)}, expected one of ${XDS_TYPES.join(', ')}`);
}

function detail(mesh: Viewed, connection: ConnectionStatus): ProxyDetail {
  const isOnDemand = mesh.held(connection) !== undefined;
  const counts = XDS_TYPES.map((type) => ({
    type,
    noun: XDS[type].noun,
    resources: mesh.parts(connection, type).reduce((sum, { size }) => sum + size, 0),
    ...(isOnDemand && { askable: mesh.askable(connection, type).length }),
  }));
  const { addresses, labels, network, serviceAccount } = connection.node;
  return {
    proxy: rowOf(connection, mesh.configurationOf(connection)),
    node: { addresses, labels, network, serviceAccount, peer: connection.peer },
    types: counts.filter(({ resources, askable = 0 }) => resources + askable > 0),
    moments: mesh.earlierMoments(connection),
  };
}

function listed(mesh: Viewed, connection: ConnectionStatus, type: XdsType, query: URLSearchParams): ProxyResources {
  const search = (query.get('search') ?? '').toLowerCase();
  const [start, limit] = [numberOf(query, 'start', 0), Math.min(MAX_ROWS, numberOf(query, 'limit', DEFAULT_ROWS))];
  const isAskable = query.get('askable') === 'true';
  const all = isAskable ? mesh.askable(connection, type) : resourcesOf(mesh, connection, type);
  const matching = all.filter(({ name }) => name.toLowerCase().includes(search));
  return {
    matching: matching.length,
    ...(start + limit < matching.length && { next: start + limit }),
    resources: matching.slice(start, start + limit).map(({ name, version }) => ({ name, version })),
  };
}

function oneResource(
  mesh: Viewed,
  connection: ConnectionStatus,
  type: XdsType,
  name: string,
): ProxyResource | undefined {
  const parts = [...mesh.parts(connection, type), ...mesh.everything(connection, type)];
  const resource = resourceIn(parts, name);
  if (resource === undefined) return undefined;
  const reasons = mesh.reasonsFor(connection, name).filter((reason) => reason.type === type);
  const content = decoded(type, resource);
  const read = reasons.flatMap((reason) => reason.documents);
  const documents = [...new Set([...documentsIn(content), ...read])].slice(0, MAX_NAMED);
  return {
    name,
    version: resource.version,
    refs: resource.refs.slice(0, MAX_NAMED),
    madeBy: documents.map((key) => {
      const [inForce] = mesh.documents(key);
      return { key, ...(inForce !== undefined && { origin: inForce.resource.origin }) };
    }),
    ...onDemandOf(mesh, connection, type, name),
    content,
  };
}

/** Documents may have changed since: what it was generated from is not told. */
function earlierResource(parts: readonly Bundle[], type: XdsType, name: string): ProxyResource | undefined {
  const resource = resourceIn(parts, name);
  if (resource === undefined) return undefined;
  const { version, refs } = resource;
  return { name, version, refs: refs.slice(0, MAX_NAMED), madeBy: [], content: decoded(type, resource) };
}

function resourceIn(parts: readonly Bundle[], name: string): EncodedResource | undefined {
  return parts.map((bundle) => bundle.get(name)).find((each) => each !== undefined);
}

/** The name of a document in metadata of clusters and routes (`filter_metadata.istio.config`). */
const CONFIG = /^\/apis\/[^/]+\/[^/]+\/namespaces\/([^/]+)\/([a-z-]+)\/([^/]+)$/;

/** The documents that a message names as those that made its parts. */
export function documentsIn(content: unknown, found = new Set<ResourceKey>()): Set<ResourceKey> {
  if (typeof content !== 'object' || content === null || found.size >= MAX_NAMED) return found;
  for (const [field, value] of Object.entries(content)) {
    const [, namespace, kind = '', name] =
      (field === 'config' && typeof value === 'string' && CONFIG.exec(value)) || [];
    if (name === undefined) documentsIn(value, found);
    else found.add(`${kind.replaceAll(/(?:^|-)([a-z])/g, (_, letter) => letter.toUpperCase())}/${namespace}/${name}`);
  }
  return found;
}

/** What one of them has not asked for yet does not count as missing there. */
function differenceOfProxies(
  mesh: Viewed,
  type: XdsType,
  one: ConnectionStatus,
  other: ConnectionStatus,
): ProxyDifference {
  const [here, there] = [mesh.parts(one, type), mesh.parts(other, type)];
  if (mesh.held(one) === undefined && mesh.held(other) === undefined) return difference(here, there);
  const without = (parts: readonly Bundle[], connection: ConnectionStatus) => {
    const names = new Set(mesh.askable(connection, type).map(({ name }) => name));
    const all = parts.flatMap((bundle) => bundle.resources());
    const kept = all.filter(({ name }) => !names.has(name) && !mesh.isLater(connection, type, name));
    return { kept, left: all.length - kept.length };
  };
  const [ofHere, ofThere] = [without(here, other), without(there, one)];
  return {
    ...differenceOf(ofHere.kept, ofThere.kept),
    askable: { here: ofThere.left, there: ofHere.left },
  };
}

/** Equal versions are equal bytes. */
function difference(one: readonly Bundle[], other: readonly Bundle[]): ProxyDifference {
  const resources = (parts: readonly Bundle[]) => parts.flatMap((bundle) => bundle.resources());
  return differenceOf(resources(one), resources(other));
}

function differenceOf(one: readonly EncodedResource[], other: readonly EncodedResource[]): ProxyDifference {
  const versions = (resources: readonly EncodedResource[]) =>
    new Map(resources.map(({ name, version }) => [name, version] as const));
  const [here, there] = [versions(one), versions(other)];
  const onlyHere = [...here.keys()].filter((name) => !there.has(name));
  const onlyThere = [...there.keys()].filter((name) => !here.has(name));
  const changed = [...here].flatMap(([name, version]) =>
    there.has(name) && there.get(name) !== version ? [name] : [],
  );
  return {
    same: here.size - onlyHere.length - changed.length,
    counts: { changed: changed.length, onlyHere: onlyHere.length, onlyThere: onlyThere.length },
    changed: changed.slice(0, MAX_NAMED),
    onlyHere: onlyHere.slice(0, MAX_NAMED),
    onlyThere: onlyThere.slice(0, MAX_NAMED),
  };
}
