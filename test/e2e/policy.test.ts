/**
 * The policy component through real Envoys: a sidecar and two gateways ask it about requests and send it records. Each
 * adapter is shown by requests; Redis is a real one.
 */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, test } from 'node:test';
import { type EchoReply, eventually, exchange, request } from '../harness/index.ts';
import { example } from './support/documents.ts';
import { policyDocument as document } from './support/policy-documents.ts';
import {
  AT,
  action,
  apply,
  DENIED,
  DENY,
  HTTP,
  outcome,
  owner,
  PATIENCE_MS,
  REDIS_AT,
  ROOT,
  rule,
  send,
  settled,
  shared,
  TCP,
  usePolicyWorld,
} from './support/policy-world.ts';
import { redisUnavailable, startRedis } from './support/redis.ts';
import { startTraffic } from './support/steady-traffic.ts';

const REDIS_PORT = 6379;
const USER = 'request.headers["x-user"] | ""';
/** Started by the first test that needs it. */
let redisStarted: Promise<void> | undefined;

usePolicyWorld('web', 'other', 'one', 'two');

describe('decisions', () => {
  test('a denier denies the requests that its rule matches, of the workloads of its namespace only', async () => {
    await shared.get().config.write('policy.yaml', example('docs/policy.md', 'deny.yaml'));
    const call = { path: '/admin?x=1' };
    await settled({ web: [DENIED, call], one: [DENIED, call], two: [DENIED, call] });
    assert.equal(await outcome('other', call), 'app');
    assert.equal(await outcome('web', { path: '/public' }), 'app');
  });

  test('a rule of the root namespace applies everywhere', async () => {
    const handler = document('handler', 'deny', { compiledAdapter: 'denier', params: { status: { code: 16 } } }, ROOT);
    const instance = document('instance', 'any', { compiledTemplate: 'checknothing' }, ROOT);
    await apply(handler, instance, rule('all', action('deny', 'any'), ROOT));
    await settled({ web: ['401 UNAUTHENTICATED:deny.mesh-system'], other: ['401 UNAUTHENTICATED:deny.mesh-system'] });
  });

  test('attributes are those of the model and of the request', async () => {
    await apply(
      ...DENY,
      rule('facts', {
        match: [
          'destination.labels["version"] == "v1"',
          'destination.workload.name == "web"',
          'destination.serviceAccount == "web"',
          'destination.service.host == "web.shop.svc.cluster.local"',
          `destination.port == ${HTTP}`,
          'request.headers["x-user"] == "eve"',
          'request.query_params["q"] == "1"',
          'context.protocol == "http"',
          '!connection.mtls',
        ].join(' && '),
        ...action('deny', 'any'),
      }),
    );
    await settled({ web: [DENIED, { path: '/?q=1', headers: { 'x-user': 'eve' } }] });
    assert.equal(await outcome('web', { path: '/?q=2', headers: { 'x-user': 'eve' } }), 'app');
  });

  test('a rule that cannot be evaluated denies', async () => {
    await apply(...DENY, rule('missing', { match: 'source.workload.name == "eve"', ...action('deny', 'any') }));
    await settled({ web: ['503 UNAVAILABLE:the policy cannot be evaluated'] });
    await apply(
      ...DENY,
      rule('missing', { match: '(source.workload.name | "nobody") == "eve"', ...action('deny', 'any') }),
    );
    await settled({ web: ['app'] });
  });

  test('a list allows what is on it', async () => {
    await apply(
      document('handler', 'users', { compiledAdapter: 'listchecker', params: { overrides: ['ann'] } }),
      document('instance', 'user', {
        compiledTemplate: 'listentry',
        params: { value: 'request.headers["x-user"] | ""' },
      }),
      rule('users', action('users', 'user')),
    );
    await settled({
      web: ['403 PERMISSION_DENIED:users.shop:eve is not on the list', { headers: { 'x-user': 'eve' } }],
    });
    assert.equal(await outcome('web', { headers: { 'x-user': 'ann' } }), 'app');
  });

  test('the list of a provider is fetched again, and nothing passes while there is none', async () => {
    let list: string | undefined;
    const provider = createServer((_, response) => response.writeHead(list === undefined ? 500 : 200).end(list));
    await new Promise<void>((resolve) => provider.listen(0, '127.0.0.1', resolve));
    owner.after(async () => void provider.close());
    const { port } = provider.address() as AddressInfo;
    const params = { providerUrl: `http://127.0.0.1:${port}/`, refreshInterval: '1s', overrides: ['root'] };
    await apply(
      document('handler', 'users', { compiledAdapter: 'listchecker', params }),
      document('instance', 'user', { compiledTemplate: 'listentry', params: { value: USER } }),
      rule('users', action('users', 'user')),
    );
    const eve = { headers: { 'x-user': 'eve' } };
    await settled({ web: ['503 UNAVAILABLE:users.shop:the policy cannot be evaluated', eve] });
    list = '# those who may\nann\n';
    await settled({ web: ['403 PERMISSION_DENIED:users.shop:eve is not on the list', eve] });
    assert.equal(await outcome('web', { headers: { 'x-user': 'root' } }), 'app', 'an override');
    list = 'ann\neve\n';
    await settled({ web: ['app', eve] });
  });

  test('a quota in memory counts the requests of all proxies together', async () => {
    const quotas = [{ name: 'requests.instance.shop', maxAmount: 5, validDuration: '600s' }];
    await apply(
      document('handler', 'quotas', { compiledAdapter: 'memquota', params: { quotas } }),
      document('instance', 'requests', {
        compiledTemplate: 'quota',
        params: { dimensions: { user: 'request.headers["x-user"] | "none"' } },
      }),
      rule('quotas', action('quotas', 'requests')),
    );
    const over = '429 RESOURCE_EXHAUSTED:quotas.shop:quota requests.instance.shop is exhausted';
    await settled({ one: [over, { headers: { 'x-user': 'probe' } }], two: [over, { headers: { 'x-user': 'probe' } }] });
    assert.deepEqual(await alternating('ann', 8), [...Array<string>(5).fill('app'), over, over, over]);
  });

  for (const algorithm of ['FIXED_WINDOW', 'ROLLING_WINDOW'])
    test(`a quota in Redis (${algorithm}) counts the requests of two gateways together`, {
      skip: redisUnavailable,
    }, async () => {
      redisStarted ??= startRedis(owner, REDIS_AT, REDIS_PORT);
      await redisStarted;
      const name = 'requests.instance.shop';
      const window = { validDuration: '600s', bucketDuration: '10s', rateLimitAlgorithm: algorithm };
      await apply(
        document('handler', 'redis', {
          compiledAdapter: 'redisquota',
          params: { redisServerUrl: `${REDIS_AT}:${REDIS_PORT}`, quotas: [{ name, maxAmount: 4, ...window }] },
        }),
        document('instance', 'requests', {
          compiledTemplate: 'quota',
          params: { dimensions: { user: 'request.headers["x-user"] | "none"' } },
        }),
        rule('quotas', action('redis', 'requests')),
      );
      const over = `429 RESOURCE_EXHAUSTED:redis.shop:quota ${name} is exhausted`;
      // The quota of the rule before may still be in force.
      const probe = { headers: { 'x-user': `probe ${algorithm}` } };
      await settled({ one: [over, probe], two: [over, probe] });
      assert.deepEqual(await alternating(`ann ${algorithm}`, 6), [...Array<string>(4).fill('app'), over, over]);
    });

  test('header operations of a rule change the request and the response', async () => {
    await apply(
      rule('headers', {
        requestHeaderOperations: [
          { name: 'X-Told', values: ['request.headers["x-user"] | "nobody"', '"twice"'] },
          { name: 'x-secret', operation: 'REMOVE' },
        ],
        responseHeaderOperations: [{ name: 'x-answer', values: ['"yes"'] }],
      }),
    );
    await eventually(
      async () => {
        const { headers, body } = await send('web', {
          headers: { 'x-user': 'ann', 'x-told': 'forged', 'x-secret': 's' },
        });
        const { headers: seen } = JSON.parse(body) as EchoReply;
        assert.deepEqual([seen['x-told'], seen['x-secret'], headers['x-answer']], ['ann,twice', undefined, 'yes']);
      },
      { timeoutMs: PATIENCE_MS },
    );
  });
});

