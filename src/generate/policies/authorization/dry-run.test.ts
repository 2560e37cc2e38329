import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { envoy } from '../../../protobuf/index.ts';
import { MeshReader } from '../../reads/index.ts';
import { guarded, policyOf } from '../../testing/authorization.ts';
import { inboundView } from '../../testing/listeners.ts';
import { decode, matches, passes, type Request } from '../../testing/rbac.ts';
import { grpcServerPolicies } from '../grpc.ts';
import { authorizerHosts, connectionRules, guardsPaths, policyProblems, requestRules } from './index.ts';

const DRY_RUN = { 'istio.io/dry-run': 'true' };
const { ALLOW, DENY } = envoy.config.rbac.v3.RBAC.Action;

interface Written {
  readonly spec: string;
  readonly dryRun?: boolean;
}

function guard(...policies: readonly Written[]) {
  const resources = policies.map(({ spec, dryRun = false }, index) =>
    policyOf({ name: `p${index}`, spec, ...(dryRun && { annotations: DRY_RUN }) }),
  );
  const { snapshot, view } = guarded(resources);
  const reader = MeshReader.of(snapshot);
  const { external, local } = requestRules(reader, view);
  return { reader, view, requests: [...external, ...local], connections: connectionRules(reader, view) };
}

/** What the dry run of a filter records about a request, by the prefix of its counters. */
function recorded(filters: Parameters<typeof passes>[0], request: Request): Record<string, string> {
  return Object.fromEntries(
    filters.flatMap((filter) => {
      const { shadowRules, shadowRulesStatPrefix } = decode(filter);
      if (shadowRules === null) return [];
      const allowed = matches(shadowRules, request) === (shadowRules.action === ALLOW);
      return [[shadowRulesStatPrefix, allowed ? 'allowed' : 'denied']];
    }),
  );
}

const PUT: Request = { method: 'PUT', port: 80 };
const GET: Request = { method: 'GET', port: 80 };
const puts = '{to: [{operation: {methods: [PUT]}}]}';

describe('a policy in dry run', () => {
  test('DENY: nothing is denied, and what it would deny is recorded', () => {
    const { requests } = guard({ spec: `{action: DENY, rules: [${puts}]}`, dryRun: true });
    assert.ok(passes(requests, PUT) && passes(requests, GET));
    assert.deepEqual(
      requests.map(decode).map(({ shadowRules }) => shadowRules?.action),
      [DENY],
    );
    assert.deepEqual(recorded(requests, PUT), { istio_dry_run_deny_: 'denied' });
    assert.deepEqual(recorded(requests, GET), { istio_dry_run_deny_: 'allowed' });
  });
  test('ALLOW: nothing is closed, and what it would allow is recorded', () => {
    const { requests } = guard({ spec: `{rules: [${puts}]}`, dryRun: true });
    assert.ok(passes(requests, PUT) && passes(requests, GET));
    assert.deepEqual(
      requests.map(decode).map(({ shadowRules }) => shadowRules?.action),
      [ALLOW],
    );
    assert.deepEqual(recorded(requests, PUT), { istio_dry_run_allow_: 'allowed' });
    assert.deepEqual(recorded(requests, GET), { istio_dry_run_allow_: 'denied' });
  });
  test('ALLOW without rules: would allow nobody', () => {
    const { requests, connections } = guard({ spec: '{}', dryRun: true });
    assert.ok(passes(requests, GET) && passes(connections.filters, GET));
    assert.deepEqual(recorded(requests, GET), { istio_dry_run_allow_: 'denied' });
    assert.equal(connections.refusesAll, false);
  });
  test('ALLOW opens nothing that enforced policies close', () => {
    const { requests } = guard({ spec: `{rules: [${puts}]}` }, { spec: '{rules: [{}]}', dryRun: true });
    assert.ok(passes(requests, PUT) && !passes(requests, GET));
    assert.equal(requests.length, 1, 'one filter for both');
    assert.deepEqual(recorded(requests, GET), { istio_dry_run_allow_: 'allowed' });
    const names = requests
      .map(decode)
      .map(({ rules, shadowRules }) => [Object.keys(rules?.policies ?? {}), Object.keys(shadowRules?.policies ?? {})]);
    assert.deepEqual(names, [[['ns[shop]-policy[p0]-rule[0]'], ['ns[shop]-policy[p1]-rule[0]']]]);
  });
  test('CUSTOM: no authorizer is called, and an unknown one is reported and denies nothing', () => {
    const spec = `{action: CUSTOM, provider: {name: nobody}, rules: [${puts}]}`;
    const { reader, view, requests, connections } = guard({ spec, dryRun: true });
    assert.ok(passes(requests, PUT) && passes(connections.filters, PUT));
    assert.deepEqual(recorded(requests, PUT), { istio_dry_run_custom_: 'denied' });
    assert.deepEqual(recorded(requests, GET), { istio_dry_run_custom_: 'allowed' });
    assert.deepEqual(authorizerHosts(reader, view), new Set());
    assert.match(
      policyProblems(reader, view).join(),
      /no extension provider nobody; requests .* would be denied \(dry run\)$/,
    );
  });
  test('connections pass, and what it would deny is recorded', () => {
    const spec = "{action: DENY, rules: [{to: [{operation: {ports: ['80']}}]}]}";
    const { connections } = guard({ spec, dryRun: true });
    assert.ok(passes(connections.filters, PUT));
    assert.deepEqual(recorded(connections.filters, PUT), { istio_dry_run_deny_: 'denied' });
    assert.equal(guard({ spec: '{action: DENY, rules: [{}]}', dryRun: true }).connections.refusesAll, false);
  });
  test('paths are not normalized because of it', () => {
    const spec = '{action: DENY, rules: [{to: [{operation: {paths: [/a]}}]}]}';
    for (const dryRun of [true, false]) {
      const { reader, view } = guard({ spec, dryRun });
      assert.equal(guardsPaths(reader, view), !dryRun);
    }
  });
  test('gRPC servers leave it out', () => {
    for (const spec of ['{}', '{action: DENY, rules: [{}]}', '{action: CUSTOM, provider: {name: a}, rules: [{}]}']) {
      const { reader, view } = guard({ spec, dryRun: true });
      const server = { ...inboundView(), part: 'grpc-server', policies: view.policies, tlsReady: false } as const;
      assert.deepEqual(grpcServerPolicies(reader, server, false), { filters: [], problems: [] }, spec);
    }
  });
});
