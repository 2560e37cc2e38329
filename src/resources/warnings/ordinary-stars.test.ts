import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parse } from 'yaml';
import { checkDocument, parseResource } from '../index.ts';

function policy(rules: string, action = 'DENY') {
  const spec = { action, ...(action === 'CUSTOM' && { provider: { name: 'p' } }), rules: parse(rules) as unknown };
  return {
    apiVersion: 'security.mesh.io/v1beta1',
    kind: 'AuthorizationPolicy',
    metadata: { name: 'a', namespace: 'n' },
    spec,
  };
}

/** The fields that authors of the policy are warned about, by the webhook, and by the log and the debug page. */
function warned(document: object): string[] {
  const fields = (warnings: readonly { readonly field: string; readonly message: string }[] = []) => {
    for (const { message } of warnings) assert.match(message, /^"\*" in the middle is not a wildcard: .*literally/);
    return warnings.map(({ field }) => field);
  };
  const checked = checkDocument(document);
  assert.deepEqual(checked?.errors, []);
  const read = parseResource(document, { source: 'test' }, () => undefined);
  assert.ok('resource' in read);
  assert.deepEqual(fields(read.resource.warnings), fields(checked.warnings));
  return fields(checked.warnings);
}

describe('a star in the middle of a value', () => {
  const to = (fields: string) => `[{to: [{operation: {${fields}}}]}]`;
  const from = (fields: string) => `[{from: [{source: {${fields}}}]}]`;
  const when = (key: string, values: string) => `[{when: [{key: '${key}', ${values}}]}]`;
  const operation = 'spec.rules[0].to[0].operation';
  const source = 'spec.rules[0].from[0].source';
  const condition = 'spec.rules[0].when[0]';
  const rows: readonly (readonly [rules: string, fields: readonly string[]])[] = [
    [to("paths: ['/a*b']"), [`${operation}.paths[0]`]],
    [to("paths: ['/x', '/a/*/b']"), [`${operation}.paths[1]`]],
    [to("paths: ['/a*b*']"), [`${operation}.paths[0]`]],
    [to("paths: ['*/a*b']"), [`${operation}.paths[0]`]],
    [to("notPaths: ['/a*b']"), [`${operation}.notPaths[0]`]],
    [to("hosts: ['a.*.example']"), [`${operation}.hosts[0]`]],
    [to("methods: ['P*T']"), [`${operation}.methods[0]`]],
    [from('principals: [cluster.local/ns/*/sa/web]'), [`${source}.principals[0]`]],
    [from('notPrincipals: [cluster.local/ns/*/sa/web]'), [`${source}.notPrincipals[0]`]],
    [from("namespaces: ['a*b']"), [`${source}.namespaces[0]`]],
    [from("requestPrincipals: ['a*/b']"), [`${source}.requestPrincipals[0]`]],
    [when('request.headers[authorization]', "values: ['a*b']"), [`${condition}.values[0]`]],
    [when('connection.sni', "notValues: ['a.*.example']"), [`${condition}.notValues[0]`]],
    // Templates of paths, and only of these.
    [to("paths: ['/a/{*}/b', '/a/{**}/c'], notPaths: ['/{*}/x']"), []],
    [to("hosts: ['a{*}b']"), [`${operation}.hosts[0]`]],
    // At one end, or alone, it is a wildcard.
    [to("paths: ['/a*', '*/b', '*'], hosts: ['*.example', 'a.*'], methods: ['*']"), []],
    [from("principals: ['*', '*/sa/web', 'cluster.local/*'], namespaces: ['a-*']"), []],
    ['[{}]', []],
  ];
  for (const [rules, fields] of rows) {
    test(`${rules}: ${fields.length === 0 ? 'no warning' : 'a warning'}`, () => {
      for (const action of ['DENY', 'ALLOW', 'AUDIT']) assert.deepEqual(warned(policy(rules, action)), fields, action);
    });
  }
  test('CUSTOM rules are read too', () =>
    assert.deepEqual(warned(policy(to("paths: ['/a*b']"), 'CUSTOM')), [`${operation}.paths[0]`]));
  test('the warning quotes no value, which may be a secret', () => {
    const document = policy(when('request.headers[authorization]', "values: ['Bearer*secret']"));
    assert.doesNotMatch(JSON.stringify(checkDocument(document)), /secret/);
  });
});
