/** The container of the sidecar in a Pod, and its variables. */
import { PROXY_CONTAINER } from './built-in.ts';
import { runsGateway } from './gateway-pod.ts';
import { type PodRecord, recordOf, recordsOf, textOf } from './pod-shape.ts';

export type ContainerList = 'containers' | 'initContainers';

/** Undefined for a Pod without it, or with a gateway in its place. */
export function sidecarOf(pod: PodRecord): { readonly list: ContainerList; readonly container: PodRecord } | undefined {
  const spec = recordOf(pod.spec);
  for (const list of ['initContainers', 'containers'] as const) {
    const container = recordsOf(spec[list]).find(({ name }) => name === PROXY_CONTAINER);
    if (container === undefined) continue;
    return runsGateway(container) ? undefined : { list, container };
  }
  return undefined;
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
 * Sets a variable of the sidecar; undefined removes it. Kubernetes would replace `$(NAME)` in the value, which comes
 * from the user's fields: `$$` is a dollar sign.
 */
export function withSidecarVariable(pod: PodRecord, name: string, value: string | undefined): PodRecord {
  const sidecar = sidecarOf(pod);
  if (sidecar === undefined) return pod;
  return withContainers(pod, sidecar.list, (container) => {
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
