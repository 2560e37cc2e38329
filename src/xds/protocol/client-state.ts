/**
 * What a proxy has of one type, as references: "the content of these bundles, except …". In the usual case the
 * exceptions are empty, so that a stream's state does not grow with the mesh.
 */
import type { Bundle, EncodedResource } from '../../push/types.ts';
import { covers, type Interest } from './interest.ts';

/**
 * A resource that the proxy has; the bytes are unknown when only the proxy told us about it
 * (`initial_resource_versions`).
 */
export interface Held {
  readonly version: string;
  readonly resource: EncodedResource | undefined;
}

export interface Have {
  readonly bases: readonly Bundle[];
  /** Exceptions: what the proxy has instead of what the bases say; undefined: it has nothing of that name. */
  readonly overlay: ReadonlyMap<string, Held | undefined>;
}

export const NO_EXCEPTIONS: Have['overlay'] = new Map();

export const HAS_NOTHING: Have = { bases: [], overlay: NO_EXCEPTIONS };

/** Equal to no version: the proxy may have this one or the last good one. */
export const UNKNOWN = '';

export function findIn(bundles: readonly Bundle[], name: string): EncodedResource | undefined {
  for (const bundle of bundles) {
    const resource = bundle.get(name);
    if (resource !== undefined) return resource;
  }
  return undefined;
}

export function heldOf(have: Have, name: string): Held | undefined {
  if (have.overlay.has(name)) return have.overlay.get(name);
  const resource = findIn(have.bases, name);
  return resource === undefined ? undefined : { version: resource.version, resource };
}

export function sameBundles(a: readonly Bundle[], b: readonly Bundle[]): boolean {
  if (a === b) return true;
  if (a.length !== b.length) return false;
  for (let index = 0; index < a.length; index++) if (a[index] !== b[index]) return false;
  return true;
}

/** True when each part continues the same view, so that differences between bundles are cheap. */
export function sameViews(a: readonly Bundle[], b: readonly Bundle[]): boolean {
  if (a.length !== b.length) return false;
  for (let index = 0; index < a.length; index++) if (a[index]?.viewKey !== b[index]?.viewKey) return false;
  return true;
}

export function withOthers({ bases, overlay }: Have, others: ReadonlyMap<string, Held>): Have {
  return { bases, overlay: new Map([...overlay, ...others]) };
}

/** What the proxy has when it lacks these names, whatever the bases say. */
export function lacking(have: Have, names: readonly string[]): Have {
  const missing = names.filter((name) => findIn(have.bases, name) !== undefined);
  if (missing.length === 0) return have;
  const overlay = new Map(have.overlay);
  for (const name of missing) overlay.set(name, undefined);
  return { bases: have.bases, overlay };
}

/** What the proxy has when of these names it may have nothing. */
export function unsure(have: Have, names: readonly string[]): Have {
  const overlay = new Map(have.overlay);
  for (const name of names) {
    const held = heldOf(have, name);
    if (held !== undefined) overlay.set(name, { version: UNKNOWN, resource: held.resource });
  }
  return overlay.size === 0 ? have : { bases: have.bases, overlay };
}

/** The proxy has some version of this name, though it may have been sent another since that it rejected. */
export function hasSome(have: Have, name: string): boolean {
  const held = heldOf(have, name);
  return held !== undefined && (held.version !== UNKNOWN || held.resource !== undefined);
}

/** What the proxy has when of the bases only what `interest` covered was ever sent. */
export function without(have: Have, interest: Interest): Have {
  const names = have.bases.flatMap((bundle) => bundle.resources().map(({ name }) => name));
  return lacking(
    have,
    names.filter((name) => !covers(interest, name)),
  );
}
