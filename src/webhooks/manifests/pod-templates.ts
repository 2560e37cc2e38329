/** Where the kinds of Kubernetes and of OpenShift that create Pods have the template of the Pod. */
import { isObject } from '../../core/objects.ts';
import type { PodRecord } from '../injection/index.ts';

/** A Pod or the template of one, inside a document. */
export interface PodTemplate {
  /** Steps from the document. */
  readonly path: readonly (string | number)[];
  /** The template with `metadata` and `spec`, not validated. */
  readonly pod: unknown;
  /** `Deployment web`, for messages. */
  readonly title: string;
  /** Undefined: the document does not say. */
  readonly namespace: string | undefined;
  /** Controller of the Pods, as their owner; undefined for Pods themselves. */
  readonly owner: PodRecord | undefined;
}

const TEMPLATE = ['spec', 'template'];
const CRON_JOB = ['spec', 'jobTemplate', ...TEMPLATE];
const WORKLOADS: Readonly<Record<string, readonly string[]>> = {
  'v1/Pod': [],
  'v1/ReplicationController': TEMPLATE,
  'apps/v1/DaemonSet': TEMPLATE,
  'apps/v1/Deployment': TEMPLATE,
  'apps/v1/ReplicaSet': TEMPLATE,
  'apps/v1/StatefulSet': TEMPLATE,
  'apps.openshift.io/v1/DeploymentConfig': TEMPLATE,
  'batch/v1/Job': TEMPLATE,
  'batch/v1/CronJob': CRON_JOB,
  // In older clusters.
  'batch/v1beta1/CronJob': CRON_JOB,
  'batch/v2alpha1/CronJob': CRON_JOB,
  // In OpenShift before 3.6.
  'v1/DeploymentConfig': TEMPLATE,
};
/** Lists of lists have no use; this bounds them. */
const MAX_DEPTH = 4;

/** The templates in a document: none where it creates no Pods, several in a List. */
export function podTemplates(document: unknown, path: readonly (string | number)[] = []): readonly PodTemplate[] {
  if (!isObject(document)) return [];
  const { apiVersion, kind, items } = document;
  const isList = apiVersion === 'v1' ? kind === 'List' : typeof kind === 'string' && kind.endsWith('List');
  if ((isList || (apiVersion === 'v1' && isPodList(kind))) && Array.isArray(items)) {
    if (path.length > 2 * MAX_DEPTH) return [];
    return items.flatMap((item, index) => podTemplates(item, [...path, 'items', index]));
  }
  const type = `${String(apiVersion)}/${String(kind)}`;
  const steps = Object.hasOwn(WORKLOADS, type) ? WORKLOADS[type] : undefined;
  if (steps === undefined) return [];
  const metadata = isObject(document.metadata) ? document.metadata : {};
  const name = typeof metadata.name === 'string' ? metadata.name : '';
  const pod = steps.reduce<unknown>((at, step) => (isObject(at) ? at[step] : undefined), document);
  return [
    {
      path: [...path, ...steps],
      pod,
      title: `${String(kind)} ${name}`.trim(),
      namespace: typeof metadata.namespace === 'string' && metadata.namespace !== '' ? metadata.namespace : undefined,
      owner: steps.length === 0 ? undefined : { apiVersion, kind, name, controller: true },
    },
  ];
}

function isPodList(kind: unknown): boolean {
  return kind === 'PodList' || kind === 'ReplicationControllerList';
}
