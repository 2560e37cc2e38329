/**
 * AuthorizationPolicies in dry run (annotation `mesh.io/dry-run`, or Istio's name of it): they are evaluated, counted
 * and logged, and have no effect. Through agents, real Envoys and redirection.
 */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, before, describe, test } from 'node:test';
import { stringify } from 'yaml';
import { eventually, netnsUnavailable, tempDir } from '../harness/index.ts';
import { type Document, resource } from './support/config.ts';
import { type IdentityWorld, startIdentityWorld, type Workload } from './support/identity-world.ts';
import { httpOutcome, outcomeOf } from './support/peer-calls.ts';
import { lazy, suiteOwner } from './support/suite.ts';

const skip = (await netnsUnavailable()) ?? false;
const NAMESPACE = 'foo';
const ISTIO = 'istio.io/dry-run';
const MESH = 'mesh.io/dry-run';
const PATIENCE = { timeoutMs: 30_000 };

interface Shared {
  readonly world: IdentityWorld;
  readonly web: Workload;
  readonly plain: Workload;
}

const owner = suiteOwner();
const shared = lazy<Shared>();

/** What access logs say about a request: its path, and for each kind of dry run the result and the rule. */
const logged = (action: string) =>
  `%DYNAMIC_METADATA(envoy.filters.http.rbac:istio_dry_run_${action}_shadow_engine_result)% ` +
  `%DYNAMIC_METADATA(envoy.filters.http.rbac:istio_dry_run_${action}_shadow_effective_policy_id)%`;
const LOG_FORMAT = `LOG %REQ(:PATH)% deny ${logged('deny')} allow ${logged('allow')}\n`;

before(async () => {
  if (skip !== false) return;
  const meshConfig = join(await tempDir(owner), 'mesh.yaml');
  await writeFile(meshConfig, stringify({ accessLogFile: '/dev/stderr', accessLogFormat: LOG_FORMAT }));
  const world = await startIdentityWorld(owner, { flags: ['--meshConfig', meshConfig] });
  const [web, plain] = await Promise.all([
    world.addWorkload({ name: 'web', namespace: NAMESPACE, proxied: true }),
    world.addWorkload({ name: 'plain', namespace: 'legacy', proxied: false }),
  ]);
  shared.set({ world, web, plain });
});

interface PolicyOptions {
  readonly action?: string;
  /** Annotations; none: the policy is enforced. */
  readonly annotations?: Readonly<Record<string, unknown>>;
  readonly more?: Document;
}

function policy(name: string, rules: readonly Document[], { action, annotations, more }: PolicyOptions = {}): Document {
  const selector = { matchLabels: { app: 'web' } };
  const document = resource('AuthorizationPolicy', name, { selector, action, rules, ...more }, NAMESPACE);
  return annotations === undefined ? document : { ...document, metadata: { name, namespace: NAMESPACE, annotations } };
}

const paths = (...list: readonly string[]): Document => ({ to: [{ operation: { paths: list } }] });

/** The outcome of a request by the client without a proxy. */
function call(path: string): Promise<string> {
  const { plain, web } = shared.get();
  return httpOutcome(plain, web, ['-m', '20', `http://${web.netns.address}:8080${path}`]);
}

/** What the counters are about, by their names for Prometheus. */
const COUNTERS: Readonly<Record<string, string>> = { envoy_http_rbac: 'http', envoy_tcp_rbac: 'tcp' };

/** Counters of the workload's proxy for an action, `http denied` and the like, as Prometheus reads them. */
async function counted(action: string): Promise<Record<string, number>> {
  const { web } = shared.get();
  const text = await web.netns.run('curl', '-sS', '--fail', 'http://127.0.0.1:15090/stats/prometheus');
  const found: Record<string, number> = {};
  for (const line of text.split('\n')) {
    const [, name = '', labels = '', value = ''] = /^(\w+)\{([^}]*)\} (\d+)$/.exec(line) ?? [];
    if (!labels.includes(`authz_dry_run_action="${action}"`)) continue;
    const [, result = ''] = /authz_dry_run_result="(\w+)"/.exec(labels) ?? [];
    const key = `${COUNTERS[name] ?? name} ${result}`;
    found[key] = (found[key] ?? 0) + Number(value);
  }
  return found;
}

/** Applies policies together with one that is enforced, and waits until that one has arrived. */
async function inForce(...policies: readonly Document[]): Promise<void> {
  const { config } = shared.get().world;
  const rules = [{ to: [{ operation: { paths: ['/arrived'], ports: ['8080'] } }] }];
  await config.apply('policies', policy('arrived', rules, { action: 'DENY' }), ...policies);
  await eventually(async () => assert.equal(await call('/arrived'), '403'), PATIENCE);
}

