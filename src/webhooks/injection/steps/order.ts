/**
 * The order of containers.
 *
 * If the proxy is an init container, the order is `mesh-init`, the proxy, then the init containers of the Pod, which
 * can thus use the mesh. If the proxy is an ordinary container, traffic that is redirected before the proxy runs is
 * lost, so `mesh-init` is the last init container. The proxy is then the last container, so that commands such as
 * `kubectl exec` choose the application, or the first one if the application waits for it.
 *
 * `mesh-validation` is always the first init container: nothing runs before the traffic is redirected.
 */
import { type PodRecord, recordOf, textOf, textsOf } from '../pod-shape.ts';
import { INIT_CONTAINER, PROXY_CONTAINER, VALIDATION_CONTAINER } from '../templates/parts.ts';
import { isWithoutEnvoy, proxyOf } from './sidecar-container.ts';
import type { InjectionStep } from './step.ts';

/** The container that `kubectl exec` and `kubectl logs` choose; otherwise the first. */
const DEFAULT_CONTAINER = 'kubectl.kubernetes.io/default-container';

export const orderContainers: InjectionStep = (pod, { data }) => {
  const spec = recordOf(pod.spec);
  const isNative = entries(spec.initContainers).some((entry) => nameOf(entry) === PROXY_CONTAINER);
  const redirected = isNative
    ? first(first(entries(spec.initContainers), PROXY_CONTAINER), INIT_CONTAINER)
    : last(entries(spec.initContainers), INIT_CONTAINER);
  const initContainers = first(redirected, VALIDATION_CONTAINER);
  const proxy = proxyOf(pod);
  // gRPC applications need the files of the agent at startup.
  const isHeld = data.proxy.holdApplication || (proxy !== undefined && isWithoutEnvoy(proxy));
  const isFirst = isHeld && !isNative;
  const containers = (isFirst ? first : last)(entries(spec.containers), PROXY_CONTAINER);
  if (initContainers === entries(spec.initContainers) && containers === spec.containers) return pod;
  const ordered = { ...spec, containers, ...(initContainers.length === 0 ? {} : { initContainers }) };
  const moved = { ...pod, spec: ordered };
  const application = nameOf(containers.find((entry) => nameOf(entry) !== PROXY_CONTAINER));
  return isFirst && application !== '' ? withDefaultContainer(moved, application) : moved;
};

function withDefaultContainer(pod: PodRecord, name: string): PodRecord {
  const metadata = recordOf(pod.metadata);
  if (Object.hasOwn(textsOf(metadata.annotations), DEFAULT_CONTAINER)) return pod;
  const annotations = { ...recordOf(metadata.annotations), [DEFAULT_CONTAINER]: name };
  return { ...pod, metadata: { ...metadata, annotations } };
}

function first(list: readonly unknown[], name: string): readonly unknown[] {
  return nameOf(list[0]) === name ? list : moved(list, name, (found, others) => [...found, ...others]);
}

function last(list: readonly unknown[], name: string): readonly unknown[] {
  return nameOf(list.at(-1)) === name ? list : moved(list, name, (found, others) => [...others, ...found]);
}

/** Returns the same list when nothing has that name. */
function moved(
  list: readonly unknown[],
  name: string,
  join: (found: readonly unknown[], others: readonly unknown[]) => readonly unknown[],
): readonly unknown[] {
  const found = list.filter((entry) => nameOf(entry) === name);
  if (found.length === 0) return list;
  return join(
    found,
    list.filter((entry) => nameOf(entry) !== name),
  );
}

const NOTHING: readonly unknown[] = [];

function entries(list: unknown): readonly unknown[] {
  return Array.isArray(list) ? list : NOTHING;
}

function nameOf(entry: unknown): string {
  return textOf(recordOf(entry).name);
}
