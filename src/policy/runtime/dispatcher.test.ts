import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { FairLimiter } from '../../core/fairness/fair-limiter.ts';
import type { Attributes, Value } from '../../expressions/index.ts';
import { openHandler } from '../adapters/open.ts';
import { MetricPage } from '../adapters/prometheus.ts';
import { testHost } from '../adapters/testing/host.ts';
import type { RunningHandler } from '../adapters/types.ts';
import { compiled, ROOT } from '../testing/compiled.ts';
import { collectReports, type Decision, decide, type ReportBatch, type Subject } from './dispatcher.ts';

const PARTS = `
kind: handler
metadata: { name: users }
spec: { compiledAdapter: listchecker, params: { overrides: [ann] } }
---
kind: handler
metadata: { name: printed }
spec: { compiledAdapter: stdio }
---
kind: instance
metadata: { name: user }
spec: { compiledTemplate: listentry, params: { value: request.user | "ann" } }
---
kind: instance
metadata: { name: peer }
spec: { compiledTemplate: listentry, params: { value: source.principal } }
---
kind: instance
metadata: { name: wrong }
spec: { compiledTemplate: listentry, params: { value: request.usr } }
---
kind: instance
metadata: { name: line }
spec: { compiledTemplate: logentry, params: { severity: '"info"' } }
---
kind: instance
metadata: { name: wrong-line }
spec: { compiledTemplate: logentry, params: { severity: request.usr } }
---
kind: attributemanifest
metadata: { name: own }
spec: { attributes: { request.user: { valueType: STRING } } }
`;

interface Outcome {
  readonly decision: Decision;
  readonly problems: readonly string[];
  readonly records: number;
}

async function outcome(
  spec: string,
  values: Readonly<Record<string, Value>>,
  annotations = '{}',
  subject: Subject = 'request',
): Promise<Outcome> {
  const { rules, handlers } = compiled(
    `${PARTS}\n---\nkind: rule\nmetadata: { name: r, annotations: ${annotations} }\nspec: ${spec}`,
  );
  const host = testHost();
  const open = new Map<string, RunningHandler>();
  for (const handler of handlers.values())
    open.set(
      handler.id,
      openHandler(handler, {
        host,
        page: new MetricPage(),
        configNamespace: ROOT,
        counters: new FairLimiter(1),
        results: new FairLimiter(1),
      }),
    );
  const problems: string[] = [];
  const inputs = {
    handlers: { get: (id: string) => open.get(id), failureOf: () => undefined },
    meter: { request: () => undefined, dispatched: () => undefined },
    problem: (_: string, about: string, reason: string) => void problems.push(`${about}: ${reason}`),
    monotonic: () => 0,
  };
  const attributes: Attributes = { get: (name) => values[name] };
  const decision = await decide({ rules, subject }, attributes, { caller: 'a', id: '1', now: 0 }, inputs);
  const batches = new Map<string, ReportBatch>();
  collectReports(rules, attributes, batches, inputs);
  return {
    decision,
    problems,
    records: [...batches.values()].reduce((sum, { built }) => sum + built.length, 0),
  };
}

describe('a rule that is wrong and decides refuses the requests to which it applies', () => {
  const rows: readonly (readonly [name: string, spec: string, annotations?: string])[] = [
    ['a handler that does not exist', '{ actions: [{ handler: none, instances: [user] }] }'],
    ['a handler and an instance that do not exist', '{ actions: [{ handler: none, instances: [none] }] }'],
    [
      'an instance that is wrong, beside one that is right',
      '{ actions: [{ handler: users, instances: [user, wrong] }] }',
    ],
    [
      'an instance that does not exist, of a handler for records',
      '{ actions: [{ handler: printed, instances: [none] }] }',
    ],
    ['an instance that the handler does not support', '{ actions: [{ handler: printed, instances: [line, user] }] }'],
    ['a condition that is wrong', '{ match: request.usr == "a", actions: [{ handler: users, instances: [user] }] }'],
    [
      'a header operation',
      '{ requestHeaderOperations: [{ name: a, values: [request.usr] }, { name: b, values: [request.user] }] }',
    ],
    ['a language', '{ actions: [{ handler: users, instances: [user] }] }', '{ policy.mesh.io/lang: LUA }'],
  ];
  for (const [name, spec, annotations] of rows)
    test(name, async () => {
      const { decision, problems } = await outcome(spec, { 'request.user': 'ann' }, annotations);
      assert.deepEqual(decision.status, { code: 14, message: 'the policy cannot be evaluated' });
      assert.match(problems.join(), /^rule r.mesh-system: it refuses requests: (?:spec|metadata)\..* is wrong$/);
    });

  test('requests to which it does not apply are allowed', async () => {
    const spec = '{ match: request.user == "eve", actions: [{ handler: none, instances: [user] }] }';
    assert.equal((await outcome(spec, { 'request.user': 'ann' })).decision.status.code, 0);
    assert.equal((await outcome(spec, { 'request.user': 'eve' })).decision.status.code, 14);
  });
});

