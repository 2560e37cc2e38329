/** What the replica that leads writes to a scripted API server. */

import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { Clock } from '../core/clock.ts';
import { TokenBucket } from '../core/fairness/token-bucket.ts';
import { waitUntil } from '../core/testing/wait-until.ts';
import { Connection, KubernetesClient } from '../kubernetes/index.ts';
import { fastClock } from '../kubernetes/testing/fast-clock.ts';
import { ScriptedApiServer } from '../kubernetes/testing/scripted-api-server.ts';
import { type Refusal, storeWrites } from '../kubernetes/testing/writable-objects.ts';
import type { Acknowledgements } from './acknowledgements/document-acknowledgements.ts';
import type { DocumentState } from './acknowledgements/document-state.ts';
import type { MeshFindings } from './findings/mesh-findings.ts';
import type { ValidationMessage } from './findings/validation-messages.ts';
import { MeshObjects } from './mesh-objects.ts';
import { MeshStatuses, OVERDUE_MS } from './mesh-statuses.ts';

const TYPE = {
  group: 'networking.mesh.io',
  version: 'v1alpha3',
  plural: 'gateways',
  kind: 'Gateway',
  namespaced: true,
};
const KEY = 'Gateway/edge/web';
const FOUND: ValidationMessage = {
  type: { name: 'ReferencedResourceNotFound', code: 'IST0101' },
  level: 'ERROR',
  documentationUrl: 'docs/reference/messages.md#ist0101',
  message: 'not found',
};

interface Condition {
  readonly type: string;
  readonly status: string;
  readonly reason: string;
  readonly observedGeneration: number;
}

interface Status {
  readonly conditions?: readonly Condition[];
  readonly validationMessages?: readonly ValidationMessage[];
}

/** @param earlyMs by how much timers fire too early, ms of the leader's clock */
async function startLeader(t: TestContext, earlyMs = 0) {
  const server = await ScriptedApiServer.start();
  t.after(() => server.stop());
  const path = server.define(TYPE);
  const control = storeWrites(server);
  const clock = fastClock(20);
  const timers: number[] = [];
  const counted: Clock = {
    now: clock.now,
    setTimer(ms, run) {
      timers.push(ms);
      return clock.setTimer(Math.max(ms - earlyMs, 0), run);
    },
  };
  const connection = new Connection({ access: server.access(), clock: counted, random: () => 0, userAgent: 'test' });
  t.after(() => connection.close());
  const lines: string[] = [];
  const write = (message: string) => void lines.push(message);
  const log = { debug: () => {}, info: write, warn: write, error: write };
  const access = {
    client: new KubernetesClient(connection),
    namespaces: [],
    statusBudget: new TokenBucket({ rate: 1000, burst: 1, now: clock.now }),
    now: Date.now,
    statusLog: log,
  };
  const objects = new MeshObjects({ ...access, log });
  objects.start();
  t.after(() => objects.close());
  const states = new Map<string, readonly (DocumentState | undefined)[]>();
  const messages = new Map<string, readonly ValidationMessage[]>();
  let tell = (_: readonly string[]): void => {};
  const acknowledgements: Acknowledgements = {
    of: (key) => states.get(key) ?? [],
    areKnown: true,
    follow(onChanged) {
      tell = onChanged;
      return async () => {};
    },
  };
  const generationOf = (name: string) => Number(server.find(path, name, 'edge')?.metadata.generation ?? 0);
  const inForce = (key: string) => {
    const name = key.split('/')[2] ?? '';
    const generation = generationOf(name);
    return generation === 0 ? undefined : { uid: `uid-${name}`, generation };
  };
  const findings = { of: (uid: string) => messages.get(uid) ?? [], changed() {}, close() {} };
  const statuses = new MeshStatuses({
    ...access,
    objects,
    reconciled: { acknowledgements, inForce, refused: () => [] },
    findings: findings as unknown as MeshFindings,
  });
  statuses.start();
  t.after(() => statuses.close());
  const statusOf = (name = 'web') => server.find(path, name, 'edge')?.status as Status | undefined;
  const report = (...of: readonly (Partial<DocumentState> | undefined)[]): void => {
    const common = { uid: 'uid-web', generation: generationOf('web'), pending: 0, rejected: 0, message: '' };
    states.set(
      KEY,
      of.map((each) => each && { ...common, ...each }),
    );
    tell([KEY]);
  };
  const own = (name = 'web') => statusOf(name)?.conditions?.find(({ type }) => type === 'Reconciled');
  const set = (generation: number, name = 'web') =>
    server.set(path, {
      ...server.find(path, name, 'edge'),
      metadata: { name, namespace: 'edge', uid: `uid-${name}`, generation },
    });
  const has = (reason: string, generation: number, name = 'web') =>
    waitUntil(() => own(name)?.reason === reason && own(name)?.observedGeneration === generation, {
      what: () => `${name}: ${JSON.stringify(statusOf(name))}`,
    });
  return {
    server,
    control,
    lines,
    timers,
    statuses,
    statusOf,
    report,
    set,
    has,
    /** Another object is acknowledged, after everything before was looked at. */
    async acknowledge(name: string): Promise<void> {
      set(1, name);
      states.set(`Gateway/edge/${name}`, [{ uid: `uid-${name}`, generation: 1, pending: 0, rejected: 0, message: '' }]);
      statuses.changed([`Gateway/edge/${name}`]);
      await has('Acknowledged', 1, name);
    },
    remove: () => server.remove(path, { name: 'web', namespace: 'edge' }),
    find(found: readonly ValidationMessage[]): void {
      messages.set('uid-web', found);
      statuses.changed([KEY]);
    },
    writes: () => server.requests.filter(({ method }) => method === 'PATCH').length,
  };
}

