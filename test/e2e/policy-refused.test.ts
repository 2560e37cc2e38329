/**
 * Policies with a mistake: their last good version stays in force, over a restart as well. Without a good version the
 * strictest policy is in force. Through agents, real Envoys and redirection.
 */
import assert from 'node:assert/strict';
import { readdir, rm } from 'node:fs/promises';
import { before, test } from 'node:test';
import { eventually, netnsUnavailable } from '../harness/index.ts';
import { type Document, resource } from './support/config.ts';
import { type IdentityWorld, startIdentityWorld, type Workload } from './support/identity-world.ts';
import { type Signer, signer } from './support/jwt-world.ts';
import { httpOutcome } from './support/peer-calls.ts';
import { policyDocument } from './support/policy-documents.ts';
import { lazy, suiteOwner } from './support/suite.ts';

const skip = (await netnsUnavailable()) ?? false;
const NAMESPACE = 'foo';
const ISSUER = 'issuer.test';

interface Shared {
  readonly world: IdentityWorld;
  readonly web: Workload;
  readonly api: Workload;
  readonly plain: Workload;
  readonly tokens: Signer;
}

const owner = suiteOwner();
const shared = lazy<Shared>();

before(async () => {
  if (skip !== false) return;
  const world = await startIdentityWorld(owner);
  const [web, api, plain] = await Promise.all([
    world.addWorkload({ name: 'web', namespace: NAMESPACE, proxied: true }),
    world.addWorkload({ name: 'api', namespace: NAMESPACE, proxied: true }),
    world.addWorkload({ name: 'plain', namespace: 'legacy', proxied: false }),
  ]);
  shared.set({ world, web, api, plain, tokens: await signer('ES256', 'one') });
});

const selector = { matchLabels: { app: 'web' } };

/** The three policies of `web`, and a rule of the policy component with its handler, with or without mistakes. */
function policies(jwks: string, mistake: boolean): Document[] {
  const paths = mistake ? { path: ['/admin'] } : { paths: ['/admin'] };
  const mtls = mistake ? { mod: 'STRICT' } : { mode: 'STRICT' };
  const rule = { issuer: ISSUER, jwks, ...(mistake ? { audience: ['x'] } : {}) };
  return [
    resource(
      'AuthorizationPolicy',
      'deny',
      { selector, action: 'DENY', rules: [{ to: [{ operation: paths }] }] },
      NAMESPACE,
    ),
    resource('PeerAuthentication', 'strict', { selector, mtls }, NAMESPACE),
    resource('RequestAuthentication', 'tokens', { selector, jwtRules: [rule] }, NAMESPACE),
    policyDocument(
      'handler',
      'no',
      { [mistake ? 'compiled' : 'compiledAdapter']: 'denier', params: DENIAL },
      NAMESPACE,
    ),
    policyDocument('instance', 'any', { compiledTemplate: 'checknothing' }, NAMESPACE),
    policyDocument(
      'rule',
      'no',
      { match: 'request.path == "/rule"', actions: [{ [mistake ? 'handlr' : 'handler']: 'no', instances: ['any'] }] },
      NAMESPACE,
    ),
  ];
}

const DENIAL = { status: { code: 16 } };

/**
 * The outcomes of calls: by a workload of the mesh to `/` and `/admin`, with a valid and an invalid token, and in plain
 * text.
 */
async function outcomes(): Promise<Record<string, string>> {
  const { web, api, plain, tokens } = shared.get();
  const call = (from: Workload, path: string, token?: string) => {
    const address = from.proxied ? `${web.serviceAddress}:80` : `${web.netns.address}:8080`;
    const header = token === undefined ? [] : ['-H', `Authorization: Bearer ${token}`];
    return httpOutcome(from, web, ['-m', '20', ...header, `http://${address}${path}`]);
  };
  return {
    open: await call(api, '/'),
    admin: await call(api, '/admin'),
    rule: await call(api, '/rule'),
    token: await call(api, '/', await tokens.token({ iss: ISSUER, sub: 'me' })),
    badToken: await call(api, '/', 'e30.e30.x'),
    plain: await call(plain, '/'),
  };
}

