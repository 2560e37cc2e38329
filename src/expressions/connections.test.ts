import assert from 'node:assert/strict';
import { test } from 'node:test';
import { matchesConnections, readsRequests } from './connections.ts';

test('a condition that needs an attribute of requests, or another protocol, cannot be true for a connection', () => {
  const rows: readonly (readonly [match: string | undefined, possible: boolean])[] = [
    [undefined, true],
    ['', true],
    ['true', true],
    ['false', false],
    ['context.protocol == "tcp"', true],
    ['"tcp" == context.protocol && destination.port == 9000', true],
    ['context.protocol == "http"', false],
    ['context.protocol != "tcp"', false],
    ['!(context.protocol == "tcp")', false],
    ['context.protocol == "http" || context.protocol == "tcp"', true],
    ['destination.port == 9000', true],
    ['connection.mtls', true],
    ['source.labels["app"] == "a"', true],
    ['request.path == "/x"', false],
    ['request.path != "/x"', false],
    ['!(request.path == "/x")', false],
    ['request.path.startsWith("/x") && destination.port == 80', false],
    ['destination.port == 80 && request.method == "GET"', false],
    ['match(request.path, "/x*")', false],
    ['request.headers["a"] == "b"', false],
    ['(request.headers["a"] | "") != "root"', true],
    ['(request.path | source.name) == "a"', true],
    ['(request.path | request.host) == "a"', false],
    ['context.protocol == "tcp" || request.path == "/x"', true],
    ['conditional(context.protocol == "tcp", source.name, request.path) == "a"', true],
    ['conditional(context.protocol == "http", source.name, request.path) == "a"', false],
    ['has(request.path)', false],
    ['!has(request.path)', true],
    ['pick(request.path, "a") == "a"', true],
    ['context.protocol in ["tcp"]', true],
    ['no.such.attribute == 1', true],
    ['this is no expression', true],
  ];
  for (const [match, expected] of rows) assert.equal(matchesConnections(match), expected, match);
});

test('whether an expression reads an attribute of requests, outside of strings', () => {
  for (const each of [
    'request.path',
    'source.name | request.host',
    'destination.labels[response.code]',
    'api.protocol',
  ])
    assert.ok(readsRequests(each), each);
  for (const each of [
    'source.name',
    '"request.path"',
    '`request.path`',
    "'request.path'",
    'own.request.path',
    '"a\\"request.x"',
    // In CEL.
    '"""a " request.x " b"""',
    'r"\\" + source.name + "request.x"',
    'this is no expression',
  ])
    assert.ok(!readsRequests(each), each);
});
