import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { agentEnv } from './agent/agent-env.ts';
import { discoveryEnv } from './discovery/discovery-env.ts';
import { discoveryFlags } from './discovery/discovery-flags.ts';
import { envDocument, readEnv, shownEnvironment } from './env-table.ts';
import { parseListenAddress } from './listen-address.ts';
import { parseFlags } from './parse-flags.ts';
import { defaultDiscoverySettings, flagAndEnvSettings } from './settings.ts';

const settingsOf = (args: string[], env: Record<string, string>) =>
  flagAndEnvSettings(discoveryFlags, parseFlags(args, discoveryFlags), discoveryEnv, env);

test('the plain-text gRPC address is on loopback only, unless the flag names another', () => {
  assert.equal(settingsOf([], {}).grpcAddr, 'localhost:15010');
  assert.equal(settingsOf(['--grpcAddr', ':15010'], {}).grpcAddr, ':15010');
});

test('without flags and variables the settings have the documented defaults', () => {
  const settings = settingsOf([], {});
  assert.equal(settings.httpAddr, ':8080');
  assert.equal(settings.trustDomain, '');
  assert.equal(settings.logRotateMaxSize, 104857600);
  assert.equal(settings.keepaliveIntervalMs, 30_000);
  assert.equal(settings.keepaliveMaxServerConnectionAgeMs, Number.POSITIVE_INFINITY);
  assert.equal(settings.resyncMs, 60_000);
  assert.equal(settings.debounceAfterMs, 100);
  assert.equal(settings.debounceMaxMs, 10_000);
  assert.equal(settings.pushThrottle, 100);
  assert.equal(settings.sniffInbound, true);
  assert.deepEqual(settings.plugins, ['authn', 'authz', 'health', 'policy']);
  assert.deepEqual(settings, defaultDiscoverySettings());
});

describe('--namespace and --clusterID', () => {
  const ROWS: readonly (readonly [string, string[], Record<string, string>, string, string])[] = [
    ['have defaults', [], {}, 'mesh-system', 'Orchestrator'],
    ['take the variables when not given', [], { POD_NAMESPACE: 'pods', CLUSTER_ID: 'c1' }, 'pods', 'c1'],
    [
      'override the variables',
      ['-n', 'flag', '--clusterID=c2'],
      { POD_NAMESPACE: 'pods', CLUSTER_ID: 'c1' },
      'flag',
      'c2',
    ],
    [
      'override the variables even when given as the default',
      ['--namespace', 'mesh-system'],
      { POD_NAMESPACE: 'pods' },
      'mesh-system',
      'Orchestrator',
    ],
    [
      'have defaults when the variables are empty',
      [],
      { POD_NAMESPACE: '', CLUSTER_ID: '' },
      'mesh-system',
      'Orchestrator',
    ],
  ];
  for (const [what, args, env, namespace, clusterID] of ROWS) {
    test(what, () => {
      const settings = settingsOf(args, env);
      assert.deepEqual([settings.namespace, settings.clusterID], [namespace, clusterID]);
    });
  }
});

test('a fraction is a number within its bounds', () => {
  const ratio = (text: string) => readEnv(agentEnv, { SECRET_GRACE_PERIOD_RATIO: text }).get('secretGracePeriodRatio');
  assert.deepEqual(['0.25', '1', '.5', '5e-1', ''].map(ratio), [0.25, 1, 0.5, 0.5, undefined]);
  for (const text of ['half', '0.5s', '-0.1', '1.1', 'NaN', 'Infinity', '0x1']) {
    assert.throws(() => ratio(text), /invalid value .* of variable SECRET_GRACE_PERIOD_RATIO/, text);
  }
});

test('a variable is parsed by its type', () => {
  const settings = settingsOf([], { CTL_DEBOUNCE_AFTER: '1.5s', CTL_HTTP10: 'T', CTL_PUSH_THROTTLE: '7' });
  assert.equal(settings.debounceAfterMs, 1500);
  assert.equal(settings.http10, true);
  assert.equal(settings.pushThrottle, 7);
});

for (const [name, value] of [
  ['CTL_DEBOUNCE_AFTER', 'NaN'],
  ['CTL_DEBOUNCE_MAX', '-1s'],
  ['CTL_ENABLE_EDS_DEBOUNCE', 'maybe'],
  ['CTL_PUSH_THROTTLE', '0'],
  ['CTL_GENERATE_WORKERS', '1.5'],
  ['MESH_GPRC_MAXSTREAMS', 'many'],
] as const) {
  test(`${name}=${value} is refused with an error that names both`, () => {
    assert.throws(
      () => settingsOf([], { [name]: value }),
      (error: Error) => error.message.startsWith(`invalid value ${JSON.stringify(value)} of variable ${name}: `),
    );
  });
}

test('the JSON document of variables has name, type, default as text and meaning of each', () => {
  const rows: { name: string; type: string; default: unknown; meaning: string }[] = JSON.parse(
    envDocument(discoveryEnv),
  );
  assert.equal(new Set(rows.map((row) => row.name)).size, rows.length);
  assert.deepEqual(
    rows.find((row) => row.name === 'CTL_DEBOUNCE_AFTER'),
    {
      name: 'CTL_DEBOUNCE_AFTER',
      type: 'duration',
      default: '100ms',
      meaning: discoveryEnv.CTL_DEBOUNCE_AFTER.meaning,
    },
  );
  assert.ok(rows.every((row) => row.meaning !== ''));
});

test('each variable has its own setting, each flag its own letter', () => {
  const names = Object.values(discoveryEnv).map((spec) => spec.setting);
  assert.equal(new Set(names).size, names.length);
  const letters = Object.values(discoveryFlags).flatMap((spec) => ('short' in spec ? [spec.short] : []));
  assert.equal(new Set(letters).size, letters.length);
});

test('variables that are not in the table are not shown to operators', () => {
  const environment = { CTL_HTTP10: 'true', SECRET_TOKEN: 's', OTEL_EXPORTER_OTLP_HEADERS: 'x=s' };
  assert.deepEqual(shownEnvironment(discoveryEnv, environment), {
    CTL_HTTP10: 'true',
    OTEL_EXPORTER_OTLP_HEADERS: '[redacted]',
  });
});

describe('an address to listen on', () => {
  const ROWS: readonly (readonly [string, string | undefined, number])[] = [
    [':15010', undefined, 15010],
    ['*:80', undefined, 80],
    ['0.0.0.0:0', '0.0.0.0', 0],
    ['localhost:8080', 'localhost', 8080],
    ['[::1]:8080', '::1', 8080],
  ];
  for (const [text, host, port] of ROWS) {
    test(`${text} is parsed`, () => assert.deepEqual(parseListenAddress(text), { host, port }));
  }
  for (const text of ['', '15010', ':', ':x', ':70000', '::1:80', 'a b:80', 'http://x:80', ':-1']) {
    test(`${JSON.stringify(text)} is refused`, () => assert.throws(() => parseListenAddress(text)));
  }
});
