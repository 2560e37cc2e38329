/** Documents of the Gateway API in files, which no API server has checked. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseResource } from '../parsing/parse.ts';

const API = 'gateway.networking.k8s.io/v1';

/** The first error of a document as `field: message`; undefined for one that is accepted. */
function problemOf(kind: string, spec: object): string | undefined {
  const raw = { apiVersion: API, kind, metadata: { name: 'a', namespace: 'b' }, spec };
  const parsed = parseResource(raw, { source: 'test' }, () => undefined);
  return 'problem' in parsed ? `${parsed.problem.field}: ${parsed.problem.message}` : undefined;
}

const gateway = (...listeners: readonly object[]) => {
  const full = listeners.map((listener) => ({ name: 'a', port: 80, protocol: 'HTTP', ...listener }));
  return problemOf('Gateway', { gatewayClassName: 'meshd', listeners: full });
};

test('listeners have different names, without the characters of derived names', () => {
  assert.equal(
    gateway({ name: 'a' }, { name: 'b.c-d', hostname: '*.Example.com' }, { name: 'e', hostname: '' }),
    undefined,
  );
  assert.match(gateway({}, {}) ?? '', /^spec\.listeners\[1\]\.name: /);
  for (const name of ['', 'a~b', 'a/b', 'A']) assert.match(gateway({ name }) ?? '', /^spec\.listeners\[0\]\.name: /);
});

test('hosts are host names or wildcards of whole labels', () => {
  for (const hostname of ['a b', '*', 'a.*.example', '*a.example', 'a~b', `${'a'.repeat(254)}`]) {
    assert.match(gateway({ hostname }) ?? '', /^spec\.listeners\[0\]\.hostname: /);
    for (const kind of ['HTTPRoute', 'GRPCRoute', 'TLSRoute']) {
      assert.match(problemOf(kind, { hostnames: ['a.example', hostname] }) ?? '', /^spec\.hostnames\[1\]: /);
    }
    const policy = problemOf('BackendTLSPolicy', { validation: { hostname } });
    assert.match(policy ?? '', /^spec\.validation\.hostname: /);
  }
  assert.match(problemOf('HTTPRoute', { hostnames: [''] }) ?? '', /^spec\.hostnames\[0\]: /);
});

test('a route has a limited number of rules', () => {
  const rules = (length: number) => problemOf('TCPRoute', { rules: Array.from({ length }, () => ({})) });
  assert.equal(rules(1024), undefined);
  assert.match(rules(1025) ?? '', /^spec\.rules: expected at most 1024 rules, got 1025/);
});
