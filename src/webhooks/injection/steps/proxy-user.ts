/**
 * Passes the user and group of the proxy to the redirection, which identifies the proxy's own traffic by them: if they
 * differed, Envoy's connections would be redirected to Envoy again. A container of the Pod or a template can set them.
 */
import { CtlError } from '../../../core/errors.ts';
import type { PodObject } from '../../types.ts';
import { type PodRecord, recordOf, recordsOf } from '../pod-shape.ts';
import { PROXY_USER, REDIRECTION_COMMAND } from '../redirection.ts';
import { INIT_CONTAINER, PROXY_CONTAINER, VALIDATION_CONTAINER } from '../templates/parts.ts';
import { sidecarOf, withContainers } from './sidecar-container.ts';
import type { InjectionStep } from './step.ts';

const ROOT = 0;

/** The user and group whose traffic is not redirected. */
export interface ProxyUser {
  readonly user: number;
  readonly group: number;
}

export const carryProxyUser: InjectionStep = (pod, { data, warnings }) => {
  const { interceptionMode } = data.proxy;
  if (!isRedirected(pod)) return pod;
  const fixed = interceptionMode === 'TPROXY' ? asRoot(pod, warnings) : pod;
  const { user, group } = proxyUserOf(fixed);
  if (user === PROXY_USER && group === PROXY_USER) return fixed;
  return withContainers(fixed, 'initContainers', (container) => {
    if (container.name !== INIT_CONTAINER && container.name !== VALIDATION_CONTAINER) return container;
    const redirected = { ...container, args: withUser(container.args, { user, group }) };
    if (container.name === INIT_CONTAINER) return redirected;
    const securityContext = { ...recordOf(container.securityContext), runAsUser: user, runAsGroup: group };
    return { ...redirected, securityContext };
  });
};

/** Whether containers of the Pod set up or check the redirection to its sidecar. */
export function isRedirected(pod: PodObject): boolean {
  const names = recordsOf(recordOf(pod.spec).initContainers).map(({ name }) => name);
  return sidecarOf(pod) !== undefined && (names.includes(INIT_CONTAINER) || names.includes(VALIDATION_CONTAINER));
}

/**
 * The user and group by which rules recognize the sidecar, never root, because that would exempt applications that run
 * as root. A proxy that runs as root is recognized by its group, and one with the group of root by its user.
 * @throws CtlError for a proxy that has both
 */
export function proxyUserOf(pod: PodObject): ProxyUser {
  const container = sidecarOf(pod)?.container ?? {};
  const user = idOf(container, pod, 'runAsUser');
  const group = idOf(container, pod, 'runAsGroup');
  if (user === ROOT && group === ROOT) {
    const message = `expected a user or group other than ${ROOT}, which identifies the traffic of the proxy`;
    throw new CtlError('invalid_argument', message, { field: `spec.containers[${PROXY_CONTAINER}].securityContext` });
  }
  const known = user === ROOT ? PROXY_USER : user;
  return { user: known, group: group === ROOT ? known : group };
}

function idOf({ securityContext }: PodRecord, { spec }: PodObject, field: 'runAsUser' | 'runAsGroup'): number {
  const id = recordOf(securityContext)[field] ?? recordOf(recordOf(spec).securityContext)[field];
  return typeof id === 'number' ? id : PROXY_USER;
}

/** Transparent sockets need NET_ADMIN, which only root gets. */
function asRoot(pod: PodObject, warnings: string[]): PodObject {
  const sidecar = sidecarOf(pod);
  const context = recordOf(sidecar?.container.securityContext);
  if (sidecar === undefined || context.runAsUser === ROOT) return pod;
  const field = `spec.${sidecar.list}[${PROXY_CONTAINER}].securityContext.runAsUser`;
  warnings.push(`${field}: no effect with interceptionMode TPROXY, which needs root`);
  return withContainers(pod, sidecar.list, (container) =>
    container.name === PROXY_CONTAINER
      ? { ...container, securityContext: { ...context, runAsUser: ROOT, runAsNonRoot: false } }
      : container,
  );
}

/** Does not change arguments with which the Pod replaced the redirection command. */
function withUser(args: unknown, { user, group }: ProxyUser): unknown {
  if (!Array.isArray(args) || args[0] !== REDIRECTION_COMMAND) return args;
  const values = new Map<unknown, string>([
    ['-u', String(user)],
    ['-g', String(group)],
  ]);
  return args.map((arg: unknown, index) => values.get(args[index - 1]) ?? arg);
}
