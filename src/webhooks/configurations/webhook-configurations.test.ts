/** The webhook configurations in a scripted API server: what is written, repaired, checked, and left alone. */
import assert from 'node:assert/strict';
import type { ServerHttp2Stream } from 'node:http2';
import { afterEach, describe, test } from 'node:test';
import { waitUntil } from '../../core/testing/wait-until.ts';
import { Connection, KubernetesClient } from '../../kubernetes/index.ts';
import { fastClock } from '../../kubernetes/testing/fast-clock.ts';
import { type Listed, ScriptedApiServer, type SeenRequest } from '../../kubernetes/testing/scripted-api-server.ts';
import { SELF_CHECK_NAME } from './self-check.ts';
import { WebhookConfigurations } from './webhook-configurations.ts';

const API = '/apis/admissionregistration.k8s.io/v1';
const MUTATING = `${API}/mutatingwebhookconfigurations`;
const VALIDATING = `${API}/validatingwebhookconfigurations`;
const CHECKS = '/apis/networking.mesh.io/v1alpha3/namespaces/mesh-system/gateways';
const NAMES = { injection: 'mesh-sidecar-injector', validation: 'meshd-mesh-system' };

const cleanup: (() => Promise<void> | void)[] = [];

afterEach(async () => {
  for (const close of cleanup.splice(0).reverse()) await close();
});

interface Webhook {
  readonly name: string;
  readonly clientConfig: { readonly caBundle?: string; readonly service: unknown };
  readonly failurePolicy?: string;
}

const encoded = (bundle: string) => Buffer.from(bundle).toString('base64');

const webhook = (name: string, service = 'meshd', failurePolicy = 'Ignore', bundle?: string): Webhook => ({
  name,
  clientConfig: {
    service: { name: service, namespace: 'mesh-system' },
    ...(bundle !== undefined && { caBundle: encoded(bundle) }),
  },
  failurePolicy,
});

/** How the API server answers the self-check: status and message; undefined: it accepts the object. */
type CheckAnswer = readonly [status: number, message: string] | undefined;
const UNREACHED: CheckAnswer = undefined;
const REFUSED: CheckAnswer = [422, 'admission webhook "check" denied the request: spec.servers[1].port.name: same'];
const FAILING: CheckAnswer = [500, 'Internal error occurred: failed calling webhook "check": connection refused'];

