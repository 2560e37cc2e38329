/**
 * A MutatingWebhookConfiguration or ValidatingWebhookConfiguration as far as the control plane reads it, and the patch
 * that brings its own webhooks up to date.
 */
import type { KubernetesObject } from '../../kubernetes/index.ts';
import type { JsonPatchOperation } from '../types.ts';

/** With the value `Ignore` on a ValidatingWebhookConfiguration, the control plane leaves `failurePolicy` as it is. */
export const FAILURE_POLICY_ANNOTATION = 'mesh.io/failure-policy';

/** A webhook whose client configuration names this control plane. */
export interface OwnWebhook {
  /** Its index in `webhooks`. */
  readonly index: number;
  readonly name: string;
  /** Base64, as the object has it; undefined: the API server uses the certificate authorities of its system. */
  readonly caBundle: string | undefined;
  readonly failurePolicy: string;
}

export interface Configuration {
  readonly resourceVersion: string;
  /** Its own webhooks; others may be in the same object. */
  readonly webhooks: readonly OwnWebhook[];
  /** False: the operator decides about `failurePolicy`. */
  readonly managesFailurePolicy: boolean;
}

/** The desired fields of all own webhooks. An undefined one stays as it is. */
export interface Desired {
  /** Base64. */
  readonly caBundle: string | undefined;
  readonly failurePolicy: 'Fail' | undefined;
}

/** @param hosts by which this control plane is reached: `meshd.mesh-system.svc` */
export function readConfiguration({ metadata, webhooks }: KubernetesObject, hosts: ReadonlySet<string>): Configuration {
  const all: readonly unknown[] = Array.isArray(webhooks) ? webhooks : [];
  const own = all.flatMap((webhook, index): OwnWebhook[] => {
    const { name, clientConfig, failurePolicy } = fieldsOf(webhook);
    const { caBundle, service, url } = fieldsOf(clientConfig);
    const host = hostOf(service, url);
    if (host === undefined || !hosts.has(host)) return [];
    return [{ index, name: text(name) ?? '', caBundle: text(caBundle), failurePolicy: text(failurePolicy) ?? 'Fail' }];
  });
  const { [FAILURE_POLICY_ANNOTATION]: policy } = metadata.annotations ?? {};
  return {
    resourceVersion: metadata.resourceVersion ?? '',
    webhooks: own,
    managesFailurePolicy: policy !== 'Ignore',
  };
}

/** The changes to make; empty if there are none. */
export function changesOf({ webhooks }: Configuration, { caBundle, failurePolicy }: Desired): JsonPatchOperation[] {
  return webhooks.flatMap((webhook): JsonPatchOperation[] => {
    const path = `/webhooks/${webhook.index}`;
    const operations: JsonPatchOperation[] = [];
    if (caBundle !== undefined && webhook.caBundle !== caBundle) {
      // `add` replaces a value that is there (RFC 6902, 4.1).
      operations.push({ op: 'add', path: `${path}/clientConfig/caBundle`, value: caBundle });
    }
    if (failurePolicy !== undefined && webhook.failurePolicy !== failurePolicy) {
      operations.push({ op: 'add', path: `${path}/failurePolicy`, value: failurePolicy });
    }
    return operations;
  });
}

/**
 * The whole patch. The API server returns HTTP 409 if the object has another version by then, because the indexes could
 * denote other webhooks.
 */
export function guarded(
  { resourceVersion }: Configuration,
  changes: readonly JsonPatchOperation[],
): readonly JsonPatchOperation[] {
  return [{ op: 'replace', path: '/metadata/resourceVersion', value: resourceVersion }, ...changes];
}

/** The name that the certificate must have: of the service, as the API server verifies it, or of the URL. */
function hostOf(service: unknown, url: unknown): string | undefined {
  const { name, namespace } = fieldsOf(service);
  if (typeof name === 'string' && typeof namespace === 'string') return `${name}.${namespace}.svc`;
  return typeof url === 'string' && URL.canParse(url) ? new URL(url).hostname : undefined;
}

function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? { ...value } : {};
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}
