import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ineffectiveSettings, type RedirectionSettings, redirectionOf } from './options.ts';
import { DEFAULT_SETTINGS, redirection } from './testing/redirections.ts';

test('without settings nothing is redirected, and ports and user have their defaults', () => {
  assert.deepEqual(redirection({}), {
    interception: { mode: 'REDIRECT' },
    proxyPort: 15001,
    inboundPort: 15006,
    tunnelPort: 15008,
    inboundPorts: [],
    inboundPortsExcluded: [],
    outboundPorts: [],
    outboundPortsExcluded: [],
    cidrs: [],
    cidrsExcluded: [],
    virtualInterfaces: [],
    proxyUids: [1337],
    proxyGids: [1337],
    dns: undefined,
  });
});

test('lists are read without blanks and duplicates, and addresses become ranges', () => {
  const wanted = redirection({ meshInboundPorts: ' 80, 443,,80', meshServiceCidr: '10.0.0.1,fd00::/8' });
  assert.deepEqual(wanted.inboundPorts, [80, 443]);
  assert.deepEqual(wanted.cidrs, ['10.0.0.1/32', 'fd00::/8']);
});

test('TPROXY has a mark and a routing table, in decimal or hexadecimal', () => {
  const mode = { meshInboundInterceptionMode: 'TPROXY' };
  assert.deepEqual(redirection(mode).interception, { mode: 'TPROXY', mark: 1337, routeTable: 133 });
  const given = { ...mode, meshInboundTproxyMark: '0x10', meshInboundTproxyRouteTable: '7' };
  assert.deepEqual(redirection(given).interception, { mode: 'TPROXY', mark: 16, routeTable: 7 });
});

describe("the proxy's user", () => {
  const user = { uid: '201', gid: '202' };
  const of = (changes: { proxyUid?: string; proxyGid?: string }) => {
    const { proxyUids, proxyGids } = redirectionOf(
      { ...DEFAULT_SETTINGS, ...changes },
      { proxyUser: user, nameservers: [] },
    );
    return [proxyUids, proxyGids];
  };
  test('is the one of the host by default', () => assert.deepEqual(of({}), [[201], [202]]));
  test('determines the group when only the user is set', () => assert.deepEqual(of({ proxyUid: '5' }), [[5], [5]]));
  test('may be several', () => assert.deepEqual(of({ proxyUid: '5,6', proxyGid: '7' }), [[5, 6], [7]]));
});

describe('settings without effect are reported', () => {
  const rows: readonly (readonly [Partial<RedirectionSettings>, RegExp | undefined])[] = [
    [
      { meshServiceCidr: '10.0.0.0/8', meshServiceExcludeCidr: '10.1.0.0/16' },
      /exclude-cidr.*: 10\.1\.0\.0\/16 is not/,
    ],
    [{ meshServiceExcludeCidr: '10.1.0.0/16' }, /^--mesh-service-exclude-cidr applies only/],
    [{ meshServiceCidr: '*', meshServiceExcludeCidr: '10.1.0.0/16' }, undefined],
    [{ meshInboundPorts: '80', meshLocalExcludePorts: '22' }, /^--mesh-local-exclude-ports applies only/],
    [{ meshInboundPorts: '*', meshLocalExcludePorts: '22' }, undefined],
    [{ meshServiceCidr: '127.0.0.1,::1' }, /127\.0\.0\.1\/32, ::1\/128 is never redirected/],
    [{ meshServiceCidr: '127.0.0.2' }, undefined],
    [{ meshInboundTproxyMark: '7' }, /apply only with --mesh-inbound-interception-mode TPROXY/],
    [{ meshInboundTproxyMark: '7', meshInboundInterceptionMode: 'TPROXY' }, undefined],
  ];
  for (const [changes, expected] of rows) {
    test(JSON.stringify(changes), () => {
      const said = ineffectiveSettings({ ...DEFAULT_SETTINGS, ...changes }, redirection(changes), []);
      assert.equal(said.length, expected === undefined ? 0 : 1);
      if (expected !== undefined) assert.match(said[0] ?? '', expected);
    });
  }
});

describe('invalid values are refused with the name of the flag', () => {
  const rows = [
    ['proxyPort', '0', /^--proxy-port: "0" is not a port \(1 to 65535\)$/],
    ['proxyPort', '', /--proxy-port/],
    ['meshInboundPorts', '80,*', /--mesh-inbound-ports: "\*"/],
    ['meshInboundPorts', '80 -j DROP', /--mesh-inbound-ports/],
    ['meshLocalExcludePorts', '70000', /--mesh-local-exclude-ports/],
    ['meshServiceCidr', '10.0.0.0/33', /--mesh-service-cidr/],
    ['meshServiceCidr', '10.0.0.0/8/8', /--mesh-service-cidr/],
    ['meshServiceCidr', 'example.org', /--mesh-service-cidr/],
    ['meshServiceCidr', 'fe80::1%eth0/64', /--mesh-service-cidr/],
    ['meshServiceExcludeCidr', '*', /--mesh-service-exclude-cidr/],
    ['orchVirtInterfaces', 'a\nCOMMIT', /--orch-virt-interfaces/],
    ['orchVirtInterfaces', '-j', /--orch-virt-interfaces/],
    ['proxyUid', 'envoy', /--proxy-uid: "envoy" is not a numeric id/],
    ['proxyGid', '-1', /--proxy-gid/],
  ] as const;
  for (const [setting, text, message] of rows) {
    test(`${setting} ${JSON.stringify(text)}`, () => {
      assert.throws(() => redirection({ [setting]: text }), { code: 'invalid_argument', message });
    });
  }
  test('a mark of 0 and a table of the kernel are refused', () => {
    const mode = { meshInboundInterceptionMode: 'TPROXY' };
    assert.throws(() => redirection({ ...mode, meshInboundTproxyMark: '0' }), /--mesh-inbound-tproxy-mark/);
    assert.throws(() => redirection({ ...mode, meshInboundTproxyRouteTable: '254' }), /--mesh-inbound-tproxy-route/);
  });
});