async function cluster() {
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
    const connection = new Connection({ access: server.access(), clock, random: () => 0, userAgent: 'test' });
    const configurations = new WebhookConfigurations({
      client: new KubernetesClient(connection),
      names: NAMES,
      hosts: ['meshd.mesh-system.svc'],
      namespace: 'mesh-system',
      revision: '',
      caBundle: () => bundle,
      clock: { ...clock, now },
      random: () => 0,
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

function answerCheck(server: ScriptedApiServer, stream: ServerHttp2Stream, answer: CheckAnswer): true {
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

describe('the webhook configurations', () => {
  test('get the CA bundle in the webhooks that lead to the control plane, and in no others', async () => {
    const it = await cluster();
    it.set(MUTATING, webhook('a'), webhook('others', 'elsewhere', 'Fail', 'THEIRS'), webhook('b', 'meshd', 'Fail'));
    it.set(VALIDATING, webhook('check'));
    it.lead();
    await it.until(() => it.bundles(MUTATING).join() === 'ONE,THEIRS,ONE' && it.bundles(VALIDATING).join() === 'ONE');
    assert.equal(it.patches().filter(({ path }) => path.startsWith(MUTATING)).length, 1);
  });

  test('are not written where they are current', async () => {
    const it = await cluster();
    it.set(MUTATING, webhook('a', 'meshd', 'Fail', 'ONE'));
    it.set(VALIDATING, webhook('check', 'meshd', 'Fail', 'ONE'));
    it.lead();
    await it.until(() => it.checks().length === 1 && it.server.watches(MUTATING) > 0);
    it.set(MUTATING, webhook('a', 'meshd', 'Fail', 'OTHER'));
    await it.until(() => it.bundles(MUTATING).join() === 'ONE');
    assert.equal(it.patches().length, 1);
  });

  test('follow the bundle, and are repaired when others change them', async () => {
    const it = await cluster();
    it.set(MUTATING, webhook('a'));
    it.set(VALIDATING, webhook('check'));
    const configurations = it.lead();
    await it.until(() => it.bundles(MUTATING).join() === 'ONE' && it.policies().join() === 'Fail');
    it.rotate('ONE TWO');
    configurations.bundleChanged();
    await it.until(() => [...it.bundles(MUTATING), ...it.bundles(VALIDATING)].every((each) => each === 'ONE TWO'));
    it.set(MUTATING, webhook('a', 'meshd', 'Ignore', 'FORGED'), webhook('new'));
    it.set(VALIDATING, webhook('check', 'meshd', 'Ignore', 'FORGED'));
    await it.until(() => it.bundles(MUTATING).join() === 'ONE TWO,ONE TWO' && it.policies().join() === 'Fail');
    assert.deepEqual(it.bundles(VALIDATING), ['ONE TWO']);
  });

  test('are left alone without a bundle of its own', async () => {
    const it = await cluster();
    it.rotate(undefined);
    it.set(MUTATING, webhook('a', 'meshd', 'Fail', 'OPERATOR'));
    it.set(VALIDATING, webhook('check', 'meshd', 'Ignore', 'OPERATOR'));
    it.lead();
    await it.until(() => it.policies().join() === 'Fail');
    assert.deepEqual([...it.bundles(MUTATING), ...it.bundles(VALIDATING)], ['OPERATOR', 'OPERATOR']);
  });

  test('are picked up when they are created, and their deletion is reported', async () => {
    const it = await cluster();
    it.lead();
    await it.until(() => it.find(/does not exist/).length === 2);
    it.set(VALIDATING, webhook('check'));
    it.set(MUTATING, webhook('a'));
    await it.until(() => it.bundles(MUTATING).join() === 'ONE' && it.policies().join() === 'Fail');
    it.server.remove(VALIDATING, { name: NAMES.validation });
    it.server.remove(MUTATING, { name: NAMES.injection });
    await it.until(() => it.find(/was deleted/).length === 2);
    assert.equal(it.counts.deleted, 1);
    it.set(VALIDATING, webhook('check'));
    await it.until(() => it.policies().join() === 'Fail');
  });

  test('without a webhook of this control plane are left alone, with one line', async () => {
    const it = await cluster();
    it.set(MUTATING, webhook('a', 'meshd-canary'));
    it.set(VALIDATING, webhook('check'));
    it.lead();
    await it.until(() => it.policies().join() === 'Fail');
    it.set(MUTATING, webhook('a', 'meshd-canary'), webhook('b', 'meshd-canary'));
    it.set(MUTATING, webhook('a'));
    await it.until(() => it.bundles(MUTATING).join() === 'ONE');
    assert.equal(it.find(/has no webhook that leads to meshd\.mesh-system\.svc/).length, 1, it.lines.join('\n'));
  });

  test('are written with the version that was read: a change in between is not overwritten', async () => {
    const it = await cluster();
    it.set(MUTATING, webhook('a'));
    it.set(VALIDATING, webhook('check', 'meshd', 'Fail', 'ONE'));
    let raced = false;
    it.control.refuse = ({ method, path }) => {
      if (method !== 'PATCH' || raced || !path.startsWith(MUTATING)) return undefined;
      raced = true;
      it.set(MUTATING, webhook('theirs', 'elsewhere', 'Fail', 'THEIRS'), webhook('a'));
      return undefined;
    };
    it.lead();
    await it.until(() => it.bundles(MUTATING).join() === 'THEIRS,ONE');
    assert.deepEqual(it.find(/cannot be updated/), []);
  });

  test('are not fought for with another program', async () => {
    const it = await cluster();
    it.set(VALIDATING, webhook('check', 'meshd', 'Fail', 'ONE'));
    it.set(MUTATING, webhook('a'));
    let fighting = true;
    it.control.patched = () => {
      if (fighting) queueMicrotask(() => it.set(MUTATING, webhook('a', 'meshd', 'Fail', 'THEIRS')));
    };
    let now = 0;
    it.lead(() => now);
    await it.until(() => it.patches().length === 5);
    // Each of these changes is one that it would repair.
    for (let edits = 0; edits < 20; edits++) it.set(MUTATING, webhook('a', 'meshd', 'Fail', `THEIRS ${edits}`));
    it.server.remove(VALIDATING, { name: NAMES.validation });
    await it.until(() => it.counts.deleted === 1);
    assert.equal(it.patches().length, 5);
    fighting = false;
    now = 60_000;
    await it.until(() => it.bundles(MUTATING).join() === 'ONE');
    assert.equal(it.patches().length, 6);
  });

  test('that may not be written are one line in the log, and are written once that is allowed', async () => {
    const it = await cluster();
    it.set(MUTATING, webhook('a', 'meshd', 'Fail', 'ONE'));
    it.set(VALIDATING, webhook('check'));
    it.control.refuse = ({ method }) => (method === 'PATCH' ? [403, 'Forbidden'] : undefined);
    it.lead();
    await it.until(() => it.counts.updateFailed >= 4);
    assert.equal(it.find(/meshd-mesh-system cannot be updated: HTTP 403 Forbidden/).length, 1, it.lines.join('\n'));
    it.control.refuse = () => undefined;
    await it.until(() => it.policies().join() === 'Fail');
    assert.equal(it.find(/is updated again/).length, 1);
    await it.until(() => it.counts.updated === 2);
  });

  test('that may not be read are one line each in the log', async () => {
    const it = await cluster();
    it.set(MUTATING, webhook('a'));
    it.set(VALIDATING, webhook('check'));
    it.control.refuse = ({ method }) => (method === 'GET' ? [403, 'Forbidden'] : undefined);
    it.lead();
    await it.until(() => it.counts.loadFailed >= 4);
    assert.equal(it.lines.length, 2, it.lines.join('\n'));
    assert.equal(it.find(/cannot be read, so it is not kept current: HTTP 403 Forbidden/).length, 2);
    it.control.refuse = () => undefined;
    await it.until(() => it.policies().join() === 'Fail');
    assert.ok(it.counts.loaded >= 1);
  });
});

describe('the failure policy of validation', () => {
  test('becomes Fail only when the API server reaches the webhook', async () => {
    const it = await cluster();
    it.set(VALIDATING, webhook('check'));
    it.control.check = UNREACHED;
    it.lead();
    await it.until(() => it.checks().length > 6);
    assert.deepEqual(it.policies(), ['Ignore']);
    assert.equal(it.find(/not proved to work: failurePolicy stays Ignore: the API server does not reach/).length, 1);
    it.control.check = REFUSED;
    await it.until(() => it.policies().join() === 'Fail');
    assert.equal(it.find(/the API server reaches the validation/).length, 1);
  });

  test('is checked by a dry run that stores nothing', async () => {
    const it = await cluster();
    it.set(VALIDATING, webhook('check'));
    it.lead();
    await it.until(() => it.policies().join() === 'Fail');
    assert.ok(it.checks().every(({ query }) => query.get('dryRun') === 'All'));
    const { metadata } = JSON.parse(it.checks()[0]?.body ?? '') as Listed;
    assert.deepEqual(metadata, { name: SELF_CHECK_NAME, namespace: 'mesh-system', labels: {} });
  });

  test('is not proved by a refusal of something else than the webhook', async () => {
    const it = await cluster();
    it.set(VALIDATING, webhook('check'));
    for (const answer of [
      [403, 'gateways.networking.mesh.io is forbidden'],
      [422, 'Gateway "mesh-validation-self-check" is invalid: spec: too bad'],
      [400, 'admission webhook "somebody" denied the request: no'],
    ] as const) {
      it.control.check = answer;
      const before = it.checks().length;
      if (before === 0) it.lead();
      await it.until(() => it.checks().length > before + 1);
      assert.deepEqual(it.policies(), ['Ignore']);
    }
  });

  test('is proved with the kinds of Istio where the cluster has only those', async () => {
    const it = await cluster();
    it.set(VALIDATING, webhook('check'));
    const { intercept } = it.server;
    it.server.intercept = (request, stream) => {
      if (request.path === CHECKS) return it.server.fail(stream, 404, 'NotFound');
      if (request.method !== 'POST') return intercept(request, stream);
      assert.equal(request.path, CHECKS.replace('mesh.io', 'istio.io'));
      return answerCheck(it.server, stream, REFUSED);
    };
    it.lead();
    await it.until(() => it.policies().join() === 'Fail');
  });

  test('stays Fail while the control plane is away, and the log says that edits are refused', async () => {
    const it = await cluster();
    it.set(VALIDATING, webhook('check'));
    const configurations = it.lead();
    await it.until(() => it.policies().join() === 'Fail');
    it.control.check = FAILING;
    it.rotate('TWO');
    configurations.bundleChanged();
    await it.until(() => it.find(/no edits of mesh resources are accepted: .*connection refused/).length === 1);
    assert.deepEqual([it.policies(), it.bundles(VALIDATING)], [['Fail'], ['TWO']]);
    it.control.check = REFUSED;
    await it.until(() => it.find(/the API server reaches the validation/).length === 1);
  });

  test('that somebody opened is closed again only after another check', async () => {
    const it = await cluster();
    it.set(VALIDATING, webhook('check'));
    it.lead();
    await it.until(() => it.policies().join() === 'Fail');
    it.control.check = UNREACHED;
    it.set(VALIDATING, webhook('check', 'meshd', 'Ignore', 'ONE'));
    const before = it.checks().length;
    await it.until(() => it.checks().length > before + 2);
    assert.deepEqual(it.policies(), ['Ignore']);
    it.control.check = REFUSED;
    await it.until(() => it.policies().join() === 'Fail');
  });

  test('is left to the operator by an annotation', async () => {
    const it = await cluster();
    const metadata = { name: NAMES.validation, annotations: { 'mesh.io/failure-policy': 'Ignore' } };
    it.server.set(VALIDATING, { metadata, webhooks: [webhook('check')] });
    it.lead();
    await it.until(() => it.bundles(VALIDATING).join() === 'ONE' && it.checks().length === 1);
    it.set(VALIDATING, webhook('check', 'meshd', 'Ignore', 'ONE'));
    await it.until(() => it.policies().join() === 'Fail');
    assert.equal(it.patches().length, 2);
  });

  test('is checked again with each bundle', async () => {
    const it = await cluster();
    it.set(VALIDATING, webhook('check'));
    const configurations = it.lead();
    await it.until(() => it.policies().join() === 'Fail' && it.checks().length === 1);
    it.rotate('TWO');
    configurations.bundleChanged();
    await it.until(() => it.checks().length === 2);
    assert.deepEqual(it.bundles(VALIDATING), ['TWO']);
  });
});
