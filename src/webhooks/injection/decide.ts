/** Whether a Pod is injected: the first of these rules that applies decides. */
import { meshKey } from '../../resources/index.ts';
import type { PodObject } from '../types.ts';
import { ANNOTATIONS, readAnnotations } from './annotations/annotations.ts';
import type { InjectionConfig } from './config.ts';
import { recordOf, recordsOf, textOf, textsOf } from './pod-shape.ts';
import { type Selector, selects } from './selectors.ts';

/** Namespaces of the cluster itself: its parts must run without the mesh. */
const CLUSTER_NAMESPACES: readonly string[] = ['kube-system', 'kube-public', 'kube-node-lease'];

/** By which injection by another control plane of this family is recognized. */
const OTHER_STATUS = 'sidecar.istio.io/status';

export interface DecisionInput {
  readonly pod: PodObject;
  readonly namespace: string;
  readonly controlPlaneNamespace: string;
  /** Labels with the names of `mesh.io` as well. */
  readonly labels: Readonly<Record<string, string>>;
}

/**
 * Why the Pod is not injected, one line; undefined where it is.
 * @throws CtlError `invalid_argument` for a wrong value of `sidecar.mesh.io/inject`
 */
export function reasonToSkip(input: DecisionInput, config: InjectionConfig): string | undefined {
  const { pod, namespace, controlPlaneNamespace, labels } = input;
  const spec = recordOf(pod.spec);
  if (spec.hostNetwork === true) return 'spec.hostNetwork: redirection would change the network of the node';
  if (isWindows(spec)) return 'the Pod runs on Windows nodes, for which there is no proxy';
  if (CLUSTER_NAMESPACES.includes(namespace)) return `namespace ${namespace} belongs to the cluster itself`;
  if (namespace === controlPlaneNamespace) return `namespace ${namespace} is that of the control plane`;
  if (Object.hasOwn(textsOf(recordOf(pod.metadata).annotations), OTHER_STATUS)) {
    return `metadata.annotations[${OTHER_STATUS}]: another control plane has injected the Pod`;
  }
  const inject = injectSwitch(pod.metadata);
  if (inject === false) return 'sidecar.mesh.io/inject is false';
  if (inject === true) return undefined;
  const never = selecting(config.neverInject, labels);
  if (never !== undefined) return `neverInjectSelector[${never}] selects the Pod`;
  if (selecting(config.alwaysInject, labels) !== undefined) return undefined;
  return config.isEnabled ? undefined : 'the policy is disabled, and sidecar.mesh.io/inject is not set';
}

/** Reads no other annotations, so that they cannot cause a Pod to be rejected that is not injected. */
function injectSwitch(metadata: unknown): boolean | undefined {
  const only = (texts: unknown) =>
    Object.fromEntries(Object.entries(textsOf(texts)).filter(([key]) => meshKey(key) === ANNOTATIONS.inject.name));
  const { labels, annotations } = recordOf(metadata);
  return readAnnotations({ labels: only(labels), annotations: only(annotations) }).options.inject;
}

function selecting(selectors: readonly Selector[], labels: Readonly<Record<string, string>>): number | undefined {
  const index = selectors.findIndex((selector) => selects(selector, labels));
  return index < 0 ? undefined : index;
}

/** For Windows, Kubernetes requires one of the two, or the equivalent node affinity. */
function isWindows(spec: Readonly<Record<string, unknown>>): boolean {
  if (textOf(recordOf(spec.os).name) === 'windows') return true;
  const { 'kubernetes.io/os': os, 'beta.kubernetes.io/os': older } = textsOf(spec.nodeSelector);
  if ((os ?? older) === 'windows') return true;
  const required = recordOf(recordOf(spec.affinity).nodeAffinity).requiredDuringSchedulingIgnoredDuringExecution;
  const terms = recordsOf(recordOf(required).nodeSelectorTerms);
  return terms.length > 0 && terms.every(({ matchExpressions }) => recordsOf(matchExpressions).some(requiresWindows));
}

function requiresWindows({ key, operator, values }: Readonly<Record<string, unknown>>): boolean {
  if (key !== 'kubernetes.io/os' || operator !== 'In') return false;
  return Array.isArray(values) && values.length > 0 && values.every((value) => value === 'windows');
}
