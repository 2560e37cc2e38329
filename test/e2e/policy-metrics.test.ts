/**
 * The metrics of the policy component: each row has the documents that move a metric, and the value that they define.
 * Requests go through a real Envoy; an adapter outside and a list of a provider are servers of this test.
 */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { beforeEach, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { STANDARD_ATTRIBUTES } from '../../src/policy/index.ts';
import { eventually } from '../harness/index.ts';
import type { Document } from './support/config.ts';
import { ADAPTER_DOCUMENTS, startPolicyAdapter } from './support/policy-adapter.ts';
import { policyDocument as document } from './support/policy-documents.ts';
import {
  action,
  apply,
  DENIED,
  DENY,
  outcome,
  owner,
  PATIENCE_MS,
  REDIS_AT,
  rule,
  settled,
  shared,
  usePolicyWorld,
} from './support/policy-world.ts';

usePolicyWorld('web');

const metric = async (name: string): Promise<number> => (await shared.get().discovery().metric(name)) ?? 0;

/** Waits until metrics have these values. */
async function expect(values: Readonly<Record<string, number>>): Promise<void> {
  await eventually(
    async () => {
      const found = await Promise.all(Object.keys(values).map(async (name) => [name, await metric(name)]));
      assert.deepEqual(Object.fromEntries(found), values);
    },
    { timeoutMs: PATIENCE_MS },
  );
}

// Otherwise handlers of the test before are reused.
beforeEach(() => expect({ plc_config_rule_configs_total: 0, plc_handler_daemons_total: 0 }));

const QUOTA = { name: 'requests.instance.shop', maxAmount: 1_000, validDuration: '600s' };
const checks = (name: string, spec: Document) => document('instance', name, spec);

/** Requests for a path, and what each of them dispatches: adapters, and whether they fail. */
type Dispatches = readonly (readonly [adapter: string, failed: boolean])[];
const REQUESTS: readonly (readonly [path: string, times: number, dispatches: Dispatches])[] = [
  ['/deny', 3, [['denier', false]]],
  ['/quota', 2, [['memquota', false]]],
  ['/unable', 2, [['redisquota', true]]],
  [
    '/both',
    4,
    [
      ['listchecker', false],
      ['denier', false],
    ],
  ],
  ['/none', 5, []],
];

// First: records, which are counted, too, come up to a second after their requests.
test('metrics of requests grow by what the requests define', async () => {
  await apply(
    ...DENY,
    document('handler', 'quotas', { compiledAdapter: 'memquota', params: { quotas: [QUOTA] } }),
    document('handler', 'unreachable', {
      compiledAdapter: 'redisquota',
      params: { redisServerUrl: '127.0.0.1:1', quotas: [QUOTA] },
    }),
    checks('requests', { compiledTemplate: 'quota' }),
    document('handler', 'users', { compiledAdapter: 'listchecker', params: { overrides: ['ann'] } }),
    checks('user', { compiledTemplate: 'listentry', params: { value: '"ann"' } }),
    rule('listed', { match: 'request.path == "/both"', ...action('users', 'user') }),
    rule('denied', { match: 'request.path == "/deny" || request.path == "/both"', ...action('deny', 'any') }),
    rule('quotas', { match: 'request.path == "/quota"', ...action('quotas', 'requests') }),
    rule('unable', { match: 'request.path == "/unable"', ...action('unreachable', 'requests') }),
  );
  await settled({ web: [DENIED, { path: '/deny' }] });
  const growth = new Map<string, number>();
  const grow = (name: string, by: number) => growth.set(name, (growth.get(name) ?? 0) + by);
  for (const [, times, dispatches] of REQUESTS) {
    for (const [adapter, failed] of dispatches) {
      grow(`plc_runtime_dispatches_total{adapter="${adapter}",error="${failed}"}`, times);
      grow(`plc_runtime_dispatch_duration_seconds_count{adapter="${adapter}"}`, times);
    }
    for (const each of ['destinations', 'instances']) {
      grow(`plc_dispatcher_${each}_per_request_count`, times);
      grow(`plc_dispatcher_${each}_per_request_sum`, times * dispatches.length);
    }
  }
  const before = await countedValues([...growth.keys()]);
  for (const [path, times] of REQUESTS) for (let count = 0; count < times; count++) await outcome('web', { path });
  await expect(Object.fromEntries(before.map(([each, value]) => [each, value + (growth.get(each) ?? 0)])));
});

/** The values once all requests so far are counted: measurements come later, but in the order of the requests. */
async function countedValues(names: readonly string[]): Promise<(readonly [string, number])[]> {
  const mark = 'plc_runtime_dispatches_total{adapter="listchecker",error="false"}';
  // No request for this path is under way.
  const before = await metric(mark);
  await outcome('web', { path: '/both' });
  await expect({ [mark]: before + 1 });
  return await Promise.all(names.map(async (name) => [name, await metric(name)] as const));
}

/** What each metric of the configuration counts, and documents of which it counts so many. */
const CONFIGURATION: readonly (readonly [metric: string, value: number, documents: readonly Document[]])[] = [
  [
    'plc_config_attributes_total',
    STANDARD_ATTRIBUTES.size + 2,
    [
      document('attributemanifest', 'own', {
        attributes: { 'own.one': { valueType: 'STRING' }, 'own.two': { valueType: 'INT64' } },
      }),
    ],
  ],
  ['plc_config_template_configs_total', 3, ADAPTER_DOCUMENTS],
  ['plc_config_template_config_errors_total', 1, [document('template', 'broken', { descriptor: 'AAAA' })]],
  ['plc_config_adapter_info_configs_total', 1, []],
  [
    'plc_config_adapter_info_config_errors_total',
    2,
    ['a', 'b'].map((name) => document('adapter', name, { templates: ['nowhere'] })),
  ],
  [
    'plc_config_handler_configs_total',
    4,
    [
      ...DENY,
      document('handler', 'quotas', { compiledAdapter: 'memquota', params: { quotas: [QUOTA] } }),
      document('handler', 'court', { adapter: 'court.mesh-system', connection: { address: '127.0.0.1:1' } }),
      // A script cannot read so many buckets.
      document('handler', 'unable', {
        compiledAdapter: 'redisquota',
        params: {
          redisServerUrl: `${REDIS_AT}:6379`,
          quotas: [{ ...QUOTA, validDuration: '6000s', bucketDuration: '1s', rateLimitAlgorithm: 'ROLLING_WINDOW' }],
        },
      }),
    ],
  ],
  [
    'plc_config_handler_validation_error_total',
    1,
    [document('handler', 'lost', { adapter: 'nowhere', connection: { address: '127.0.0.1:1' } })],
  ],
  [
    'plc_config_instance_configs_total',
    4,
    [
      checks('requests', { compiledTemplate: 'quota' }),
      checks('who', { template: 'judge.mesh-system', params: { user: '"ann"' } }),
      checks('note', { template: 'notes.mesh-system', params: { user: '"ann"' } }),
    ],
  ],
  [
    'plc_config_instance_config_errors_total',
    3,
    ['a', 'b', 'c'].map((name) =>
      checks(name, { compiledTemplate: 'listentry', params: { value: 'no.such.attribute' } }),
    ),
  ],
  [
    'plc_config_rule_configs_total',
    5,
    [
      rule('denied', { match: 'request.path == "/deny"', ...action('deny', 'any') }),
      rule('quotas', { match: 'request.path == "/quota"', ...action('quotas', 'requests') }),
      rule('judged', { match: 'request.path == "/judge"', ...action('court', 'who', 'note') }),
      rule('unable', { match: 'request.path == "/unable"', ...action('unable', 'requests') }),
    ],
  ],
  // A condition that is wrong refuses everything: here, it only records, and is left out.
  [
    'plc_config_rule_config_match_error_total',
    2,
    ['a', 'b'].map((name) => rule(name, { match: 'no.such.attribute == 1', ...action('court', 'note') })),
  ],
  [
    'plc_config_unsatisfied_action_handler_total',
    1,
    [rule('unsatisfied', { match: 'request.path == "/unsatisfied"', ...action('missing', 'any') })],
  ],
  // Two conditions, and the action with the rule that lacks it.
  ['plc_config_rule_config_errors_total', 4, []],
];

/** What the handlers of these rules are, and are for. */
const HANDLERS: Readonly<Record<string, number>> = {
  plc_handler_new_handlers_total: 3,
  plc_handler_reused_handlers_total: 0,
  plc_handler_handler_build_failures_total: 1,
  plc_handler_closed_handlers_total: 0,
  plc_handler_handler_close_failures_total: 0,
  // The quotas in memory are cleaned.
  plc_handler_daemons_total: 1,
  plc_handler_workers_total: 0,
  'plc_dispatcher_destinations_per_variety_total{variety="CHECK"}': 1,
  'plc_dispatcher_destinations_per_variety_total{variety="CHECK_WITH_OUTPUT"}': 1,
  'plc_dispatcher_destinations_per_variety_total{variety="QUOTA"}': 2,
  'plc_dispatcher_destinations_per_variety_total{variety="REPORT"}': 1,
};

const DOCUMENTS = CONFIGURATION.flatMap(([, , documents]) => documents);

test('metrics of the configuration and of handlers have the values that the documents define', async () => {
  await apply(...DOCUMENTS);
  await expect({ ...Object.fromEntries(CONFIGURATION.map(([name, value]) => [name, value])), ...HANDLERS });
});

test('handlers are reused, closed, at work, and have loops', async () => {
  const provider = createServer((_, response) => response.end('ann\n'));
  await new Promise<void>((resolve) => provider.listen(0, '127.0.0.1', resolve));
  owner.after(async () => void provider.close());
  const { port } = provider.address() as { port: number };
  const waiting: (() => void)[] = [];
  const adapter = await startPolicyAdapter(
    owner,
    () => new Promise((resolve) => waiting.push(() => resolve({ result: {} }))),
  );
  const documents = (code: number) => [
    ...ADAPTER_DOCUMENTS,
    document('handler', 'deny', { compiledAdapter: 'denier', params: { status: { code } } }),
    document('instance', 'any', { compiledTemplate: 'checknothing' }),
    document('handler', 'court', {
      adapter: 'court.mesh-system',
      connection: { address: adapter.address, timeout: '5s' },
    }),
    document('instance', 'who', { template: 'judge.mesh-system', params: { user: '"ann"' } }),
    document('handler', 'users', {
      compiledAdapter: 'listchecker',
      params: { providerUrl: `http://127.0.0.1:${port}/` },
    }),
    document('instance', 'user', { compiledTemplate: 'listentry', params: { value: '"ann"' } }),
    document('handler', 'quotas', { compiledAdapter: 'memquota', params: { quotas: [QUOTA] } }),
    document('instance', 'requests', { compiledTemplate: 'quota' }),
    rule('denied', { match: 'request.path == "/deny"', ...action('deny', 'any') }),
    rule('judged', { match: 'request.path == "/judge"', ...action('court', 'who') }),
    rule('listed', { match: 'request.path == "/list"', ...action('users', 'user') }),
    rule('counted', { match: 'request.path == "/count"', ...action('quotas', 'requests') }),
  ];
  await apply(...documents(7));
  await settled({ web: ['403 PERMISSION_DENIED:deny.shop', { path: '/deny' }] });
  // The list that is fetched again, and the quotas that are cleaned.
  await expect({ plc_handler_new_handlers_total: 4, plc_handler_daemons_total: 2, plc_handler_workers_total: 0 });
  // An adapter has at most 5 s, and the metric may come later than that: these calls are then refused, and made again.
  await eventually(
    async () => {
      let ended = false;
      const calls = Promise.all([1, 2, 3].map(() => outcome('web', { path: '/judge' }))).finally(() => {
        ended = true;
      });
      while (!ended && (await metric('plc_handler_workers_total')) !== 3) await pause(25);
      for (const answer of waiting.splice(0)) answer();
      assert.deepEqual(await calls, ['app', 'app', 'app']);
    },
    { timeoutMs: PATIENCE_MS },
  );
  await expect({ plc_handler_workers_total: 0 });

  await apply(...documents(5));
  await settled({ web: ['404 NOT_FOUND:deny.shop', { path: '/deny' }] });
  await expect({
    plc_handler_new_handlers_total: 1,
    plc_handler_reused_handlers_total: 3,
    plc_handler_closed_handlers_total: 1,
    plc_handler_handler_close_failures_total: 0,
  });
  await apply(...documents(5).slice(-1));
  await expect({
    plc_handler_closed_handlers_total: 4,
    plc_handler_new_handlers_total: 0,
    plc_handler_daemons_total: 0,
  });
});