describe('connections', () => {
  /** `ok` when the application echoed, `cut` when the connection was closed. */
  const connection = (at: string): Promise<string> =>
    exchange({ address: at, port: TCP, send: 'ping', until: 'ping' }).then(
      () => 'ok',
      () => 'cut',
    );
  const decided = (expected: string) =>
    eventually(async () => assert.equal(await connection(AT.web), expected), { timeoutMs: PATIENCE_MS });

  test('a rule that matches connections decides about them, and one about requests does not', async () => {
    await apply(...DENY, rule('requests', { match: 'request.path == "/x"', ...action('deny', 'any') }));
    await settled({ web: [DENIED, { path: '/x' }] });
    assert.equal(await connection(AT.web), 'ok');

    const facts = [
      'context.protocol == "tcp"',
      `destination.port == ${TCP}`,
      'destination.labels["version"] == "v1"',
      'destination.service.host == "web.shop.svc.cluster.local"',
      'connection.event == "open"',
      '!connection.mtls',
      'source.ip == ip("127.0.0.1")',
    ];
    await apply(...DENY, rule('connections', { match: facts.join(' && '), ...action('deny', 'any') }));
    await decided('cut');
    assert.equal(await connection(AT.other), 'ok');
    assert.equal(await outcome('web'), 'app');

    await apply(...DENY, rule('connections', { match: 'destination.port == 1', ...action('deny', 'any') }));
    await decided('ok');
  });

  test('a rule that cannot be evaluated closes them', async () => {
    await apply(...DENY, rule('missing', { match: 'source.workload.name == "eve"', ...action('deny', 'any') }));
    await decided('cut');
  });
});

