/**
 * An adapter outside, as a tenant would write it with grpc-js: a template of checks with output, one of quotas and one
 * of reports, with the documents that describe them.
 */
import { generateKeyPairSync } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Server, ServerCredentials, type ServerUnaryCall, type sendUnaryData } from '@grpc/grpc-js';
import { testRoot } from '../../../src/agent/identity/testing/certificates.ts';
import { descriptorOf, protoRoot } from '../../../src/policy/testing/descriptors.ts';
import { type Owner, tempDir } from '../../harness/index.ts';
import type { Document } from './config.ts';
import { policyDocument as document } from './policy-documents.ts';

const MODEL = 'istio.mixer.adapter.model.v1beta1';
const PACKAGES = protoRoot(`
syntax = "proto3";
package judge;
service HandleJudgeService { rpc HandleJudge(HandleJudgeRequest) returns (HandleJudgeResponse); }
message HandleJudgeRequest { InstanceMsg instance = 1; google.protobuf.Any adapter_config = 2; string dedup_id = 3; }
message HandleJudgeResponse { ${MODEL}.CheckResult result = 1; OutputMsg output = 2; }
message OutputMsg { string verdict = 1; }
message InstanceMsg { string name = 72295727; string user = 1; }
message Params { string realm = 1; }
`);
const UNITS = protoRoot(`
syntax = "proto3";
package units;
service HandleUnitsService { rpc HandleUnits(HandleUnitsRequest) returns (${MODEL}.QuotaResult); }
message HandleUnitsRequest {
  InstanceMsg instance = 1; google.protobuf.Any adapter_config = 2; string dedup_id = 3;
  ${MODEL}.QuotaRequest quota_request = 4;
}
message InstanceMsg { string name = 72295727; string user = 1; }
`);
const NOTES = protoRoot(`
syntax = "proto3";
package notes;
service HandleNotesService { rpc HandleNotes(HandleNotesRequest) returns (${MODEL}.ReportResult); }
message HandleNotesRequest {
  repeated InstanceMsg instances = 1; google.protobuf.Any adapter_config = 2; string dedup_id = 3;
}
message InstanceMsg { string name = 72295727; string user = 1; int64 code = 2; }
`);

const TEMPLATES = {
  judge: { root: PACKAGES, variety: 4, call: 'Judge', answer: 'judge.HandleJudgeResponse' },
  units: { root: UNITS, variety: 2, call: 'Units', answer: `${MODEL}.QuotaResult` },
  notes: { root: NOTES, variety: 1, call: 'Notes', answer: `${MODEL}.ReportResult` },
} as const;
export type AdapterTemplate = keyof typeof TEMPLATES;

/** The `template` and `adapter` documents, in the root namespace, which all namespaces may use. */
export const ADAPTER_DOCUMENTS: readonly Document[] = [
  ...Object.entries(TEMPLATES).map(([name, { root, variety }]) =>
    document('template', name, { descriptor: descriptorOf(root, name, { variety, name }) }, 'mesh-system'),
  ),
  document(
    'adapter',
    'court',
    { templates: Object.keys(TEMPLATES), config: descriptorOf(PACKAGES, 'judge') },
    'mesh-system',
  ),
];

export interface Asked {
  readonly template: AdapterTemplate;
  /** `user` of each instance. */
  readonly users: readonly string[];
  readonly realm: string;
  /** Values of `authorization`. */
  readonly tokens: readonly string[];
}

/** The response as an object, or as bytes when the adapter breaks its contract. */
export type Answer = (asked: Asked) => object | Buffer | Promise<object | Buffer>;

export interface PolicyAdapter {
  readonly address: string;
  readonly asked: Asked[];
  /** Replaces how it answers. */
  answer: Answer;
  /** Ends it with all its connections. */
  kill(): void;
}

const bytes = (buffer: Buffer): Buffer => buffer;

export async function startPolicyAdapter(
  owner: Owner,
  answer: Answer,
  credentials = ServerCredentials.createInsecure(),
): Promise<PolicyAdapter> {
  const server = new Server({ 'grpc.max_send_message_length': -1 });
  const asked: Asked[] = [];
  const adapter = { answer };
  for (const [template, { call: name }] of Object.entries(TEMPLATES) as [
    AdapterTemplate,
    (typeof TEMPLATES)[AdapterTemplate],
  ][]) {
    const path = `/${template}.Handle${name}Service/Handle${name}`;
    const types = { requestSerialize: bytes, responseSerialize: bytes, responseDeserialize: bytes };
    const definition = { path, requestStream: false, responseStream: false, requestDeserialize: bytes, ...types };
    server.addService(
      { handle: definition },
      {
        handle: (call: ServerUnaryCall<Buffer, Buffer>, done: sendUnaryData<Buffer>) => {
          const each = readCall(template, call);
          asked.push(each);
          Promise.resolve(adapter.answer(each)).then(
            (response) => done(null, encoded(template, response)),
            (error: Error) => done(error),
          );
        },
      },
    );
  }
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync('127.0.0.1:0', credentials, (error, bound) => (error === null ? resolve(bound) : reject(error))),
  );
  const kill = (): void => server.forceShutdown();
  owner.after(async () => kill());
  return Object.assign(adapter, { address: `127.0.0.1:${port}`, asked, kill });
}

function readCall(template: AdapterTemplate, { request, metadata }: ServerUnaryCall<Buffer, Buffer>): Asked {
  const { root, call } = TEMPLATES[template];
  const message = root.lookupType(`${template}.Handle${call}Request`);
  const { instance, instances, adapter_config } = message.toObject(message.decode(request)) as {
    instance?: { user?: string };
    instances?: { user?: string }[];
    adapter_config?: { value?: Buffer };
  };
  const params = PACKAGES.lookupType('judge.Params');
  const { realm = '' } = params.toObject(params.decode(adapter_config?.value ?? Buffer.alloc(0)));
  const users = (instances ?? [instance ?? {}]).map(({ user = '' }) => user);
  return { template, users, realm, tokens: metadata.get('authorization').map(String) };
}

function encoded(template: AdapterTemplate, response: object | Buffer): Buffer {
  if (Buffer.isBuffer(response)) return response;
  const { root, answer } = TEMPLATES[template];
  const type = root.lookupType(answer);
  return Buffer.from(type.encode(type.fromObject(response)).finish());
}

/** Files of a key and a certificate for these names, and credentials of a server that has them. */
export interface AdapterFiles {
  readonly root: string;
  readonly key: string;
  readonly certificate: string;
  readonly server: (asksClients: boolean) => ServerCredentials;
}

export async function adapterFiles(owner: Owner, names: readonly string[]): Promise<AdapterFiles> {
  const folder = await tempDir(owner);
  const authority = testRoot('adapters');
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const [root, key, certificate] = ['root.pem', 'key.pem', 'cert.pem'].map((name) => join(folder, name));
  const [keyPem, chain] = [
    privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    authority.issue(publicKey, names, 3_600_000),
  ];
  const files = { [root ?? '']: authority.pem, [key ?? '']: keyPem, [certificate ?? '']: chain };
  await Promise.all(Object.entries(files).map(([file, text]) => writeFile(file, text)));
  const pair = { private_key: Buffer.from(keyPem), cert_chain: Buffer.from(chain) };
  return {
    root: root ?? '',
    key: key ?? '',
    certificate: certificate ?? '',
    server: (asksClients) => ServerCredentials.createSsl(Buffer.from(authority.pem), [pair], asksClients),
  };
}
