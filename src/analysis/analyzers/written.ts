/** What documents say as they were written: statuses, deprecated fields, kinds of APIs that no longer exist. */
import { isObject } from '../../core/objects.ts';
import { type AnalyzedMesh, listed } from '../mesh/mesh.ts';
import type { Findings, Manifest } from '../types.ts';

type Fields = Readonly<Record<string, unknown>>;

const recordsOf = (value: unknown): readonly Fields[] => (Array.isArray(value) ? value.filter(isObject) : []);
const fieldsOf = (value: unknown): Fields => (isObject(value) ? value : {});

/** Types of conditions that say, if they are False, that a document does not have its effect; by API group. */
const NEEDED: readonly (readonly [group: RegExp, types: ReadonlySet<string>])[] = [
  [/\.(mesh|istio)\.io\//, new Set(['Reconciled'])],
  [/^gateway\.networking\.k8s\.io\//, new Set(['Accepted', 'Programmed', 'ResolvedRefs'])],
];

/** Statuses that say that the document is not in effect. */
export function* negativeConditions(mesh: AnalyzedMesh): Findings {
  for (const manifest of mesh.allManifests()) {
    yield undefined;
    const { apiVersion, status } = manifest.document;
    const needed = NEEDED.find(([group]) => typeof apiVersion === 'string' && group.test(apiVersion))?.[1];
    if (needed === undefined || !isObject(status)) continue;
    // Those of routes and policies are in the entries of the Gateways that they are attached to.
    const entries = [status, ...recordsOf(status.parents), ...recordsOf(status.ancestors)];
    const conditions = entries.flatMap((entry) => recordsOf(entry.conditions));
    for (const { type, status: state, reason, message } of conditions) {
      if (state !== 'False' || typeof type !== 'string' || !needed.has(type)) continue;
      yield mesh.finding('IST0171', manifest, `its status says ${type} False, ${String(reason)}: ${String(message)}`);
    }
  }
}

/** API groups of Istio of which nothing is read, and what replaced them. */
const GONE: Readonly<Record<string, string>> = {
  'authentication.istio.io': 'PeerAuthentication and RequestAuthentication',
  'rbac.istio.io': 'AuthorizationPolicy',
};

/** Documents of APIs that no longer exist, and fields for which there are others. */
export function* deprecated(mesh: AnalyzedMesh): Findings {
  for (const manifest of mesh.allManifests()) {
    yield undefined;
    const { apiVersion } = manifest.document;
    const group = typeof apiVersion === 'string' ? apiVersion.slice(0, apiVersion.indexOf('/')) : '';
    const instead = Object.hasOwn(GONE, group) ? GONE[group] : undefined;
    if (instead !== undefined)
      yield mesh.finding(
        'IST0002',
        manifest,
        `${group} no longer exists, and the document has no effect; use ${instead}`,
      );
    else if (manifest.kind === 'VirtualService') yield* wholePercents(mesh, manifest);
  }
}

function* wholePercents(mesh: AnalyzedMesh, manifest: Manifest): Findings {
  const places = recordsOf(fieldsOf(manifest.document.spec).http).flatMap((route, index) => {
    const fault = fieldsOf(route.fault);
    return ['delay', 'abort'].flatMap((name) =>
      fieldsOf(fault[name]).percent === undefined ? [] : [`http[${index}].fault.${name}.percent`],
    );
  });
  if (places.length > 0)
    yield mesh.finding('IST0002', manifest, `${listed(places)}: use percentage, which has fractions`);
}