describe('a part that only records is left out', () => {
  const rows: readonly (readonly [name: string, spec: string, records: number])[] = [
    [
      'a handler that does not exist',
      '{ actions: [{ handler: none, instances: [line] }, { handler: printed, instances: [line] }] }',
      1,
    ],
    ['an instance that is wrong', '{ actions: [{ handler: printed, instances: [line, wrong-line] }] }', 1],
    [
      'a condition that is wrong',
      '{ match: request.usr == "a", actions: [{ handler: printed, instances: [line] }] }',
      0,
    ],
    [
      'a handler of records beside a decision',
      '{ actions: [{ handler: users, instances: [user] }, { handler: none, instances: [line] }] }',
      0,
    ],
  ];
  for (const [name, spec, records] of rows)
    test(name, async () => {
      const found = await outcome(spec, { 'request.user': 'ann' });
      assert.deepEqual([found.decision.status.code, found.records], [0, records]);
    });
});

describe('a value of a header', () => {
  const spec = '{ requestHeaderOperations: [{ name: x-user, values: [request.user] }] }';

  test('that could begin another header refuses the request', async () => {
    for (const user of [decodeURIComponent('a%0d%0aX-Admin:%201'), 'a\0', 'a\x7f', 'a'.repeat(8_193)]) {
      const { decision, problems } = await outcome(spec, { 'request.user': user });
      assert.deepEqual([decision.status.code, decision.requestHeaders], [14, []]);
      assert.match(problems.join(), /^header operations of rule r.mesh-system: the value of header x-user has /);
    }
  });

  test('is set otherwise', async () => {
    for (const user of ['', 'a\tb', 'Zoë', 'a'.repeat(8_192)]) {
      const { decision } = await outcome(spec, { 'request.user': user });
      assert.deepEqual(decision.requestHeaders, [{ name: 'x-user', operation: 'REPLACE', values: [user] }]);
    }
  });
});

describe('connections', () => {
  const code = async (spec: string, values: Readonly<Record<string, Value>> = {}): Promise<number> =>
    (await outcome(spec, values, '{}', 'connection')).decision.status.code;

  test('are decided about by rules and instances that need no attribute of requests', async () => {
    const denies = 'actions: [{ handler: users, instances: [peer] }]';
    const values = { 'context.protocol': 'tcp', 'source.principal': 'eve' };
    assert.equal(await code(`{ ${denies} }`, values), 7);
    assert.equal(await code(`{ match: context.protocol == "tcp", ${denies} }`, values), 7);
    assert.equal(await code(`{ ${denies} }`, { ...values, 'source.principal': 'ann' }), 0);
    assert.equal(await code(`{ match: context.protocol == "http", ${denies} }`, values), 0);
    assert.equal(await code(`{ match: request.user == "ann", ${denies} }`, values), 0);
    assert.equal(await code('{ actions: [{ handler: users, instances: [user] }] }', values), 0);
    assert.equal(await code('{ actions: [{ handler: users, instances: [user, peer] }] }', values), 7);
  });

  test('are refused when a rule that may match them cannot be evaluated, or is wrong', async () => {
    assert.equal(await code('{ actions: [{ handler: users, instances: [peer] }] }'), 14);
    const denies = 'actions: [{ handler: users, instances: [peer] }]';
    assert.equal(await code(`{ match: source.name == "a", ${denies} }`, { 'source.principal': 'ann' }), 14);
    assert.equal(await code('{ actions: [{ handler: none, instances: [peer] }] }', { 'source.principal': 'ann' }), 14);
    assert.equal(await code('{ match: request.user == "a", actions: [{ handler: none, instances: [peer] }] }'), 0);
  });

  test('have no headers', async () => {
    const { decision } = await outcome(
      '{ requestHeaderOperations: [{ name: a, values: ["request.user"] }] }',
      {},
      '{}',
      'connection',
    );
    assert.deepEqual(decision, { status: { code: 0, message: '' }, requestHeaders: [], responseHeaders: [] });
  });
});
