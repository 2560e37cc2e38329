/** Asks an API server which kinds that are read it has (Kubernetes documentation, "API discovery"). */

import { CtlError } from '../../core/errors.ts';
import { isObject } from '../../core/objects.ts';
import { ApiError, type KubernetesClient, type ResourceType } from '../../kubernetes/index.ts';
import type { DefinedKinds, ServedType } from './types.ts';

export interface ServedTypes {
  /** One version of each kind that is read and can be listed and watched, by `<plural>.<group>`. */
  readonly types: ReadonlyMap<string, ServedType>;
  /** All resources of their groups, including other kinds, as `<plural>.<group>`. */
  readonly names: ReadonlySet<string>;
}

/** Newest first: all versions of a kind have the same objects. */
const VERSION_ORDER = ['v1', 'v1beta1', 'v1alpha3'];

/** Rejects if any part cannot be read: the missing part could contain any kind. */
export async function readServedTypes(client: KubernetesClient, kinds: DefinedKinds): Promise<ServedTypes> {
  const types = new Map<string, ServedType>();
  const names = new Set<string>();
  const versions = await readVersions(client, kinds);
  const resources = await Promise.all(versions.map(([group, version]) => readVersion(client, group, version)));
  for (const resource of resources.flat()) {
    const name = `${resource.plural}.${resource.group}`;
    names.add(name);
    const kind = resource.isFollowed ? kinds.kindOf(resource) : undefined;
    const known = types.get(name);
    if (kind === undefined || (known !== undefined && orderOf(known.version) <= orderOf(resource.version))) continue;
    const { group, version, plural, namespaced } = resource;
    types.set(name, { group, version, plural, namespaced, kind });
  }
  return { types, names };
}

interface ListedType extends ResourceType {
  /** Whether it can be listed and watched. */
  readonly isFollowed: boolean;
}

/**
 * Versions of the groups. A group counts as absent only if it is not in the list of all groups: a proxy without an
 * available server returns HTTP 404 for every path.
 */
async function readVersions(
  client: KubernetesClient,
  kinds: DefinedKinds,
): Promise<[group: string, version: string][]> {
  const groups = listIn(await client.json({ method: 'GET', path: '/apis' }), 'groups', 'an APIGroupList');
  return groups.flatMap((group) => {
    const name = textIn(group, 'name') ?? '';
    if (!kinds.groups.includes(name)) return [];
    const versions = listIn(group, 'versions', 'an APIGroup').flatMap((version) => textIn(version, 'version') ?? []);
    return versions.map((version): [string, string] => [name, version]);
  });
}

async function readVersion(client: KubernetesClient, group: string, version: string): Promise<ListedType[]> {
  const answer = await orNothing(client.json({ method: 'GET', path: `/apis/${group}/${version}` }));
  if (answer === undefined) return [];
  return listIn(answer, 'resources', 'an APIResourceList').flatMap((resource) => {
    const [plural, kind] = [textIn(resource, 'name'), textIn(resource, 'kind')];
    // A name with a slash is a subresource.
    if (plural === undefined || kind === undefined || plural.includes('/')) return [];
    const verbs = isObject(resource) && Array.isArray(resource.verbs) ? resource.verbs : [];
    const isFollowed = verbs.includes('list') && verbs.includes('watch');
    const namespaced = isObject(resource) && resource.namespaced === true;
    return [{ group, version, plural, kind, namespaced, isFollowed }];
  });
}

/** The response; undefined if the server has no such group or version. */
async function orNothing(answer: Promise<unknown>): Promise<unknown> {
  try {
    return await answer;
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return undefined;
    throw error;
  }
}

function orderOf(version: string): number {
  const index = VERSION_ORDER.indexOf(version);
  return index < 0 ? VERSION_ORDER.length : index;
}

/** Throws CtlError without such a list: the response is not from an API server. */
function listIn(value: unknown, field: string, what: string): readonly unknown[] {
  const list = isObject(value) ? value[field] : undefined;
  if (!Array.isArray(list)) throw new CtlError('unavailable', `expected ${what} with the list ${field}`);
  return list;
}

function textIn(value: unknown, field: string): string | undefined {
  const text = isObject(value) ? value[field] : undefined;
  return typeof text === 'string' ? text : undefined;
}
