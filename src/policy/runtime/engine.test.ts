/** The engine with an adapter outside, a real gRPC server: its output becomes a header, and without it nothing passes. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { Server, ServerCredentials, type ServerUnaryCall, type sendUnaryData } from '@grpc/grpc-js';
import { encode, envoy } from '../../protobuf/index.ts';
import { testHost } from '../adapters/testing/host.ts';
import { compiled } from '../testing/compiled.ts';
import { descriptorOf, protoRoot } from '../testing/descriptors.ts';
import { PolicyEngine } from './engine.ts';

const { CheckRequest, CheckResponse } = envoy.service.auth.v3;

const MODEL = 'istio.mixer.adapter.model.v1beta1';
const ROOT = protoRoot(`
syntax = "proto3";
package tags;
service HandleTagsService { rpc HandleTags(HandleTagsRequest) returns (HandleTagsResponse); }
message HandleTagsRequest { InstanceMsg instance = 1; google.protobuf.Any adapter_config = 2; string dedup_id = 3; }
message HandleTagsResponse { ${MODEL}.CheckResult result = 1; OutputMsg output = 2; }
message OutputMsg { string tag = 1; }
message InstanceMsg { string name = 72295727; string subject = 1; }
message Params { string prefix = 1; }
`);

const documents = (address: string): string => `
kind: template
metadata: { name: tags }
spec: { descriptor: ${descriptorOf(ROOT, 'tags', { variety: 4, name: 'tags' })} }
---
kind: adapter
metadata: { name: tagger }
spec: { templates: [tags], config: ${descriptorOf(ROOT, 'tags')}, sessionBased: false }
---
kind: handler
metadata: { name: outside }
spec: { adapter: tagger, params: { prefix: "t-" }, connection: { address: "${address}", timeout: 5s } }
---
kind: instance
metadata: { name: entry }
spec: { template: tags, params: { subject: 'request.headers["x-user"] | "nobody"' } }
---
kind: rule
metadata: { name: r }
spec:
  actions: [{ handler: outside, instances: [entry], name: judge }]
  requestHeaderOperations: [{ name: x-tag, values: [judge.output.tag] }]
`;

/** Tags a subject with its name, and refuses `eve`. */
async function startAdapter(context: TestContext): Promise<{ readonly address: string; stop(): void }> {
  const [request, response] = ['HandleTagsRequest', 'HandleTagsResponse'].map((name) =>
    ROOT.lookupType(`tags.${name}`),
  );
  const server = new Server();
  const bytes = (buffer: Buffer): Buffer => buffer;
  const method = {
    path: '/tags.HandleTagsService/HandleTags',
    requestStream: false,
    responseStream: false,
    requestSerialize: bytes,
    requestDeserialize: bytes,
    responseSerialize: bytes,
    responseDeserialize: bytes,
  };
  const handle = (call: ServerUnaryCall<Buffer, Buffer>, done: sendUnaryData<Buffer>): void => {
    const { instance } = (request?.decode(call.request).toJSON() ?? {}) as { instance?: { subject?: string } };
    const subject = instance?.subject ?? '';
    const result = { status: { code: subject === 'eve' ? 16 : 0, message: 'not you' }, validUseCount: 1 };
    const message = response?.fromObject({ result, output: { tag: `t-${subject}` } });
    done(null, Buffer.from(response?.encode(message ?? {}).finish() ?? []));
  };
  server.addService({ handle: method }, { handle });
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    ),
  );
  const stop = (): void => server.forceShutdown();
  context.after(stop);
  return { address: `127.0.0.1:${port}`, stop };
}

test('a check with output of an adapter outside decides, and its output becomes a header', async (t) => {
  const adapter = await startAdapter(t);
  const logged: string[] = [];
  const note = (_: string, message: string): void => void logged.push(message);
  const host = { ...testHost(), now: () => Date.now() };
  const engine = new PolicyEngine({
    host,
    configNamespace: 'mesh-system',
    logs: { attributes: note, grpcAdapter: note },
    log: host.log,
  });
  t.after(() => engine.close());
  const config = compiled(documents(adapter.address));
  assert.deepEqual(config.problems, []);
  assert.deepEqual(engine.configure(config).transition, { opened: 1, reused: 0, openFailures: 0 });
  const check = async (user: string) => {
    const http = { method: 'GET', path: '/', headers: { 'x-user': user } };
    const bytes = encode(CheckRequest, { attributes: { request: { http } } });
    const caller = { key: 'a', namespace: 'shop', principal: 'td/ns/shop/sa/web', address: '10.0.0.1' };
    const { okResponse, deniedResponse } = CheckResponse.decode(await engine.check(bytes, caller));
    return okResponse === null
      ? `${deniedResponse?.status?.code} ${deniedResponse?.body}`
      : okResponse.headers.map(({ header }) => `${header?.key}: ${header?.value}`).join();
  };
  assert.equal(await check('ann'), 'x-tag: t-ann');
  assert.equal(await check('eve'), '401 UNAUTHENTICATED:outside.mesh-system:not you');
  // An equal configuration keeps the handler, and its connection.
  assert.deepEqual(engine.configure(compiled(documents(adapter.address))).transition, {
    opened: 0,
    reused: 1,
    openFailures: 0,
  });
  assert.equal(engine.sample().closed.handlers, 0);
  adapter.stop();
  assert.equal(await check('ann'), '503 UNAVAILABLE:outside.mesh-system:the policy cannot be evaluated');
  assert.match(logged.join('\n'), /handler outside.mesh-system: 127\.0\.0\.1:\d+: /);
});

test('a handler that no rule names is not started', (t) => {
  const host = testHost();
  const engine = new PolicyEngine({
    host,
    configNamespace: 'mesh-system',
    logs: { attributes: () => undefined, grpcAdapter: () => undefined },
    log: host.log,
  });
  t.after(() => engine.close());
  const idle = '\n---\nkind: handler\nmetadata: { name: idle }\nspec: { compiledAdapter: stdio, params: {} }\n';
  const config = compiled(`${documents('127.0.0.1:1')}${idle}`);
  assert.deepEqual([config.problems, config.handlers.size], [[], 2]);
  assert.deepEqual(engine.configure(config).transition, { opened: 1, reused: 0, openFailures: 0 });
});
