/**
 * Proves that the API server reaches the validation of this control plane: it is asked to create an invalid Gateway,
 * without storing it (dry run). Only a control plane that responds can refuse it through the webhook. If the webhook
 * cannot be called, `failurePolicy: Ignore` lets the object pass.
 */
import { oneLineOf } from '../../core/errors.ts';
import { ApiError, apiVersionOf, type KubernetesClient, pathOf, type ResourceType } from '../../kubernetes/index.ts';

/** The name of the object, which never exists. */
export const SELF_CHECK_NAME = 'mesh-validation-self-check';

const GROUPS = ['networking.mesh.io', 'networking.istio.io'] as const;

export type CheckResult =
  | { readonly kind: 'answers' }
  /** Why it cannot be confirmed that the webhook responds, in one line. */
  | { readonly kind: 'unproved'; readonly reason: string }
  /** The webhook could not be called, and edits are refused for that. */
  | { readonly kind: 'refusing'; readonly reason: string };

export interface SelfCheckOptions {
  readonly client: KubernetesClient;
  /** The control plane's: it may create Gateways there only. */
  readonly namespace: string;
  /** Empty: the default revision. */
  readonly revision: string;
  readonly signal: AbortSignal;
}

/**
 * @param webhooks names of those that lead to this control plane
 * Rejects with ConnectionError without an answer.
 */
export async function checkValidation(options: SelfCheckOptions, webhooks: readonly string[]): Promise<CheckResult> {
  for (const group of GROUPS) {
    const result = await attempt(options, typeOf(group), webhooks);
    if (result !== undefined) return result;
  }
  return { kind: 'unproved', reason: 'the API server has no Gateways of the mesh: their definitions are missing' };
}

function typeOf(group: string): ResourceType {
  return { group, version: 'v1alpha3', plural: 'gateways', kind: 'Gateway', namespaced: true };
}

/** Undefined where the server does not have the kind. */
async function attempt(
  { client, namespace, revision, signal }: SelfCheckOptions,
  type: ResourceType,
  webhooks: readonly string[],
): Promise<CheckResult | undefined> {
  const object = { apiVersion: apiVersionOf(type), kind: type.kind, ...invalidGateway(namespace, revision) };
  try {
    await client.json({
      method: 'POST',
      path: `${pathOf(type, namespace)}?dryRun=All`,
      contentType: 'application/json',
      body: JSON.stringify(object),
      signal,
    });
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status === 404 && !error.message.includes('namespaces "')) return undefined;
    return resultOf(error, webhooks);
  }
  return { kind: 'unproved', reason: 'the API server does not reach the webhook: it accepted an invalid Gateway' };
}

/** The messages of the API server (k8s.io/apiserver, admission/plugin/webhook/errors). */
function resultOf(error: ApiError, webhooks: readonly string[]): CheckResult {
  const reason = oneLineOf(error);
  const refused = webhooks.some((name) => error.message.includes(`admission webhook "${name}" denied the request`));
  if (refused) return { kind: 'answers' };
  if (/failed (calling|to call) webhook/.test(error.message)) return { kind: 'refusing', reason };
  return { kind: 'unproved', reason: `the check failed with ${reason}` };
}

/**
 * A Gateway that its definition accepts, so that it reaches the webhook, but that validation refuses: two ports have
 * the same name. It selects no gateway.
 */
function invalidGateway(namespace: string, revision: string) {
  const server = (number: number) => ({
    port: { name: 'same', number, protocol: 'HTTP' },
    hosts: ['self-check.invalid'],
  });
  const labels = revision === '' || revision === 'default' ? {} : { 'mesh.io/rev': revision };
  return {
    metadata: { name: SELF_CHECK_NAME, namespace, labels },
    spec: { selector: { 'mesh.io/self-check': 'none' }, servers: [server(80), server(81)] },
  };
}
