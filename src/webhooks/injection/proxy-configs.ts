/**
 * The ProxyConfigs of a Pod. As in Istio, the oldest document takes effect of those for all Pods of the mesh, of those
 * for all Pods of the namespace, and of those that select the Pod. One that selects the Pod overrides the Pod's
 * annotation; the others are overridden by it.
 */
import type { ProxyConfigDocument, ProxyConfigDocuments } from '../types.ts';

export const NO_PROXY_CONFIGS: ProxyConfigDocuments = { general: [], selecting: [], warnings: [] };

export interface PodDocuments {
  /** The documents that the annotation overrides: those of the mesh and of the namespace. */
  readonly general: readonly ProxyConfigDocument[];
  /** Above the annotation. */
  readonly selecting: ProxyConfigDocument | undefined;
  readonly warnings: readonly string[];
}

export function documentsFor(
  labels: Readonly<Record<string, string>>,
  { general, selecting, warnings }: ProxyConfigDocuments,
): PodDocuments {
  const [first, ...others] = selecting.filter((each) =>
    Object.entries(each.labels).every(([name, value]) => labels[name] === value),
  );
  const ignored = others.map(
    ({ title }) => `${title}: no effect, because ${first?.title} is older and selects the Pod`,
  );
  return { general, selecting: first, warnings: [...warnings, ...ignored] };
}

export function allOf({ general, selecting }: PodDocuments): readonly ProxyConfigDocument[] {
  return selecting === undefined ? general : [...general, selecting];
}