describe('AuthorizationPolicies in dry run', { skip }, () => {
  afterEach(async () => {
    if (skip !== false) return;
    await shared.get().world.config.remove('policies');
    await eventually(async () => {
      for (const path of ['/', '/admin', '/arrived']) assert.equal(await call(path), '200 plain');
      assert.equal(await outcomeOf({ from: shared.get().plain, to: shared.get().web, port: 'bytes' }), 'ok');
    }, PATIENCE);
  });

  test('a DENY denies nothing, and is counted and logged', async () => {
    await inForce(policy('no-admin', [paths('/admin')], { action: 'DENY', annotations: { [ISTIO]: 'true' } }));
    const before = await counted('deny');
    assert.equal(await call('/admin'), '200 plain');
    assert.equal(await call('/'), '200 plain');
    await eventually(async () => {
      const { 'http denied': denied = 0, 'http allowed': allowed = 0 } = await counted('deny');
      assert.equal(denied - (before['http denied'] ?? 0), 1);
      assert.ok(allowed > (before['http allowed'] ?? 0));
    });
    const rule = 'ns[foo]-policy[no-admin]-rule[0]';
    await eventually(() => {
      const output = shared.get().web.agent?.output() ?? '';
      assert.ok(output.includes(`LOG /admin deny denied ${rule} allow - -`), output.slice(-2000));
      assert.ok(output.includes('LOG / deny allowed - allow - -'));
    });
  });

  test('an ALLOW neither opens what others close, nor closes anything itself', async () => {
    const dryRun = policy('all', [{}], { annotations: { [MESH]: 'true' } });
    await inForce(dryRun, policy('only-public', [paths('/public')]));
    assert.equal(await call('/public'), '200 plain');
    assert.equal(await call('/admin'), '403');
    await inForce(policy('only-public', [paths('/public')], { annotations: { [MESH]: 'true' } }));
    await eventually(async () => assert.equal(await call('/admin'), '200 plain'), PATIENCE);
    const before = await counted('allow');
    assert.equal(await call('/admin'), '200 plain');
    assert.equal(await call('/public'), '200 plain');
    await eventually(async () => {
      const { 'http denied': denied = 0, 'http allowed': allowed = 0 } = await counted('allow');
      assert.equal(denied - (before['http denied'] ?? 0), 1);
      assert.equal(allowed - (before['http allowed'] ?? 0), 1);
    });
  });

  test('connections pass, and are counted', async () => {
    const rules = [{ to: [{ operation: { ports: ['9001'] } }] }];
    await inForce(policy('no-bytes', rules, { action: 'DENY', annotations: { [ISTIO]: 'true' } }));
    const { plain, web } = shared.get();
    const { 'tcp denied': before = 0 } = await counted('deny');
    assert.equal(await outcomeOf({ from: plain, to: web, port: 'bytes' }), 'ok');
    await eventually(async () => assert.equal((await counted('deny'))['tcp denied'], before + 1));
  });

  test('CUSTOM does not call the authorizer, and its provider need not exist', async () => {
    const more = { provider: { name: 'nobody' } };
    await inForce(policy('ask', [paths('/admin')], { action: 'CUSTOM', annotations: { [ISTIO]: 'true' }, more }));
    const { 'http denied': before = 0 } = await counted('custom');
    assert.equal(await call('/admin'), '200 plain');
    await eventually(async () => assert.equal((await counted('custom'))['http denied'], before + 1));
  });

  test('the annotation decides at once, by either name', async () => {
    for (const [annotations, outcome] of [
      [{ [ISTIO]: 'true' }, '200 plain'],
      [{ [ISTIO]: 'false' }, '403'],
      [{ [MESH]: 'true' }, '200 plain'],
      // The mesh's own name takes precedence.
      [{ [ISTIO]: 'true', [MESH]: 'false' }, '403'],
      [{ [ISTIO]: 'false', [MESH]: 'true' }, '200 plain'],
    ] as const) {
      await inForce(policy('no-admin', [paths('/admin')], { action: 'DENY', annotations }));
      await eventually(async () => assert.equal(await call('/admin'), outcome, JSON.stringify(annotations)), PATIENCE);
    }
  });

  test('a mistake in it denies nothing; a value that cannot be read denies everything', async () => {
    const mistake = { selector: { matchLabels: { app: 'web' } }, rule: [] };
    // Unquoted, as YAML files often have it, it is not a string.
    for (const value of ['true', true]) {
      await inForce(policy('wrong', [paths('/')], { action: 'DENY', annotations: { [ISTIO]: value }, more: mistake }));
      assert.equal(await call('/admin'), '200 plain');
    }
    const { world } = shared.get();
    const annotations = { [ISTIO]: 'yes' };
    await world.config.apply('policies', policy('unclear', [paths('/never')], { action: 'DENY', annotations }));
    await eventually(async () => assert.equal(await call('/admin'), '403'), PATIENCE);
    const line =
      /policies\.yaml:\d+: AuthorizationPolicy\/foo\/unclear: .*dry-run.*expected "true" or "false", got "yes"/;
    assert.match(world.discoveryOutput(), line);
  });
});
