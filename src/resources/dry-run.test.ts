import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { checkDocument } from './check.ts';
import { isDryRun } from './dry-run.ts';
import { parseResource } from './parsing/parse.ts';

const ORIGIN = { source: 'test', file: 'a.yaml' };

function document(annotations: Readonly<Record<string, unknown>>, spec: object = {}, kind = 'AuthorizationPolicy') {
  const group = kind === 'VirtualService' ? 'networking.mesh.io/v1alpha3' : 'security.mesh.io/v1beta1';
  return { apiVersion: group, kind, metadata: { name: 'a', namespace: 'shop', annotations }, spec };
}

function parsed(...of: Parameters<typeof document>) {
  return parseResource(document(...of), ORIGIN, (path) => (path.at(-1)?.toString().includes('dry-run') ? 7 : 1));
}

describe('whether a policy is in dry run', () => {
  const rows: readonly (readonly [Readonly<Record<string, string>>, boolean])[] = [
    [{}, false],
    [{ 'istio.io/dry-run': 'true' }, true],
    [{ 'mesh.io/dry-run': 'true' }, true],
    [{ 'istio.io/dry-run': 'T' }, true],
    [{ 'istio.io/dry-run': '1' }, true],
    [{ 'istio.io/dry-run': 'false' }, false],
    [{ 'istio.io/dry-run': '0' }, false],
    [{ 'istio.io/dry-run': 'true', 'mesh.io/dry-run': 'false' }, false],
    [{ 'other.io/dry-run': 'true' }, false],
  ];
  for (const [annotations, expected] of rows) {
    test(JSON.stringify(annotations), () => {
      const result = parsed(annotations);
      assert.ok('resource' in result);
      assert.equal(isDryRun(result.resource), expected);
    });
  }
});

describe('an annotation that cannot be acted on is refused', () => {
  const rows: readonly (readonly [what: string, of: Parameters<typeof document>, field: string, message: RegExp])[] = [
    [
      'a value that is neither true nor false',
      [{ 'istio.io/dry-run': 'yes' }],
      'metadata.annotations["istio.io/dry-run"]',
      /^expected "true" or "false", got "yes"$/,
    ],
    ['no value', [{ 'mesh.io/dry-run': '' }], 'metadata.annotations["mesh.io/dry-run"]', /got ""$/],
    [
      'on a policy that denies nothing',
      [{ 'istio.io/dry-run': 'true' }, { action: 'AUDIT', rules: [{}] }],
      'metadata.annotations["istio.io/dry-run"]',
      /AUDIT denies nothing$/,
    ],
  ];
  for (const [what, of, field, message] of rows) {
    test(what, () => {
      const result = parsed(...of);
      assert.ok('problem' in result);
      assert.equal(result.problem.field, field);
      assert.equal(result.problem.origin.line, 7);
      assert.match(result.problem.message, message);
    });
  }
});

test('on a document of another kind it has no effect: a stored one is in force with a warning, a new one is refused', () => {
  const routes = { hosts: ['a'], http: [{ route: [{ destination: { host: 'a' } }] }] };
  for (const [kind, spec] of [
    ['PeerAuthentication', {}],
    ['VirtualService', routes],
  ] as const) {
    const written = [{ 'istio.io/dry-run': 'true' }, spec, kind] as const;
    const result = parsed(...written);
    assert.ok('resource' in result);
    const field = 'metadata.annotations["istio.io/dry-run"]';
    const message = 'expected only on an AuthorizationPolicy: documents of other kinds are always enforced';
    assert.deepEqual(result.resource.warnings, [{ field, message, line: 7 }]);
    assert.deepEqual(checkDocument(document(...written))?.errors, [{ field, message }]);
  }
});

describe('what is in force instead of a refused policy', () => {
  const mistake = { action: 'DENY', rules: [{ too: [] }] };
  const everything = [{ action: 'DENY', rules: [{}] }];
  const rows: readonly (readonly [annotations: Readonly<Record<string, unknown>>, substitutes: object[]])[] = [
    [{ 'istio.io/dry-run': 'true' }, []],
    [{ 'mesh.io/dry-run': 'true' }, []],
    // YAML reads it as a boolean, which the orchestrator would refuse.
    [{ 'istio.io/dry-run': true }, []],
    [{ 'istio.io/dry-run': 'false' }, everything],
    [{ 'istio.io/dry-run': 'ture' }, everything],
    [{ 'istio.io/dry-run': 'true', 'mesh.io/dry-run': 'false' }, everything],
    [{ 'istio.io/dry-run': 'true', 'mesh.io/dry-run': 1 }, everything],
    [{}, everything],
  ];
  for (const [annotations, expected] of rows) {
    test(JSON.stringify(annotations), () => {
      const result = parsed(annotations, mistake);
      assert.ok('problem' in result);
      assert.deepEqual(
        result.problem.substitutes?.map(({ content }) => content),
        expected,
      );
    });
  }
});
