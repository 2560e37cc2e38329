/** Namespaces and Pods that are not injected although their labels say so, or about which labels say nothing. */

import { hasProxy, INJECTION_LABEL, injectionOf, isInjected, REVISION_LABEL } from '../mesh/injection.ts';
import type { AnalyzedMesh } from '../mesh/mesh.ts';
import type { Findings } from '../types.ts';

/** Namespaces of the orchestrator itself, whose Pods no webhook injects. */
const SYSTEM: ReadonlySet<string> = new Set(['kube-system', 'kube-public', 'kube-node-lease', 'local-path-storage']);
const AMBIENT_LABEL = 'mesh.io/dataplane-mode';

export function* namespaceInjection(mesh: AnalyzedMesh): Findings {
  for (const document of mesh.documents('Namespace')) {
    yield undefined;
    const { name, labels } = document.meta;
    if (SYSTEM.has(name) || name === mesh.settings.rootNamespace) continue;
    const enabled = labels[INJECTION_LABEL];
    const written = [INJECTION_LABEL, REVISION_LABEL, AMBIENT_LABEL].filter((label) => labels[label] !== undefined);
    if (written.length > 1 && (enabled === undefined || enabled === 'enabled')) {
      const shown = written.map((label) => `${label}=${labels[label]}`).join(', ');
      yield mesh.finding('IST0123', document, `its labels ${shown} contradict each other; keep one of them`);
    }
    if (written.length > 0) continue;
    const advice = `label it ${INJECTION_LABEL}=enabled, or =disabled if that is meant`;
    const message = `Pods of the namespace get no sidecar; ${advice}`;
    yield mesh.finding('IST0102', document, message);
  }
}

/** Pods that were created before the labels, or while the webhook did not run. */
export function* missingProxies(mesh: AnalyzedMesh): Findings {
  for (const pod of mesh.documents('Pod')) {
    yield undefined;
    if (pod.content.spec.hostNetwork === true || hasProxy(pod)) continue;
    if (!isInjected(mesh.namespaceLabels(pod.meta.namespace)) || injectionOf(pod.meta) === false) continue;
    yield mesh.finding('IST0103', pod, 'it has no sidecar, and its namespace is injected; restart its workload');
  }
}