/** The outcomes of requests to the two gateways in turn. */
async function alternating(user: string, count: number): Promise<string[]> {
  const outcomes: string[] = [];
  for (let number = 0; number < count; number++)
    outcomes.push(await outcome(number % 2 === 0 ? 'one' : 'two', { headers: { 'x-user': user } }));
  return outcomes;
}

describe('records', () => {
  test('requests are lines of the output, shaped by expressions', async () => {
    await apply(
      document('handler', 'lines', { compiledAdapter: 'stdio', params: { outputAsJson: true } }),
      document('instance', 'line', {
        compiledTemplate: 'logentry',
        params: {
          severity: 'conditional(response.code >= 400, "error", "info")',
          timestamp: 'request.time',
          variables: {
            path: 'request.path',
            code: 'response.code',
            user: 'request.headers["x-user"] | "nobody"',
            workload: 'destination.workload.name | "unknown"',
          },
        },
      }),
      rule('lines', { match: 'request.path.startsWith("/record")', ...action('lines', 'line') }),
    );
    await eventually(
      async () => {
        await send('web', { path: '/record/me', headers: { 'x-user': 'ann' } });
        const lines = shared
          .get()
          .discovery()
          .output()
          .split('\n')
          .filter((text) => text.includes('"/record/me"'));
        const { time, ...line } = JSON.parse(lines[0] ?? '{}') as Record<string, unknown>;
        const variables = { path: '/record/me', code: 200, user: 'ann', workload: 'web' };
        assert.deepEqual(line, { ...variables, level: 'info', instance: 'line.instance.shop' });
        assert.ok(Math.abs(Date.parse(String(time)) - Date.now()) < PATIENCE_MS);
      },
      { timeoutMs: PATIENCE_MS },
    );
    // Rules that only record need no decision.
    assert.equal(await outcome('web'), 'app');
  });

  test('requests are counted for Prometheus, at a path of their own', async () => {
    await apply(
      document('handler', 'prom', {
        compiledAdapter: 'prometheus',
        params: {
          metrics: [
            {
              namespace: 'shop',
              name: 'requests_total',
              instanceName: 'count.instance.shop',
              kind: 'COUNTER',
              labelNames: ['code', 'user'],
            },
          ],
        },
      }),
      document('instance', 'count', {
        compiledTemplate: 'metric',
        params: { value: '1', dimensions: { code: 'response.code', user: 'request.headers["x-user"] | "nobody"' } },
      }),
      rule('counted', action('prom', 'count')),
    );
    await eventually(
      async () => {
        await send('web', { headers: { 'x-user': 'ann' } });
        const { body } = await request({ port: shared.get().discovery().ports.monitoring, path: '/policy/metrics' });
        assert.match(body, /^shop_requests_total\{policy_handler="prom.shop",code="200",user="ann"\} \d+$/m);
      },
      { timeoutMs: PATIENCE_MS },
    );
  });
});

test('documents are edited under traffic without a failed request', async () => {
  const listed = (...overrides: string[]) => [
    document('handler', 'users', { compiledAdapter: 'listchecker', params: { overrides } }),
    document('instance', 'user', {
      compiledTemplate: 'listentry',
      params: { value: 'request.headers["x-user"] | ""' },
    }),
    rule('users', action('users', 'user')),
  ];
  await apply(...listed('ann'));
  const eve = { headers: { 'x-user': 'eve' } };
  await settled({
    web: ['403 PERMISSION_DENIED:users.shop:eve is not on the list', eve],
    one: ['403 PERMISSION_DENIED:users.shop:eve is not on the list', eve],
  });
  const headers = { 'x-user': 'ann' };
  const traffic = startTraffic([AT.web, AT.one].map((at) => ({ address: at, port: HTTP, headers })));
  for (const more of ['bob', 'eve', 'joe']) {
    await apply(...listed('ann', more));
    await settled({ web: ['app', { headers: { 'x-user': more } }] });
  }
  await traffic.more(50);
  assert.deepEqual(await traffic.stop(), []);
});
