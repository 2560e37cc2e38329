/** A scripted API server with webhook configurations, and replicas that keep them current. */
import assert from 'node:assert/strict';
import type { ServerHttp2Stream } from 'node:http2';
import { waitUntil } from '../../../core/testing/wait-until.ts';
import { Connection, KubernetesClient } from '../../../kubernetes/index.ts';
import { fastClock } from '../../../kubernetes/testing/fast-clock.ts';
import { type Listed, ScriptedApiServer, type SeenRequest } from '../../../kubernetes/testing/scripted-api-server.ts';
import { SELF_CHECK_NAME } from '../self-check.ts';
import { WebhookConfigurations } from '../webhook-configurations.ts';

const API = '/apis/admissionregistration.k8s.io/v1';
export const MUTATING = `${API}/mutatingwebhookconfigurations`;
export const VALIDATING = `${API}/validatingwebhookconfigurations`;
export const CHECKS = '/apis/networking.mesh.io/v1alpha3/namespaces/mesh-system/gateways';
export const NAMES = { injection: 'mesh-sidecar-injector', validation: 'meshd-mesh-system' };

const cleanup: (() => Promise<void> | void)[] = [];

/** For `afterEach` of each file: a hook of this module would be one of the first file of a process only. */
export async function closeAll(): Promise<void> {
  for (const close of cleanup.splice(0).reverse()) await close();
}

interface Webhook {
  readonly name: string;
  readonly clientConfig: { readonly caBundle?: string; readonly service: unknown };
  readonly failurePolicy?: string;
}

const encoded = (bundle: string) => Buffer.from(bundle).toString('base64');

export const webhook = (name: string, service = 'meshd', failurePolicy = 'Ignore', bundle?: string): Webhook => ({
  name,
  clientConfig: {
    service: { name: service, namespace: 'mesh-system' },
    ...(bundle !== undefined && { caBundle: encoded(bundle) }),
  },
  failurePolicy,
});

/** How the API server answers the self-check: status and message; undefined: it accepts the object. */
type CheckAnswer = readonly [status: number, message: string] | undefined;
export const UNREACHED: CheckAnswer = undefined;
export const REFUSED: CheckAnswer = [
  422,
  'admission webhook "check" denied the request: spec.servers[1].port.name: same',
];
export const FAILING: CheckAnswer = [
  500,
  'Internal error occurred: failed calling webhook "check": connection refused',
];

/** Ends after the test. */
export async function cluster() {
  const server = await ScriptedApiServer.start();
  server.serve(MUTATING);
  server.serve(VALIDATING);
  cleanup.push(() => server.stop());
  const clock = fastClock(50);
  const lines: string[] = [];
  const counts = { loaded: 0, loadFailed: 0, updated: 0, updateFailed: 0, deleted: 0 };
  const control = {
    check: REFUSED as CheckAnswer,
    /** Errors that answer requests instead. */
    refuse: (_request: SeenRequest): readonly [number, string] | undefined => undefined,
    /** Called after each patch was stored. */
    patched: (): void => {},
  };
  const note = (message: string): void => void lines.push(message);
  let bundle: string | undefined = 'ONE';

  server.intercept = (request, stream) => {
    const refusal = control.refuse(request);
    if (refusal !== undefined) return server.fail(stream, ...refusal);
    if (request.method === 'POST' && request.path === CHECKS) return answerCheck(server, stream, control.check);
    if (request.method !== 'PATCH') return false;
    patch(server, request, stream);
    control.patched();
    return true;
  };

  /** Starts another replica that leads. */
  const lead = (now = clock.now) => {
    const connection = new Connection({
      access: server.access(),
      clock: { ...clock, now },
      random: () => 0,
      userAgent: 'test',
    });
    const configurations = new WebhookConfigurations({
      client: new KubernetesClient(connection),
      names: NAMES,
      hosts: ['meshd.mesh-system.svc'],
      namespace: 'mesh-system',
      revision: '',
      caBundle: () => bundle,
      observer: {
        loaded: () => counts.loaded++,
        loadFailed: () => counts.loadFailed++,
        updated: () => counts.updated++,
        updateFailed: () => counts.updateFailed++,
        deleted: () => counts.deleted++,
      },
      log: { debug: () => {}, info: note, warn: note, error: note },
    });
    configurations.start();
    cleanup.push(async () => {
      await configurations.close();
      connection.close();
    });
    return configurations;
  };
  const set = (path: string, ...webhooks: readonly Webhook[]): void => {
    const name = path === MUTATING ? NAMES.injection : NAMES.validation;
    server.set(path, { metadata: { name }, webhooks });
  };
  const webhooks = (path: string) => {
    const name = path === MUTATING ? NAMES.injection : NAMES.validation;
    return (server.find(path, name, '')?.webhooks ?? []) as readonly Webhook[];
  };
  const bundles = (path: string) =>
    webhooks(path).map(({ clientConfig: { caBundle = '' } }) => Buffer.from(caBundle, 'base64').toString());
  const policies = () => webhooks(VALIDATING).map(({ failurePolicy }) => failurePolicy);
  const patches = () => server.requests.filter(({ method }) => method === 'PATCH');
  const checks = () => server.requests.filter(({ method }) => method === 'POST');
  const rotate = (text: string | undefined): void => {
    bundle = text;
  };
  const until = (done: () => boolean) => waitUntil(done, { what: () => lines.join('\n') });
  const find = (pattern: RegExp) => lines.filter((line) => pattern.test(line));
  return { server, control, lines, counts, lead, set, bundles, policies, patches, checks, rotate, until, find };
}

export function answerCheck(server: ScriptedApiServer, stream: ServerHttp2Stream, answer: CheckAnswer): true {
  if (answer === undefined) return server.json(stream, { metadata: { name: SELF_CHECK_NAME } });
  const [code, message] = answer;
  stream.respond({ ':status': code, 'content-type': 'application/json' });
  stream.end(JSON.stringify({ kind: 'Status', code, reason: '', message }));
  return true;
}

/** Applies a JSON patch to what is stored, with the check of the version that a real API server makes. */
function patch(server: ScriptedApiServer, { path, body, headers }: SeenRequest, stream: ServerHttp2Stream): void {
  assert.equal(headers['content-type'], 'application/json-patch+json');
  const [collection, name] = [path.slice(0, path.lastIndexOf('/')), path.slice(path.lastIndexOf('/') + 1)];
  const before = server.find(collection, name, '');
  if (before === undefined) return void server.fail(stream, 404, 'NotFound');
  const after = structuredClone(before) as Listed;
  for (const { op, path: pointer, value } of JSON.parse(body) as { op: string; path: string; value: string }[]) {
    assert.ok(op === 'add' || op === 'replace');
    const keys = pointer.split('/').slice(1);
    const last = keys.pop() ?? '';
    if (last === 'resourceVersion' && value !== before.metadata.resourceVersion)
      return void server.fail(stream, 409, 'Conflict');
    let at = after as Record<string, unknown>;
    for (const key of keys) at = at[key] as Record<string, unknown>;
    at[last] = value;
  }
  server.set(collection, after);
  server.json(stream, server.find(collection, name, ''));
}
