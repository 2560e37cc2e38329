/** The workload of a Pod: what its owner and its labels say. */
import { workloadLabels } from '../../../resources/index.ts';
import { recordOf, recordsOf, textOf, textsOf } from '../pod-shape.ts';
import type { WorkloadData } from './types.ts';

/** A Job of a CronJob ends in minutes since 1970; controllers of older clusters wrote seconds. */
const CRON_JOB = /^(.+)-\d{8,10}$/;

interface Owner {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
}

/** Labels with the hash by which the controllers of these kinds name their ReplicaSets. */
const OWNERS_OF_REPLICA_SETS: Readonly<Record<string, Pick<Owner, 'apiVersion' | 'kind'>>> = {
  'pod-template-hash': { apiVersion: 'apps/v1', kind: 'Deployment' },
  'rollouts-pod-template-hash': { apiVersion: 'argoproj.io/v1alpha1', kind: 'Rollout' },
};

/**
 * The controller of a Pod, or the owner of that controller if a name or a label tells it; otherwise, the Pod itself.
 */
function ownerOf(metadata: Readonly<Record<string, unknown>>): Owner | undefined {
  const controller = recordsOf(metadata.ownerReferences).find((reference) => reference.controller === true);
  if (controller === undefined) {
    const name = textOf(metadata.name);
    return name === '' ? undefined : { apiVersion: 'v1', kind: 'Pod', name };
  }
  const owner = {
    apiVersion: textOf(controller.apiVersion),
    kind: textOf(controller.kind),
    name: textOf(controller.name),
  };
  return ownerOfController(owner, textsOf(metadata.labels)) ?? owner;
}

function ownerOfController(controller: Owner, labels: Readonly<Record<string, string>>): Owner | undefined {
  const { kind, name } = controller;
  if (kind === 'ReplicaSet') {
    for (const [label, owner] of Object.entries(OWNERS_OF_REPLICA_SETS)) {
      const ending = `-${labels[label] ?? ''}`;
      if (ending === '-' || !name.endsWith(ending) || name.length === ending.length) continue;
      return { ...owner, name: name.slice(0, -ending.length) };
    }
  }
  const deploymentConfig = kind === 'ReplicationController' ? (labels.deploymentconfig ?? '') : '';
  if (deploymentConfig !== '')
    return { apiVersion: 'apps.openshift.io/v1', kind: 'DeploymentConfig', name: deploymentConfig };
  const cronJob = kind === 'Job' ? CRON_JOB.exec(name)?.[1] : undefined;
  return cronJob === undefined ? undefined : { apiVersion: 'batch/v1', kind: 'CronJob', name: cronJob };
}

function ownName(metadata: Readonly<Record<string, unknown>>): string {
  return textOf(metadata.name) || withoutDashes(textOf(metadata.generateName));
}

/** Removes dashes at the end. A regular expression would try again at each of a million dashes. */
function withoutDashes(name: string): string {
  let end = name.length;
  while (name[end - 1] === '-') end--;
  return name.slice(0, end);
}

/** Version without group for `v1`, as paths of the API have it. */
function ownerPath({ apiVersion, kind, name }: Owner, namespace: string): string {
  const plural = `${kind.toLowerCase()}s`;
  return `kubernetes://apis/${apiVersion}/namespaces/${namespace}/${plural}/${name}`;
}

/** The first label that has a value. */
function labelOf(labels: Readonly<Record<string, string>>, ...names: readonly string[]): string | undefined {
  return names.map((name) => labels[name]).find((value) => value !== undefined && value !== '');
}

/** Names of owners may be longer than values of labels, which end with a letter or digit. */
function labelValue(name: string): string {
  return name.slice(0, 63).replace(/[^A-Za-z0-9]+$/, '');
}

export function workloadData(podMetadata: unknown, namespace: string): WorkloadData {
  const metadata = recordOf(podMetadata);
  const labels = workloadLabels(textsOf(metadata.labels));
  const owner = ownerOf(metadata);
  const name = owner?.name || ownName(metadata);
  return {
    name: labelOf(labels, 'service.mesh.io/workload-name') ?? name,
    owner: owner === undefined ? '' : ownerPath(owner, namespace),
    canonicalName:
      labelOf(labels, 'service.mesh.io/canonical-name', 'app.kubernetes.io/name', 'app') ?? labelValue(name),
    canonicalRevision:
      labelOf(labels, 'service.mesh.io/canonical-revision', 'app.kubernetes.io/version', 'version') ?? 'latest',
  };
}
