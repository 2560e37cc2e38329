/** Kinds as people type them: in any case, singular or plural, short, with or without their API group. */
import { CtlError } from '../../core/errors.ts';
import { didYouMean } from '../../core/nearest.ts';
import { MESH_KINDS, type MeshKind } from './types.ts';

/** The short names of the kinds in kubectl; kinds without one get the first letters of their words. */
const SHORT: Readonly<Record<string, MeshKind>> = {
  ap: 'AuthorizationPolicy',
  dr: 'DestinationRule',
  ef: 'EnvoyFilter',
  gw: 'Gateway',
  pa: 'PeerAuthentication',
  ra: 'RequestAuthentication',
  se: 'ServiceEntry',
  vs: 'VirtualService',
  we: 'WorkloadEntry',
  wg: 'WorkloadGroup',
};

const plural = (name: string): string => (/[^aeiou]y$/.test(name) ? name.replace(/y$/, 'ies') : `${name}s`);

/** A kind's names as a custom resource: `virtualservice`, `virtualservices`, and `vs` where it has a short one. */
export function resourceNames(kind: MeshKind): { singular: string; plural: string; shortNames: string[] } {
  const singular = kind.toLowerCase();
  const shortNames = Object.keys(SHORT).filter((name) => SHORT[name] === kind);
  return { singular, plural: plural(singular), shortNames };
}

const NAMES: ReadonlyMap<string, MeshKind> = new Map([
  ...Object.entries(SHORT),
  ...MESH_KINDS.flatMap((kind) => {
    const name = kind.toLowerCase();
    return [name, plural(name)].map((each): [string, MeshKind] => [each, kind]);
  }),
]);

/** The kind of this name. Throws CtlError `invalid_argument`, which lists the kinds, when there is none. */
export function meshKindNamed(text: string): MeshKind {
  const name = text.toLowerCase().replace(/\.(?:config|networking|security|telemetry)\.(?:mesh|istio)\.io$/, '');
  const kind = NAMES.get(name);
  if (kind !== undefined) return kind;
  const hint = didYouMean(name, MESH_KINDS);
  const known = hint === '' ? `, expected one of ${MESH_KINDS.join(', ')}` : hint;
  throw new CtlError('invalid_argument', `unknown kind ${JSON.stringify(text.slice(0, 80))}${known}`);
}
