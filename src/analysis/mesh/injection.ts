/** Which Pods have a sidecar, or get one, by the labels of Pods and Namespaces. */
import type { Resource } from '../../resources/index.ts';

type Labels = Readonly<Record<string, string>>;

/** The names of the container of the proxy: as injected, and as charts of Istio write it. */
const PROXY_CONTAINERS: ReadonlySet<string> = new Set(['mesh-proxy', 'istio-proxy']);

export const INJECTION_LABEL = 'mesh-injection';
export const REVISION_LABEL = 'mesh.io/rev';
const INJECT = 'sidecar.mesh.io/inject';

export function hasProxy({ content }: Resource<'Pod'>): boolean {
  const { containers = [], initContainers = [] } = content.spec;
  return [...containers, ...initContainers].some(({ name }) => PROXY_CONTAINERS.has(name));
}

/** What the Pod itself says about injection; undefined: nothing. A label takes precedence. */
export function injectionOf({ labels, annotations }: { labels: Labels; annotations: Labels }): boolean | undefined {
  const written = labels[INJECT] ?? annotations[INJECT];
  return written === undefined ? undefined : ['true', 'yes', 'y', 'on'].includes(written.toLowerCase());
}

/** Whether Pods of a Namespace are injected. */
export function isInjected(namespaceLabels: Labels): boolean {
  const written = namespaceLabels[INJECTION_LABEL];
  return written === undefined ? Boolean(namespaceLabels[REVISION_LABEL]) : written === 'enabled';
}

/** Whether the Pod has a proxy, or its labels say that it gets one. */
export function isInMesh(pod: Resource<'Pod'>, namespaceLabels: Labels): boolean {
  return hasProxy(pod) || (injectionOf(pod.meta) ?? isInjected(namespaceLabels));
}
