/** The workload of a Pod: what its owner and its labels say. */
import { workloadLabels } from '../../resources/index.ts';
import { recordOf, recordsOf, textOf, textsOf } from './pod-shape.ts';
import type { WorkloadData } from './template-data.ts';

/** A Job of a CronJob ends in minutes since 1970; controllers of older clusters wrote seconds. */
const CRON_JOB = /^(.+)-\d{8,10}$/;

interface Owner {
  readonly apiVersion: string;
  readonly kind: string;
  readonly name: string;
}

/** The controller of a Pod, or what owns that controller where its name tells. */
function ownerOf(metadata: Readonly<Record<string, unknown>>): Owner | undefined {
  const controller = recordsOf(metadata.ownerReferences).find((reference) => reference.controller === true);
  if (controller === undefined) return undefined;
  const owner = {
    apiVersion: textOf(controller.apiVersion),
    kind: textOf(controller.kind),
    name: textOf(controller.name),
  };
  if (owner.kind === 'ReplicaSet') {
    // A Deployment names its ReplicaSets by its own name and the hash, which is a label as well.
    const ending = `-${textsOf(metadata.labels)['pod-template-hash'] ?? ''}`;
    const isDeployed = ending !== '-' && owner.name.endsWith(ending) && owner.name.length > ending.length;
    return isDeployed ? { ...owner, kind: 'Deployment', name: owner.name.slice(0, -ending.length) } : owner;
  }
  const cronJob = owner.kind === 'Job' ? CRON_JOB.exec(owner.name)?.[1] : undefined;
  return cronJob === undefined ? owner : { ...owner, kind: 'CronJob', name: cronJob };
}

function ownName(metadata: Readonly<Record<string, unknown>>): string {
  return textOf(metadata.name) || withoutDashes(textOf(metadata.generateName));
}

/** Without dashes at its end. A regular expression would try again at each of a million dashes. */
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
    name,
    owner: owner === undefined ? '' : ownerPath(owner, namespace),
    canonicalName:
      labelOf(labels, 'service.mesh.io/canonical-name', 'app.kubernetes.io/name', 'app') ?? labelValue(name),
    canonicalRevision:
      labelOf(labels, 'service.mesh.io/canonical-revision', 'app.kubernetes.io/version', 'version') ?? 'latest',
  };
}
