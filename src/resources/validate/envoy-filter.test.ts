import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseResource } from '../parsing/parse.ts';

function parsed(configPatch: object) {
  const metadata = { name: 'patches', namespace: 'shop' };
  const spec = { configPatches: [configPatch] };
  return parseResource(
    { apiVersion: 'networking.mesh.io/v1alpha3', kind: 'EnvoyFilter', metadata, spec },
    { source: 'test' },
    () => undefined,
  );
}

/** Why a document with this patch is refused, or its warnings. */
function problems(configPatch: object): string[] {
  const result = parsed(configPatch);
  if ('problem' in result) return [`${result.problem.field}: ${result.problem.message}`];
  assert.ok('resource' in result);
  return (result.resource.warnings ?? []).map(({ field, message }) => `warning ${field}: ${message}`);
}

const patch = (applyTo: string, operation: string, value: object, match: object = {}) => ({
  applyTo,
  match,
  patch: { operation, value },
});

const VALUE = 'spec.configPatches[0].patch.value';

test('a value that is not a piece of the patched message is refused with the path of the mistake', () => {
  const filter = { name: 'x', typed_config: { '@type': 'type.googleapis.com/example.Unknown' } };
  const manager = {
    '@type': 'type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager',
    http_filters: [{ name: 5 }],
  };
  const rows: [object, string][] = [
    [patch('CLUSTER', 'MERGE', { connectTimeout: 5 }), `${VALUE}.connectTimeout: expected a duration such as "1.5s"`],
    [patch('CLUSTER', 'MERGE', { colour: 'red' }), `${VALUE}.colour: unknown field of envoy.config.cluster.v3.Cluster`],
    [patch('NETWORK_FILTER', 'MERGE', filter), `${VALUE}.typed_config["@type"]: message example.Unknown is not known`],
    [
      patch('NETWORK_FILTER', 'MERGE', { typed_config: manager }),
      `${VALUE}.typed_config.http_filters[0].name: expected a string`,
    ],
    [patch('HTTP_FILTER', 'ADD', {}), `${VALUE}.name: required for operation ADD`],
    [
      patch('CLUSTER', 'ADD', { name: 'outbound|80||web' }),
      `${VALUE}.name: expected a name that no generated resource has`,
    ],
    [patch('LISTENER', 'ADD', { name: '0.0.0.0_80' }), `${VALUE}.name: expected a name that no generated resource has`],
  ];
  for (const [configPatch, expected] of rows) assert.deepEqual(problems(configPatch), [expected]);
});

test('a value that Envoy could not read, or that takes too much memory, is refused', () => {
  let deep: unknown = 1;
  for (let level = 0; level < 40; level++) deep = { a: deep };
  const metadata = { filter_metadata: { f: { deep } } };
  assert.match(problems(patch('CLUSTER', 'MERGE', { metadata })).join(), /metadata.*: nested too deep$/);
  const long = { alt_stat_name: 'x'.repeat(70_000) };
  assert.match(problems(patch('CLUSTER', 'MERGE', long)).join(), /value: expected at most 65536 bytes, .* got 70005$/);
  assert.deepEqual(problems(patch('CLUSTER', 'ADD', { name: 'added', ...long })), []);
});

test('a name that only resembles those of generated listeners can be added', () => {
  for (const name of ['cafe_8080', 'added_1']) assert.deepEqual(problems(patch('LISTENER', 'ADD', { name })), []);
  for (const name of ['::_80', 'fd00::1_80', '10.0.0.1_80'])
    assert.match(problems(patch('LISTENER', 'ADD', { name })).join(), /no generated resource has/);
});

test('a wrong value that contains a secret is not quoted', () => {
  const value = { transport_socket: { name: 'tls', typed_config: 'password-in-the-wrong-place' } };
  assert.doesNotMatch(problems(patch('CLUSTER', 'MERGE', value)).join(), /password/);
});

test('patches that are applied have no warning; others have one that names the unsupported field', () => {
  const unapplied = 'not supported in this version: the patch is not applied';
  const at = (field: string) => [`warning spec.configPatches[0].${field}: ${unapplied}`];
  assert.deepEqual(problems(patch('CLUSTER', 'MERGE', { name: 'a' })), []);
  assert.deepEqual(problems(patch('BOOTSTRAP', 'MERGE', {})), [
    `${at('applyTo')[0]}; MESH_BOOTSTRAP_OVERRIDE of ctl-agent names a file that is merged into the bootstrap`,
  ]);
  assert.deepEqual(problems(patch('ROUTE_CONFIGURATION', 'ADD', {})), at('patch.operation'));
  const classified = (applyTo: string, operation: string) =>
    problems({ applyTo, patch: { operation, value: { name: 'x' }, filterClass: 'AUTHN' } });
  assert.deepEqual(classified('HTTP_FILTER', 'ADD'), []);
  const noEffect = 'no effect: expected only with operation ADD of a NETWORK_FILTER or HTTP_FILTER';
  assert.deepEqual(classified('HTTP_FILTER', 'INSERT_FIRST'), [
    `warning spec.configPatches[0].patch.filterClass: ${noEffect}`,
  ]);
});

test('a patch of existing listener filters must name one', () => {
  const field = 'spec.configPatches[0].match.listener.listenerFilter';
  const remove = { applyTo: 'LISTENER_FILTER', patch: { operation: 'REMOVE' } };
  assert.deepEqual(problems(remove), [`warning ${field}: required for operation REMOVE`]);
  assert.deepEqual(
    problems({ ...remove, match: { listener: { listenerFilter: 'envoy.listener.tls_inspector' } } }),
    [],
  );
  assert.deepEqual(problems(patch('LISTENER_FILTER', 'ADD', { name: 'x' })), []);
});