test('the status follows what replicas report', async (t) => {
  const leader = await startLeader(t);
  leader.set(1);
  leader.report({}, {});
  await leader.has('Acknowledged', 1);
  leader.set(2);
  leader.report({}, undefined);
  await leader.has('Pending', 2);
  leader.report({}, { rejected: 1, message: 'web-1.edge rejects it: no' });
  await leader.has('Rejected', 2);
  leader.report({}, {});
  await leader.has('Acknowledged', 2);
  assert.deepEqual(leader.lines, []);
});

test('a timer that fires before its time, by the clock, is not waited for again', async (t) => {
  const leader = await startLeader(t, 200);
  leader.set(1);
  leader.report({}, { pending: 1 });
  await leader.has('Pending', 1);
});

test('a document that was created again is waited for again', async (t) => {
  const leader = await startLeader(t);
  const waits = () => leader.timers.filter((ms) => ms === OVERDUE_MS).length;
  leader.set(1);
  leader.report({ pending: 1 });
  await leader.has('Pending', 1);
  const before = waits();
  leader.remove();
  await leader.acknowledge('other');
  leader.set(1);
  leader.report({ pending: 1 });
  await leader.has('Pending', 1);
  assert.equal(waits(), before + 1);
});

test('findings are written beside the condition, and removed when they are gone', async (t) => {
  const leader = await startLeader(t);
  leader.set(1);
  leader.report({});
  leader.find([FOUND]);
  await waitUntil(() => leader.statusOf()?.validationMessages?.[0]?.type.code === 'IST0101');
  await leader.has('Acknowledged', 1);
  leader.find([]);
  await waitUntil(() => leader.statusOf()?.validationMessages === undefined);
  await leader.has('Acknowledged', 1);
});

test('what is as it should be is not written again', async (t) => {
  const leader = await startLeader(t);
  leader.set(1);
  leader.report({});
  await leader.has('Acknowledged', 1);
  const before = leader.writes();
  for (let round = 0; round < 5; round++) leader.report({});
  await leader.acknowledge('later');
  assert.equal(leader.writes(), before + 1);
});

test('a document that was acknowledged is not waited for while replicas have not reported', async (t) => {
  const leader = await startLeader(t);
  leader.set(1);
  leader.report({});
  await leader.has('Acknowledged', 1);
  await leader.acknowledge('other');
  const waits = () => leader.timers.filter((ms) => ms === OVERDUE_MS).length;
  const before = waits();
  leader.report({}, undefined);
  await leader.acknowledge('later');
  assert.equal(waits(), before);
});

for (const [what, refusal] of [
  ['forbidden', [403, 'Forbidden']],
  ['in conflict', [409, 'Conflict']],
  ['invalid', [422, 'Invalid']],
] as const satisfies readonly (readonly [string, Refusal])[]) {
  test(`a write that is ${what} is one line in the log at most, and is made when that is possible`, async (t) => {
    const leader = await startLeader(t);
    let refused = 0;
    leader.control.refuse = ({ method }) => (method === 'PATCH' && ++refused > 0 ? refusal : undefined);
    leader.set(1);
    leader.report({});
    await waitUntil(() => refused >= 3);
    assert.ok(leader.lines.length <= 1, leader.lines.join('\n'));
    leader.control.refuse = () => undefined;
    await leader.has('Acknowledged', 1);
  });
}

test('another writer of the same condition is not fought with', async (t) => {
  const leader = await startLeader(t);
  const foreign = [{ type: 'Reconciled', status: 'Unknown', reason: 'Other', observedGeneration: 1 }];
  leader.set(1);
  leader.report({});
  await leader.has('Acknowledged', 1);
  const path = '/apis/networking.mesh.io/v1alpha3/gateways';
  let fought = 0;
  for (let round = 0; round < 20; round++) {
    const object = leader.server.find(path, 'web', 'edge') ?? assert.fail('no object');
    leader.server.set(path, { ...object, status: { conditions: foreign } });
    await leader.acknowledge(`other-${round}`);
    if (leader.statusOf()?.conditions?.[0]?.reason === 'Acknowledged') fought++;
  }
  assert.ok(fought >= 1 && fought < 15, `${fought} of 20 were written over`);
});
