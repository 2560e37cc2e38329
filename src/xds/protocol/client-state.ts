/**
 * The resources of one type that a proxy has, as far as the server knows: the content of some bundles, except for a few
 * names. Usually there are no exceptions, so that a stream's memory does not grow with the mesh.
 */
import type { Bundle, EncodedResource } from '../../push/index.ts';
import { covers, type Interest } from './interest.ts';

/**
 * A resource that the proxy has. Its bytes are unknown when only the proxy reported it (`initial_resource_versions`).
 */
export interface KnownResource {
  readonly version: string;
  readonly resource: EncodedResource | undefined;
}

export interface ClientState {
  readonly bases: readonly Bundle[];
  /**
   * Names for which the proxy has something other than the bases; the value is undefined when it has no resource of
   * that name.
   */
  readonly overlay: ReadonlyMap<string, KnownResource | undefined>;
}

export const NO_EXCEPTIONS: ClientState['overlay'] = new Map();

/** One object for none: thousands of proxies have none. */
export function exceptions(entries: Iterable<readonly [string, KnownResource | undefined]>): ClientState['overlay'] {
  const overlay = new Map(entries);
  return overlay.size === 0 ? NO_EXCEPTIONS : overlay;
}

/**
 * The state of a proxy without resources. Compared by identity: a proxy that was updated to empty bundles has a
 * different state object.
 */
export const EMPTY_STATE: ClientState = { bases: [], overlay: NO_EXCEPTIONS };

/** Not equal to any version: the proxy has either the version that was sent last or the last good one. */
export const UNKNOWN_VERSION = '';

export function findResource(bundles: readonly Bundle[], name: string): EncodedResource | undefined {
  for (const bundle of bundles) {
    const resource = bundle.get(name);
    if (resource !== undefined) return resource;
  }
  return undefined;
}

export function knownResource(state: ClientState, name: string): KnownResource | undefined {
  if (state.overlay.has(name)) return state.overlay.get(name);
  const resource = findResource(state.bases, name);
  return resource === undefined ? undefined : { version: resource.version, resource };
}

export function sameBundles(a: readonly Bundle[], b: readonly Bundle[]): boolean {
  if (a === b) return true;
  if (a.length !== b.length) return false;
  for (let index = 0; index < a.length; index++) if (a[index] !== b[index]) return false;
  return true;
}

/** True when each part belongs to the same view as before, so that differences between bundles are cheap. */
export function sameViews(a: readonly Bundle[], b: readonly Bundle[]): boolean {
  if (a.length !== b.length) return false;
  for (let index = 0; index < a.length; index++) if (a[index]?.viewKey !== b[index]?.viewKey) return false;
  return true;
}

export function withResources(
  { bases, overlay }: ClientState,
  resources: ReadonlyMap<string, KnownResource>,
): ClientState {
  return { bases, overlay: new Map([...overlay, ...resources]) };
}

/** The state of a proxy without resources of these names, whatever the bases have. */
export function withoutNames(state: ClientState, names: readonly string[]): ClientState {
  const missing = names.filter((name) => findResource(state.bases, name) !== undefined);
  if (missing.length === 0) return state;
  const overlay = new Map(state.overlay);
  for (const name of missing) overlay.set(name, undefined);
  return { bases: state.bases, overlay };
}

/**
 * The state of a proxy that may have lost the resources with these names.
 * @param sent what may still be on its way to the proxy
 */
export function withUnknownVersions(
  state: ClientState,
  names: readonly string[],
  sent: ReadonlyMap<string, EncodedResource | undefined>,
): ClientState {
  const overlay = new Map(state.overlay);
  for (const name of names) {
    const known = knownResource(state, name);
    const resource = sent.get(name) ?? known?.resource;
    if (known !== undefined || resource !== undefined) overlay.set(name, { version: UNKNOWN_VERSION, resource });
  }
  return overlay.size === 0 ? state : { bases: state.bases, overlay };
}

/** Whether the proxy has any version of the resource, even if it has since rejected a newer one. */
export function hasAnyVersion(state: ClientState, name: string): boolean {
  const known = knownResource(state, name);
  return known !== undefined && (known.version !== UNKNOWN_VERSION || known.resource !== undefined);
}

/** The state of a proxy that was only sent the resources of the bases that `interest` covers. */
export function limitedTo(state: ClientState, interest: Interest): ClientState {
  const names = state.bases.flatMap((bundle) => bundle.resources().map(({ name }) => name));
  return withoutNames(
    state,
    names.filter((name) => !covers(interest, name)),
  );
}

/** Of the exceptions of a state, the resources that the proxy has although they no longer exist. */
export function keptOf({ bases, overlay }: ClientState): ClientState['overlay'] {
  if (overlay.size === 0) return overlay;
  return exceptions(
    [...overlay].filter(([name, known]) => known !== undefined && findResource(bases, name) === undefined),
  );
}
