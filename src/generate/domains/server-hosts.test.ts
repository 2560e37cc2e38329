import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { commonHosts, serverHost } from './server-hosts.ts';

describe('hosts that a server and a virtual service have in common', () => {
  const rows: readonly [behaviour: string, server: string[], hosts: string[], expected: string[]][] = [
    ['the same host', ['a.example'], ['a.example'], ['a.example']],
    ['all hosts of the server', ['*'], ['a.example', 'b.example'], ['a.example', 'b.example']],
    ['the narrower of wildcard and name', ['*.example'], ['a.example', 'b.other'], ['a.example']],
    [
      'a virtual service that is wider than the server',
      ['a.example', 'b.example'],
      ['*.example'],
      ['a.example', 'b.example'],
    ],
    ['the narrower of two wildcards', ['*.example'], ['*.a.example'], ['*.a.example']],
    ['a virtual service for all hosts', ['*.example'], ['*'], ['*.example']],
    ['both for all hosts', ['*'], ['*'], ['*']],
    ['nothing', ['a.example'], ['b.example'], []],
    ['each once', ['*', '*.example'], ['a.example'], ['a.example']],
    ['any namespace', ['*/a.example'], ['a.example'], ['a.example']],
    ['the namespace of the virtual service', ['shop/a.example'], ['a.example'], ['a.example']],
    ['another namespace', ['bank/a.example'], ['a.example'], []],
    ["the gateway's namespace, which is not the virtual service's", ['./a.example'], ['a.example'], []],
    ['only for some hosts of the server', ['bank/*', 'shop/a.example'], ['a.example', 'b.example'], ['a.example']],
  ];
  for (const [behaviour, server, hosts, expected] of rows) {
    test(behaviour, () => {
      const entries = server.map((entry) => serverHost(entry, 'edge'));
      assert.deepEqual(commonHosts(entries, { namespace: 'shop', hosts }), expected);
    });
  }
  test("the gateway's own namespace", () => {
    assert.deepEqual(commonHosts([serverHost('./*', 'edge')], { namespace: 'edge', hosts: ['a'] }), ['a']);
  });
});
