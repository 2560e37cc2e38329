/** The annotation that marks an injected Pod, and lists what was added. */
import { type PodRecord, recordOf, recordsOf, textOf, textsOf } from './pod-shape.ts';

export const STATUS_ANNOTATION = 'sidecar.mesh.io/status';

/** Names of the objects in the templates, including those that the Pod itself defined. */
export interface InjectionStatus {
  readonly revision: string;
  readonly templates: readonly string[];
  readonly initContainers: readonly string[];
  readonly containers: readonly string[];
  readonly volumes: readonly string[];
  readonly imagePullSecrets: readonly string[];
}

export function statusOf(overlay: PodRecord, revision: string, templates: readonly string[]): InjectionStatus {
  const spec = recordOf(overlay.spec);
  const names = (list: unknown) => recordsOf(list).map(({ name }) => textOf(name));
  return {
    revision: revision === '' ? 'default' : revision,
    templates,
    initContainers: names(spec.initContainers),
    containers: names(spec.containers),
    volumes: names(spec.volumes),
    imagePullSecrets: names(spec.imagePullSecrets),
  };
}

export function isInjected(pod: PodRecord): boolean {
  return Object.hasOwn(textsOf(recordOf(pod.metadata).annotations), STATUS_ANNOTATION);
}

export function withStatus(pod: PodRecord, status: InjectionStatus): PodRecord {
  const metadata = recordOf(pod.metadata);
  const annotations = { ...recordOf(metadata.annotations), [STATUS_ANNOTATION]: JSON.stringify(status) };
  return { ...pod, metadata: { ...metadata, annotations } };
}
