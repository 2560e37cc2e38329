/**
 * Stand-ins for the definitions of the Prometheus operator: an API server with them stores its objects, and does not
 * check their fields.
 */
import type { ApiObject, KubernetesApi } from '../../harness/kubernetes/index.ts';

const GROUP = 'monitoring.coreos.com';
const PLURALS = { ServiceMonitor: 'servicemonitors', PodMonitor: 'podmonitors', PrometheusRule: 'prometheusrules' };

export async function applyOperatorStandIns(api: KubernetesApi): Promise<void> {
  const schema = { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } };
  const definitions = Object.entries(PLURALS).map(
    ([kind, plural]): ApiObject => ({
      apiVersion: 'apiextensions.k8s.io/v1',
      kind: 'CustomResourceDefinition',
      metadata: { name: `${plural}.${GROUP}` },
      spec: {
        group: GROUP,
        scope: 'Namespaced',
        names: { kind, plural },
        versions: [{ name: 'v1', served: true, storage: true, schema }],
      },
    }),
  );
  await api.apply(definitions);
}
