/** Warnings for the user of `kubectl apply` about settings that are legal in a Pod with a sidecar but likely wrong. */
import { recordOf, recordsOf, textOf } from '../pod-shape.ts';
import { AGENT_STATUS_PORT } from '../redirection.ts';
import { PROXY_CONTAINER, VALIDATION_CONTAINER } from '../templates/parts.ts';
import { isRedirected, proxyUserOf } from './proxy-user.ts';
import type { InjectionStep } from './step.ts';

/** The sidecar of other meshes of this family. */
const OTHER_SIDECAR = 'istio-proxy';

export const warnOfLikelyMistakes: InjectionStep = (pod, { data, warnings, original }) => {
  const spec = recordOf(pod.spec);
  const podUser = recordOf(spec.securityContext).runAsUser;
  const proxyUser = isRedirected(pod) ? proxyUserOf(pod).user : undefined;
  const lists = [
    ['initContainers', recordsOf(spec.initContainers)],
    ['containers', recordsOf(spec.containers)],
  ] as const;
  for (const [field, containers] of lists) {
    for (const { name, image, securityContext } of containers) {
      const user = recordOf(securityContext).runAsUser ?? podUser;
      const shown = `spec.${field}[${textOf(name)}]`;
      if (name !== PROXY_CONTAINER && name !== VALIDATION_CONTAINER && user === proxyUser && user !== undefined) {
        warnings.push(`${shown}: runs as user ${proxyUser}, whose traffic bypasses the proxy`);
      }
      if (name === OTHER_SIDECAR) warnings.push(`${shown}: the sidecar of this mesh is named ${PROXY_CONTAINER}`);
      else if (image === 'auto') warnings.push(`${shown}.image: no template defines this container`);
    }
  }
  const isSidecar = recordsOf(spec.containers).some(({ name, args }) => {
    return name === PROXY_CONTAINER && Array.isArray(args) && args.includes('sidecar');
  });
  const owners = recordsOf(recordOf(original.metadata).ownerReferences);
  if (isSidecar && !data.proxy.native && owners.some(({ kind }) => kind === 'Job' || kind === 'CronJob')) {
    const port = data.proxy.statusPort || AGENT_STATUS_PORT;
    const end = `the application ends the proxy with POST http://localhost:${port}/quitquitquit`;
    warnings.push(`spec.containers[${PROXY_CONTAINER}]: the Job ends only when ${end}, or with nativeSidecar`);
  }
  return pod;
};
