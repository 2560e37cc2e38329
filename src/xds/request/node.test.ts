import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { CtlError } from '../../core/errors.ts';
import * as fc from '../../core/testing/properties.ts';
import { ASKED_EXTENSIONS } from '../../generate/index.ts';
import { encodeFields } from '../../protobuf/wire/index.ts';
import { encodeNode, nested, SIDECAR_ID, type StructValue } from '../testing/content.ts';
import { MAX_ID_BYTES, MAX_LABELS, MAX_NODE_BYTES, parseNode } from './node.ts';
import { MAX_ADDRESSES } from './node-addresses.ts';
import { MAX_EXTENSIONS } from './node-extensions.ts';
import { MAX_STRING_BYTES } from './node-values.ts';

function sidecar(metadata: StructValue = {}, more?: Buffer) {
  return parseNode(encodeNode(SIDECAR_ID, metadata, more));
}

function extension(name: string): Buffer {
  return nested(9, encodeFields([[1, name]]));
}

function fault(work: () => unknown): string {
  try {
    work();
  } catch (error) {
    assert.ok(error instanceof CtlError, String(error));
    assert.equal(error.code, 'invalid_argument');
    return error.oneLine();
  }
  return assert.fail('accepted');
}

describe('parseNode', () => {
  it('reads what the owner of a proxy asks for', () => {
    const asked = {
      HTTP10: '1',
      IDLE_TIMEOUT: '1m30s',
      TLS_CLIENT_CERT_CHAIN: '/c',
      TLS_CLIENT_KEY: '/k',
      TLS_CLIENT_ROOT_CERT: '/r',
    };
    const clientFiles = { certChain: '/c', key: '/k', roots: '/r' };
    assert.deepEqual(sidecar(asked).options, { http10: true, idleTimeoutMs: 90_000, clientFiles });
    assert.equal(sidecar({ HTTP10: '0', IDLE_TIMEOUT: '0s', TLS_CLIENT_KEY: '' }).options, undefined);
    assert.match(
      fault(() => sidecar({ IDLE_TIMEOUT: 'soon' })),
      /node\.metadata\.IDLE_TIMEOUT: expected a duration from 0s to 744h, got "soon"/,
    );
    assert.match(
      fault(() => sidecar({ IDLE_TIMEOUT: '-5s' })),
      /expected a duration/,
    );
    assert.match(
      fault(() => sidecar({ TLS_CLIENT_KEY: '../k' })),
      /TLS_CLIENT_KEY: expected an absolute path/,
    );
  });

  it('reads the proxies in front of a gateway, and of no sidecar', () => {
    const gateway = (gatewayTopology: StructValue) =>
      parseNode(encodeNode('router~10.0.0.1~gw.edge~edge.svc.cluster.local', { PROXY_CONFIG: { gatewayTopology } }));
    const topology = { forwardClientCertDetails: 'APPEND_FORWARD', numTrustedProxies: 2, proxyProtocol: {} };
    assert.deepEqual(gateway(topology).options, { gatewayTopology: topology });
    assert.equal(sidecar({ PROXY_CONFIG: { gatewayTopology: topology } }).options, undefined);
    const unknown = { forwardClientCertDetails: 'EVERYTHING' };
    assert.equal(sidecar({ PROXY_CONFIG: { gatewayTopology: unknown } }).options, undefined);
    assert.match(
      fault(() => gateway({ forwardClientCertDetails: 'EVERYTHING' })),
      /node\.metadata\.PROXY_CONFIG\.gatewayTopology: expected one of/,
    );
    assert.match(
      fault(() => gateway({ a: 'x'.repeat(4096) })),
      /longer than 4096 bytes/,
    );
    assert.match(
      fault(() => gateway({ numTrustedProxies: -1 })),
      /expected a number of at least 0/,
    );
  });

  it('reads that the agent of a gateway serves Secrets, where that agent is declared', () => {
    const reads = (id: string, metadata: StructValue) => {
      const { agentReadsSecrets, dns } = parseNode(encodeNode(id, metadata));
      return [agentReadsSecrets, dns];
    };
    const [router, declared] = ['router~10.0.0.1~gw.edge~edge.svc.cluster.local', { MESH_SDS_CLUSTER: 'sds-grpc' }];
    assert.deepEqual(reads(router, { ...declared, USER_SDS: 'true' }), [true, undefined]);
    assert.deepEqual(reads(router, { ...declared, USER_SDS: 'false' }), [undefined, undefined]);
    // Istio's agents serve other names.
    assert.deepEqual(reads(router, { USER_SDS: 'true', ISTIO_PROXY_SHA: 'x' }), [undefined, undefined]);
    assert.deepEqual(reads(SIDECAR_ID, { ...declared, USER_SDS: 'true' }), [undefined, undefined]);
  });

  it('reads what existing sidecars send', () => {
    const locality = nested(
      4,
      encodeFields([
        [1, 'eu'],
        [2, 'eu-1'],
      ]),
    );
    const build = nested(8, nested(1, Buffer.from([8, 1, 16, 40, 24, 2])));
    const [first = '', later = ''] = ASKED_EXTENSIONS;
    const node = sidecar(
      {
        NAMESPACE: 'shop',
        LABELS: { app: 'web', version: 'v1', empty: '', none: null },
        INSTANCE_IPS: '10.0.0.1, FE80::1,FD00::1,10.0.0.2',
        CLUSTER_ID: 'c1',
        NETWORK: 'n1',
        INTERCEPTION_MODE: 'TPROXY',
        SERVICE_ACCOUNT: 'web',
        ISTIO_VERSION: '1.20.0',
        MESH_SDS_CLUSTER: 'sds-grpc',
        PROXY_CONFIG: { deep: { deeper: 'x' } },
        MESH_ID: 'anything',
        SOME_NUMBER: 5,
      },
      Buffer.concat([locality, build, extension(later), extension('b'), extension(first), extension(later)]),
    );
    assert.deepEqual(node, {
      id: SIDECAR_ID,
      type: 'sidecar',
      addresses: ['10.0.0.1', 'fd00::1', '10.0.0.2'],
      workload: 'web-1.shop',
      namespace: 'shop',
      dnsDomain: 'shop.svc.cluster.local',
      labels: { app: 'web', version: 'v1', empty: '' },
      interception: 'TPROXY',
      clusterId: 'c1',
      network: 'n1',
      serviceAccount: 'web',
      identity: undefined,
      locality: 'eu/eu-1',
      extensions: [first, later],
      version: '1.40.2',
      meshVersion: '1.20.0',
      metadata: JSON.stringify([
        ['NAMESPACE', 'shop'],
        ['INSTANCE_IPS', '10.0.0.1, FE80::1,FD00::1,10.0.0.2'],
        ['CLUSTER_ID', 'c1'],
        ['NETWORK', 'n1'],
        ['INTERCEPTION_MODE', 'TPROXY'],
        ['SERVICE_ACCOUNT', 'web'],
        ['ISTIO_VERSION', '1.20.0'],
        ['MESH_SDS_CLUSTER', 'sds-grpc'],
        ['MESH_ID', 'anything'],
      ]),
      discoversVirtualHosts: true,
      shortEndpointNames: false,
      sds: true,
    });
  });

  it('keeps no name of an extension that generation does not check', () => {
    const names = Array.from({ length: 516 }, (_, index) => extension(`envoy.filters.http.number_${index}`));
    assert.deepEqual(sidecar({}, Buffer.concat(names)).extensions, []);
    const all = ASKED_EXTENSIONS.map((name) => extension(name));
    assert.deepEqual(sidecar({}, Buffer.concat([...names, ...all])).extensions, ASKED_EXTENSIONS);
  });

  it('reads the labels that were added to those of the Pod', () => {
    const node = sidecar({ LABELS: { app: 'web', own: 'x' }, STATIC_LABELS: { own: 'x' } });
    assert.deepEqual([node.labels, node.staticLabels], [{ app: 'web', own: 'x' }, { own: 'x' }]);
    for (const none of [{}, null]) assert.equal('staticLabels' in sidecar({ STATIC_LABELS: none }), false);
  });

  it('takes the namespace from the domain, REDIRECT and no extensions by default', () => {
    const node = sidecar();
    assert.equal(node.namespace, 'shop');
    assert.equal(node.interception, 'REDIRECT');
    assert.equal(node.extensions, undefined);
    assert.deepEqual(node.labels, {});
  });

  it('accepts a router without an address', () => {
    const node = parseNode(encodeNode('router~~gw-1.edge~edge.svc.cluster.local'));
    assert.equal(node.type, 'router');
    assert.deepEqual(node.addresses, []);
  });

  it('prefers MESH_VERSION to ISTIO_VERSION', () => {
    assert.equal(sidecar({ ISTIO_VERSION: '1', MESH_VERSION: '2' }).meshVersion, '2');
  });

  it('recognises gRPC applications without an Envoy', () => {
    assert.equal(sidecar({ GENERATOR: 'grpc' }).proxyless, true);
    for (const other of [{}, { GENERATOR: 'api' }, { GENERATOR: '' }])
      assert.equal(sidecar(other).proxyless, undefined);
  });

  it("recognises proxies of Istio's agent, which fetch certificates without declaring it", () => {
    const certified = (metadata: Parameters<typeof sidecar>[0]) => {
      const { sds, istioAgent } = sidecar(metadata);
      return [sds, istioAgent];
    };
    const config = { discoveryAddress: 'istiod.istio-system.svc:15012', binaryPath: '/usr/local/bin/envoy' };
    const ISTIO_PROXY_SHA = 'istio-proxy:262253d9d066f8ef7ed82fd175c28b8f95acbec0';
    assert.deepEqual(certified({ ISTIO_VERSION: '1.7.1', ISTIO_PROXY_SHA, PROXY_CONFIG: config }), [true, true]);
    assert.deepEqual(certified({ ISTIO_PROXY_SHA }), [true, true]);
    // As on a virtual machine: its package has no hash.
    assert.deepEqual(certified({ PROXY_CONFIG: config }), [true, true]);
    assert.deepEqual(certified({ ISTIO_VERSION: '1.7.1' }), [false, undefined]);
    assert.deepEqual(certified({ PROXY_CONFIG: 'text', ISTIO_PROXY_SHA: '' }), [false, undefined]);
    assert.deepEqual(certified({ PROXY_CONFIG: config, MESH_SDS_CLUSTER: 'none' }), [false, undefined]);
    assert.deepEqual(certified({ PROXY_CONFIG: config, MESH_VERSION: '1' }), [false, undefined]);
    // An Envoy without an agent that has a proxy configuration of its own: docs/bring-your-own-envoy.md.
    const PROXY_CONFIG = { gatewayTopology: { numTrustedProxies: 1 }, tracing: { sampling: 7 } };
    const router = (metadata: Parameters<typeof sidecar>[0]) =>
      parseNode(encodeNode('router~10.0.0.1~gw.edge~edge.svc.cluster.local', { PROXY_CONFIG, ...metadata }));
    for (const [metadata, isAgent] of [
      [{ MESH_VERSION: '1' }, false],
      [{ MESH_SDS_CLUSTER: 'none' }, false],
      [{}, true],
    ] as const) {
      const { sds, tracing, options } = router(metadata);
      assert.deepEqual([sds, tracing?.sampling, options], [isAgent, 7, { gatewayTopology: { numTrustedProxies: 1 } }]);
    }
    const own = { PROXY_CONFIG: config, MESH_VERSION: '1', MESH_SDS_CLUSTER: 'sds-grpc' };
    assert.deepEqual(certified(own), [true, undefined]);
  });

  it('knows which program answers DNS queries by the switches of DNS and the version of the agent', () => {
    const agent = { ISTIO_PROXY_SHA: 'istio-proxy:262253d9d066f8ef7ed82fd175c28b8f95acbec0' };
    const table: [metadata: Parameters<typeof sidecar>[0], dns: 'agent' | 'envoy' | undefined][] = [
      [{}, undefined],
      [{ DNS_CAPTURE: '' }, undefined],
      [{ DNS_CAPTURE: 'False', DNS_AUTO_ALLOCATE: '0', DNS_AGENT: false }, undefined],
      [{ DNS_CAPTURE: null }, undefined],
      [{ DNS_CAPTURE: 'ALL' }, 'envoy'],
      [{ DNS_CAPTURE: true, MESH_VERSION: '1.0.0' }, 'envoy'],
      [{ DNS_CAPTURE: 'true', DNS_AGENT: 'true' }, 'agent'],
      [{ DNS_AGENT: 'true' }, 'agent'],
      [{ DNS_AUTO_ALLOCATE: 'true' }, 'agent'],
      [{ ...agent, ISTIO_VERSION: '1.7.8', DNS_CAPTURE: 'ALL', DNS_AUTO_ALLOCATE: 'true' }, 'envoy'],
      [{ ...agent, ISTIO_VERSION: '1.8.0', DNS_CAPTURE: 'true' }, 'agent'],
      [{ ...agent, ISTIO_VERSION: 'latest', DNS_CAPTURE: 'true' }, 'agent'],
      [{ ISTIO_VERSION: '1.26.0', DNS_CAPTURE: 'true' }, 'envoy'],
    ];
    for (const [metadata, dns] of table) assert.equal(sidecar(metadata).dns, dns, JSON.stringify(metadata));
    assert.equal('dns' in sidecar(), false);
    const merges = [{}, { NAME_TABLE_PIECES: 'false' }, { NAME_TABLE_PIECES: 'true' }];
    assert.deepEqual(
      merges.map((metadata) => sidecar(metadata).mergesNames),
      [undefined, undefined, true],
    );
  });

  it('reads a label called __proto__', () => {
    const { labels } = sidecar({ LABELS: JSON.parse('{"__proto__": "x"}') });
    assert.deepEqual(Object.keys(labels), ['__proto__']);
    assert.equal(Object.getPrototypeOf(labels), Object.prototype);
  });

  it('reads metadata that is null as absent', () => {
    assert.equal(sidecar({ NAMESPACE: null, LABELS: null, INSTANCE_IPS: null }).namespace, 'shop');
    assert.equal(parseNode(Buffer.concat([encodeNode(SIDECAR_ID), nested(3, Buffer.alloc(0))])).namespace, 'shop');
  });

  it('skips structs of any depth under unknown keys', () => {
    let deep: Buffer = encodeFields([[3, 'bottom']]);
    for (let depth = 0; depth < 10_000; depth++) {
      deep = nested(5, nested(1, Buffer.concat([encodeFields([[1, 'k']]), nested(2, deep)])));
      if (deep.length > 300_000) break;
    }
    const entry = nested(1, Buffer.concat([encodeFields([[1, 'UNKNOWN']]), nested(2, deep)]));
    assert.equal(parseNode(Buffer.concat([encodeNode(SIDECAR_ID), nested(3, entry)])).namespace, 'shop');
  });

  const rows: [string, () => unknown, RegExp][] = [
    ['no node', () => parseNode(undefined), /^node: the first request/],
    ['an empty node', () => parseNode(Buffer.alloc(0)), /^node: the first request/],
    ['no id', () => parseNode(nested(3, Buffer.alloc(0))), /^node\.id: must be <type>/],
    ['three parts', () => parseNode(encodeNode('sidecar~10.0.0.1~web.shop')), /^node\.id: must be <type>/],
    ['five parts', () => parseNode(encodeNode(`${SIDECAR_ID}~x`)), /^node\.id: must be <type>/],
    ['an empty workload', () => parseNode(encodeNode('sidecar~10.0.0.1~~d.svc')), /^node\.id: must be <type>/],
    [
      'another type',
      () => parseNode(encodeNode(SIDECAR_ID.replace('sidecar', 'agent'))),
      /sidecar or router, not "agent"/,
    ],
    [
      'a bad address',
      () => parseNode(encodeNode(SIDECAR_ID.replace('10.0.0.1', '10.0.0.300'))),
      /^node\.id: "10.0.0.300" is not an IP/,
    ],
    ['no address', () => parseNode(encodeNode(SIDECAR_ID.replace('10.0.0.1', ''))), /a sidecar needs an IP/],
    ['a zone', () => sidecar({ INSTANCE_IPS: 'fe80::1%eth0' }), /INSTANCE_IPS: "fe80::1%eth0" is not an IP/],
    ['a bad instance IP', () => sidecar({ INSTANCE_IPS: '10.0.0.1,x' }), /INSTANCE_IPS: "x" is not an IP/],
    ['a number as namespace', () => sidecar({ NAMESPACE: 5 }), /^node\.metadata\.NAMESPACE: must be a string/],
    ['a struct as string', () => sidecar({ NETWORK: { a: 'b' } }), /^node\.metadata\.NETWORK: must be a string/],
    ['labels that are text', () => sidecar({ LABELS: 'app=web' }), /LABELS: must be a struct of strings/],
    [
      'static labels that are text',
      () => sidecar({ STATIC_LABELS: 'a' }),
      /STATIC_LABELS: must be a struct of strings/,
    ],
    ['a label that is a number', () => sidecar({ LABELS: { app: 1 } }), /LABELS\.app: must be a string/],
    ['a label that is a struct', () => sidecar({ LABELS: { app: { a: 'b' } } }), /LABELS\.app: must be a string/],
    ['a namespace that is none', () => sidecar({ NAMESPACE: 'No/pe' }), /"No\/pe" is not a valid namespace name/],
    [
      'a domain without namespace',
      () => parseNode(encodeNode('router~~gw.edge~.svc')),
      /domain must begin with the namespace/,
    ],
    ['another interception', () => sidecar({ INTERCEPTION_MODE: 'MAGIC' }), /must be REDIRECT, TPROXY or NONE/],
    ['a huge id', () => parseNode(encodeNode('x'.repeat(MAX_ID_BYTES + 1))), /longer than/],
    ['a huge string', () => sidecar({ NETWORK: 'x'.repeat(MAX_STRING_BYTES + 1) }), /longer than/],
    ['a huge node', () => sidecar({ OTHER: 'x'.repeat(MAX_NODE_BYTES) }), /larger than/],
    [
      'too many labels',
      () => sidecar({ LABELS: Object.fromEntries(Array.from({ length: MAX_LABELS + 1 }, (_, i) => [`l${i}`, ''])) }),
      /more than \d+ labels/,
    ],
    [
      'too many addresses',
      () => sidecar({ INSTANCE_IPS: Array.from({ length: MAX_ADDRESSES + 1 }, (_, i) => `10.1.0.${i}`).join() }),
      /more than \d+ addresses/,
    ],
    [
      'too many extensions',
      () => sidecar({}, Buffer.concat(Array.from({ length: MAX_EXTENSIONS + 1 }, () => nested(9, Buffer.alloc(0))))),
      /extensions: more than/,
    ],
    [
      'metadata that is a number',
      () => parseNode(Buffer.concat([encodeNode(SIDECAR_ID), Buffer.from([24, 1])])),
      /not a message/,
    ],
  ];
  for (const [row, work, expected] of rows)
    it(`refuses ${row}`, () => {
      assert.match(fault(work), expected);
    });

  it('parses any bytes to a node or throws a CtlError', () => {
    const valid = encodeNode(SIDECAR_ID, { NAMESPACE: 'shop', LABELS: { app: 'web' }, INSTANCE_IPS: '10.0.0.1' });
    const damaged = fc.tuple(fc.nat(valid.length - 1), fc.nat(255), fc.nat(valid.length)).map(([at, value, cut]) => {
      const bytes = Buffer.from(valid);
      bytes[at] = value;
      return bytes.subarray(0, cut);
    });
    const random = fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes));
    fc.assert(
      fc.property(fc.oneof(damaged, random), (bytes) => {
        try {
          assert.ok(parseNode(bytes).namespace);
        } catch (error) {
          assert.ok(error instanceof CtlError, String(error));
        }
      }),
      { numRuns: 2000 },
    );
  });
});
