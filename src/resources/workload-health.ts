import { isObject } from '../core/objects.ts';

/**
 * The health of a WorkloadEntry whose workload is probed. If the annotation {@link HEALTH_CHECKED} is set, the
 * condition `Healthy` of the status must be `True`; without the condition, the workload is unhealthy. Istio writes the
 * same annotation and condition.
 */

export const HEALTH_CHECKED = 'proxy.mesh.io/health-checks-enabled';
const ISTIO_HEALTH_CHECKED = 'proxy.istio.io/health-checks-enabled';

/** Type of the condition. */
export const HEALTHY_CONDITION = 'Healthy';

/** @param status of the document, as it was written */
export function isUnhealthy(annotations: Readonly<Record<string, string>> | undefined, status: unknown): boolean {
  if (!isProbed(annotations)) return false;
  const conditions = isObject(status) && Array.isArray(status.conditions) ? status.conditions : [];
  const condition: unknown = conditions.find((each) => isObject(each) && each.type === HEALTHY_CONDITION);
  return !(isObject(condition) && condition.status === 'True');
}

/** Whether the workload is probed, so that it is used only while it is healthy. */
export function isProbed(annotations: Readonly<Record<string, string>> | undefined): boolean {
  const checked = annotations?.[HEALTH_CHECKED] ?? annotations?.[ISTIO_HEALTH_CHECKED];
  return checked?.toLowerCase() === 'true' || checked === '1';
}
