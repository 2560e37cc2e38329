/** The container of the proxy in a Pod, and its variables. */
import { runsGateway } from '../gateway-pod.ts';
import { type PodRecord, recordOf, recordsOf, textOf } from '../pod-shape.ts';
import { PROXY_CONTAINER } from '../templates/parts.ts';

export type ContainerList = 'containers' | 'initContainers';

export interface ProxyContainer {
  readonly list: ContainerList;
  readonly container: PodRecord;
}

/** The proxy container of a sidecar or a gateway; undefined for a Pod without one. */
export function proxyOf(pod: PodRecord): ProxyContainer | undefined {
  const spec = recordOf(pod.spec);
  for (const list of ['initContainers', 'containers'] as const) {
    const container = recordsOf(spec[list]).find(({ name }) => name === PROXY_CONTAINER);
    if (container !== undefined) return { list, container };
  }
  return undefined;
}

/** Undefined for a Pod without a sidecar, even where it has a gateway. */
export function sidecarOf(pod: PodRecord): ProxyContainer | undefined {
  const proxy = proxyOf(pod);
  return proxy === undefined || runsGateway(proxy.container) ? undefined : proxy;
}

/** Whether the agent runs no Envoy: applications speak xDS themselves. */
export function isWithoutEnvoy({ container }: ProxyContainer): boolean {
  return variableOf(container, 'DISABLE_ENVOY') === 'true';
}

/** Replaces the containers of a list that a function changes. */
export function withContainers(
  pod: PodRecord,
  list: ContainerList,
  change: (container: PodRecord, index: number) => PodRecord,
): PodRecord {
  const spec = recordOf(pod.spec);
  const before = recordsOf(spec[list]);
  const after = before.map(change);
  if (after.every((container, index) => container === before[index])) return pod;
  return { ...pod, spec: { ...spec, [list]: after } };
}

export function variableOf(container: PodRecord, name: string): string | undefined {
  const found = recordsOf(container.env).find((variable) => variable.name === name);
  return found === undefined ? undefined : textOf(found.value);
}

/**
 * Sets a variable of the proxy; undefined removes it. Kubernetes would replace `$(NAME)` in the value, which comes
 * from the user's fields: `$$` is a dollar sign.
 */
export function withProxyVariable(pod: PodRecord, name: string, value: string | undefined): PodRecord {
  const proxy = proxyOf(pod);
  if (proxy === undefined) return pod;
  return withContainers(pod, proxy.list, (container) => {
    if (container.name !== PROXY_CONTAINER) return container;
    const env = recordsOf(container.env);
    const present = variableOf(container, name);
    const text = value?.replaceAll('$', '$$$$');
    if (present === text) return container;
    const others = env.filter((variable) => variable.name !== name);
    return { ...container, env: text === undefined ? others : [...others, { name, value: text }] };
  });
}

/** The value that the container will have. */
export function unescaped(value: string): string {
  return value.replaceAll('$$', '$');
}