const AS_WRITTEN = { open: '200 mtls', admin: '403', rule: '401', token: '200 mtls', badToken: '401', plain: '000/56' };
const STRICTEST = { open: '403', admin: '403', rule: '403', token: '401', badToken: '401', plain: '000/56' };

const come = (to: object) => eventually(async () => assert.deepEqual(await outcomes(), to), { timeoutMs: 30_000 });

/** Restarts ctl-discovery, and waits until both Envoys are up to date. */
async function restart(between: () => Promise<unknown> = async () => {}): Promise<void> {
  const { world } = shared.get();
  await world.stopDiscovery();
  await between();
  await world.startDiscovery();
  await eventually(
    async () => {
      const all = JSON.parse(await world.http('/debug/syncz')) as Record<string, string>[];
      assert.deepEqual(
        all.map(({ listener_state }) => listener_state),
        ['SYNCED', 'SYNCED'],
      );
    },
    { timeoutMs: 30_000 },
  );
}

async function refused(): Promise<Record<string, string>> {
  const page = JSON.parse(await shared.get().world.http('/debug/push_status')) as {
    refusedPolicies: { key: string; inForce: string; field: string }[];
  };
  return Object.fromEntries(page.refusedPolicies.map(({ key, inForce, field }) => [`${key}: ${field}`, inForce]));
}

const refusedAll = (inForce: string) => ({
  'AuthorizationPolicy/foo/deny: spec.rules[0].to[0].operation.path': inForce,
  'PeerAuthentication/foo/strict: spec.mtls.mod': inForce,
  'RequestAuthentication/foo/tokens: spec.jwtRules[0].audience': inForce,
  'rule/foo/no: spec.actions[0].handlr': inForce,
});
/** It has no substitute: without it, its rules refuse requests. */
const HANDLER = { 'handler/foo/no: spec': 'last_good' };

test('DENY, STRICT, token rules and rules of the policy component with a mistake stay in force over a restart, or are the strictest', {
  skip,
  timeout: 600_000,
}, async () => {
  const { world, tokens } = shared.get();
  await world.config.apply('policies', ...policies(tokens.jwks, false));
  await come(AS_WRITTEN);
  assert.equal(await world.http('/ready'), 'ready\n');

  await world.config.apply('policies', ...policies(tokens.jwks, true));
  await eventually(async () => assert.deepEqual(await refused(), { ...refusedAll('last_good'), ...HANDLER }));
  assert.deepEqual(await outcomes(), AS_WRITTEN);

  await restart();
  assert.deepEqual(await outcomes(), AS_WRITTEN);
  assert.deepEqual(await refused(), { ...refusedAll('last_good'), ...HANDLER });
  assert.equal(
    await world.http('/ready'),
    'ready, degraded: 5 policies refused, 5 with the last good version, 0 with the strictest policy; see /debug/push_status\n',
  );
  assert.match(await world.metrics(), /^ctl_refused_security_documents\{in_force="last_good"\} 5$/m);
  assert.match(
    world.discoveryOutput(),
    /policies\.yaml:\d+: PeerAuthentication\/foo\/strict: spec\.mtls\.mod: unknown field.*last good version stays in force/,
  );

  // Without the stored versions the content of the policies is unknown.
  assert.equal((await readdir(world.stateDir)).length, 6);
  await restart(() => rm(world.stateDir, { recursive: true }));
  await come(STRICTEST);
  assert.deepEqual(await refused(), refusedAll('substitute'));
  assert.match(await world.metrics(), /^ctl_refused_security_documents\{in_force="substitute"\} 4$/m);

  await world.config.apply('policies', ...policies(tokens.jwks, false));
  await come(AS_WRITTEN);
  assert.equal(await world.http('/ready'), 'ready\n');
  await world.config.remove('policies');
  await come({
    open: '200 mtls',
    admin: '200 mtls',
    rule: '200 mtls',
    token: '200 mtls',
    badToken: '200 mtls',
    plain: '200 plain',
  });
  await restart();
  assert.deepEqual(await refused(), {});
});
