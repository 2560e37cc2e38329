import assert from 'node:assert/strict';
import { test } from 'node:test';
import { envoy } from '../../protobuf/index.ts';
import { MeshReader } from '../reads/index.ts';
import { guarded, policyOf } from '../testing/authorization.ts';
import { httpConnectionManager } from './http-connection-manager.ts';

const { HttpConnectionManager } = envoy.extensions.filters.network.http_connection_manager.v3;
type Normalization = 'DEFAULT' | 'NONE' | 'BASE' | 'MERGE_SLASHES' | 'DECODE_AND_MERGE_SLASHES';

/** How paths are normalized where a policy with this spec applies: dots, merged slashes, escaped slashes. */
function doneTo(normalization: Normalization, spec?: string, plugins = ['authz']): string {
  const policies = spec === undefined ? [] : [policyOf({ spec })];
  const { snapshot, view } = guarded(policies, {
    mesh: { pathNormalization: { normalization } },
    settings: { plugins },
  });
  const options = { statPrefix: 'x', routes: { inline: {} }, useRemoteAddress: false };
  const { typedConfig } = httpConnectionManager(MeshReader.of(snapshot), view, options);
  const manager = HttpConnectionManager.decode(typedConfig?.value as Uint8Array);
  const { UNESCAPE_AND_FORWARD } = HttpConnectionManager.PathWithEscapedSlashesAction;
  return [
    manager.normalizePath?.value === true ? 'dots' : '',
    manager.mergeSlashes ? 'merged' : '',
    manager.pathWithEscapedSlashesAction === UNESCAPE_AND_FORWARD ? 'escaped' : '',
  ]
    .filter((word) => word !== '')
    .join(' ');
}

const PATHS = '{action: DENY, rules: [{to: [{operation: {paths: [/admin]}}]}]}';
const NOT_PATHS = '{rules: [{to: [{operation: {notPaths: [/admin]}}]}]}';
const HEADER = '{rules: [{when: [{key: "request.headers[:path]", values: [/a]}]}]}';
const METHODS = '{rules: [{to: [{operation: {methods: [GET]}}]}]}';

test('paths are normalized as the mesh configuration says, whatever policies there are', () => {
  for (const spec of [undefined, PATHS]) {
    assert.equal(doneTo('NONE', spec), '');
    assert.equal(doneTo('BASE', spec), 'dots');
    assert.equal(doneTo('MERGE_SLASHES', spec), 'dots merged');
    assert.equal(doneTo('DECODE_AND_MERGE_SLASHES', spec), 'dots merged escaped');
  }
});

test('by default, slashes are normalized wherever a policy matches paths', () => {
  for (const spec of [undefined, METHODS]) assert.equal(doneTo('DEFAULT', spec), 'dots');
  for (const spec of [PATHS, NOT_PATHS, HEADER]) assert.equal(doneTo('DEFAULT', spec), 'dots merged escaped');
  assert.equal(doneTo('DEFAULT', PATHS, []), 'dots', 'a policy that is not enforced');
});
