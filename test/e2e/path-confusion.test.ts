/**
 * Rules about paths and hosts cannot be bypassed: every spelling of `/admin` or `admin.example` that an application may
 * accept is sent, byte by byte, to a sidecar and a gateway whose rules deny it, by DENY and by ALLOW of something else.
 * A test fails if a lenient application would have served it.
 *
 * The mesh configuration determines which leniency is covered (`pathNormalization`):
 *
 *   DEFAULT                    where a policy uses paths: all of those below
 *   BASE                       applications that normalize like RFC 3986: escaped letters, dots, backslashes
 *   MERGE_SLASHES              and slashes in a row
 *   DECODE_AND_MERGE_SLASHES   and escaped slashes
 *   NONE                       only applications that take paths literally
 *
 * Applications that leave out what follows a `;` in a segment are covered by all but NONE. No option covers those that
 * decode twice, ignore the case of a path, or take the path from a header.
 */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { stringify } from 'yaml';
import { eventually, type RawAnswer, type RawCall, rawCall, tempDir } from '../harness/index.ts';
import { inParallel } from './support/authorization-table.ts';
import { type Document, endpoints, pod, resource, service } from './support/config.ts';
import { planMesh, sidecar, startMesh } from './support/mesh.ts';
import {
  hostsOf,
  type Leniency,
  type LenientApplication,
  resourcesOf,
  startLenientApplication,
} from './support/paths-application.ts';
import {
  HOST_FORMS,
  HTTP2_HOST_FORMS,
  HTTP2_PATH_FORMS,
  type Http1Form,
  type Http2Form,
  PATH_FORMS,
} from './support/paths-forms.ts';
import { lazy, suiteOwner } from './support/suite.ts';

const HTTP = 7085;
const address = planMesh();
const SERVERS = { sidecar: address(20), gateway: address(10) } as const;
type Server = keyof typeof SERVERS;

/** The rules for a request, which its header `x-case` selects. */
type Key = 'deny-path' | 'allow-path' | 'deny-host' | 'allow-host';
const PATH_KEYS: readonly Key[] = ['deny-path', 'allow-path'];
const HOST_KEYS: readonly Key[] = ['deny-host', 'allow-host'];

interface Option {
  readonly normalization: string;
  readonly covers: Leniency;
  /** The result for `/public/.//x%2fy`, which shows that the option is in force. */
  readonly sent: string;
}

const OPTIONS: readonly Option[] = [
  { normalization: 'DEFAULT', covers: 'decoding', sent: '/public/x/y' },
  { normalization: 'BASE', covers: 'rfc3986', sent: '/public//x%2fy' },
  { normalization: 'MERGE_SLASHES', covers: 'merging', sent: '/public/x%2fy' },
  { normalization: 'DECODE_AND_MERGE_SLASHES', covers: 'decoding', sent: '/public/x/y' },
  { normalization: 'NONE', covers: 'literal', sent: '/public/.//x%2fy' },
];

interface World {
  readonly application: LenientApplication;
  normalize(normalization: string): Promise<void>;
}

const owner = suiteOwner();
const shared = lazy<World>();
const summary: string[] = [];

const condition = (...keys: readonly Key[]) => ({ when: [{ key: 'request.headers[x-case]', values: keys }] });
const operation = (fields: Document) => ({ to: [{ operation: fields }] });

function policies(app: string): Document[] {
  const policy = (action: string, rules: readonly Document[]) =>
    resource('AuthorizationPolicy', `${action.toLowerCase()}-${app}`, {
      selector: { matchLabels: { app } },
      action,
      rules,
    });
  return [
    policy('DENY', [
      { ...operation({ paths: ['/admin', '/admin/*'] }), ...condition('deny-path') },
      { ...operation({ hosts: ['admin.example'] }), ...condition('deny-host') },
    ]),
    policy('ALLOW', [
      condition('deny-path', 'deny-host'),
      { ...operation({ paths: ['/public', '/public/*'] }), ...condition('allow-path') },
      { ...operation({ hosts: ['public.example'] }), ...condition('allow-host') },
    ]),
  ];
}

before(async () => {
  const application = await startLenientApplication(owner);
  const meshConfig = join(await tempDir(owner), 'mesh.yaml');
  const normalize = (normalization: string) =>
    writeFile(meshConfig, stringify({ pathNormalization: { normalization } }));
  await normalize('DEFAULT');
  const port = { number: HTTP, name: 'http', protocol: 'HTTP' };
  const destination = { host: 'application.default.svc.cluster.local' };
  const mesh = await startMesh(owner, address, {
    flags: ['--meshConfig', meshConfig],
    files: {
      policies: [...policies('sidecar'), ...policies('gateway')],
      application: [
        service('application', { ports: [{ name: 'http', port: HTTP }] }),
        endpoints('application', ['127.0.0.1'], [{ name: 'http', port: application.port }]),
      ],
      sidecar: [
        pod('sidecar', { ip: SERVERS.sidecar, labels: { app: 'sidecar' } }),
        service('guarded', { clusterIP: '10.96.0.1', ports: [{ name: 'http', port: HTTP }] }),
        endpoints('guarded', { sidecar: SERVERS.sidecar }, [{ name: 'http', port: HTTP }]),
        sidecar('sidecar', {
          address: SERVERS.sidecar,
          ingress: [{ number: HTTP, protocol: 'HTTP', to: `127.0.0.1:${application.port}` }],
        }),
      ],
      gateway: [
        resource('Gateway', 'gateway', {
          selector: { app: 'gateway' },
          servers: [{ hosts: ['*'], port, bind: SERVERS.gateway }],
        }),
        resource('VirtualService', 'all', {
          hosts: ['*'],
          gateways: ['gateway'],
          http: [{ route: [{ destination }] }],
        }),
      ],
    },
  });
  await mesh.startProxy({ name: 'sidecar', address: SERVERS.sidecar, mode: 'delta' });
  await mesh.startProxy({ name: 'gateway', type: 'router', address: SERVERS.gateway, mode: 'delta' });
  shared.set({ application, normalize });
});
after(() => {
  const count = [PATH_FORMS, HOST_FORMS, HTTP2_PATH_FORMS, HTTP2_HOST_FORMS].flat().length;
  const lines = summary.map((line) => `  ${line}\n`).join('');
  process.stdout.write(`Path confusion: ${count} forms, and the answers to them:\n${lines}`);
});

let forms = 0;
/**
 * What was sent so far, and what the rules covered then: a form that was not answered in time may be served while the
 * next ones are sent.
 */
const sentForms = new Map<string, Attempt & Pick<Option, 'covers'>>();

/** Header lines by which the application recognizes the request. */
const headersOf = (key: Key, form: string) => `x-case: ${key}\r\nx-form: ${form}\r\n`;

/** Some forms are incomplete requests, which get no answer. */
const IMPATIENT = { timeoutMs: 1_500 };

function sendHttp1(
  server: Server,
  key: Key,
  { bytes }: Http1Form,
  form: string,
  patience: Partial<Pick<RawCall, 'timeoutMs'>> = IMPATIENT,
): Promise<RawAnswer> {
  return rawCall({ address: SERVERS[server], port: HTTP, send: bytes(headersOf(key, form)), ...patience });
}

function sendHttp2(server: Server, key: Key, { fields }: Http2Form, form: string): Promise<RawAnswer> {
  const all: Readonly<Record<string, string | undefined>> = {
    ':method': 'GET',
    ':path': '/public',
    ':authority': 'public.example',
    ':scheme': 'http',
    'x-case': key,
    'x-form': form,
    ...fields,
  };
  const http2 = Object.fromEntries(
    Object.entries(all).flatMap(([name, value]) => (value === undefined ? [] : [[name, value] as const])),
  );
  return rawCall({ address: SERVERS[server], port: HTTP, http2, ...IMPATIENT });
}

const isUnder = (resource: string, root: string) => resource === root || resource.startsWith(`${root}/`);

/** Whether an application of the kind would have served what the rules deny. */
function isBreach(target: string, host: string, key: string, leniency: Leniency): boolean {
  switch (key as Key) {
    case 'deny-path':
      return resourcesOf(target, leniency).some((resource) => isUnder(resource, '/admin'));
    case 'allow-path':
      return resourcesOf(target, leniency).some((resource) => !isUnder(resource, '/public'));
    case 'deny-host':
      return hostsOf(host).includes('admin.example');
    case 'allow-host':
      return hostsOf(host).some((name) => name !== 'public.example');
  }
}

interface Attempt {
  readonly server: Server;
  readonly key: Key;
  readonly what: string;
  readonly form: string;
  readonly send: () => Promise<RawAnswer>;
}

function attempts<F extends { readonly what: string }>(
  keys: readonly Key[],
  all: readonly F[],
  send: (server: Server, key: Key, form: F, id: string) => Promise<RawAnswer>,
): Attempt[] {
  return (Object.keys(SERVERS) as Server[]).flatMap((server) =>
    keys.flatMap((key) =>
      all.map((each) => {
        const form = `form-${forms++}`;
        return { server, key, what: each.what, form, send: () => send(server, key, each, form) };
      }),
    ),
  );
}

/** Sends all forms, and returns those that reached an application of the kind. */
async function breaches(all: readonly Attempt[], option: Option): Promise<string[]> {
  const { application } = shared.get();
  const { normalization, covers } = option;
  const first = application.served.length;
  const answers = await inParallel(all, 24, ({ send }) => send());
  for (const server of Object.keys(SERVERS) as Server[]) {
    const outcomes = new Map<string, number>();
    for (const [index, each] of all.entries()) {
      if (each.server !== server) continue;
      const status = answers[index]?.status ?? 0;
      const outcome = status === 200 ? 'something else' : status === 0 ? 'no answer' : String(status);
      outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
    }
    const cells = [...outcomes].sort().map(([outcome, count]) => `${outcome} ${count}`);
    summary.push(`${normalization.padEnd(25)} ${server.padEnd(8)} ${cells.join(', ')}`);
  }
  for (const each of all) sentForms.set(each.form, { ...each, covers });
  return application.served.slice(first).flatMap(({ target, host, key, form }) => {
    const { server, what, covers: applied } = sentForms.get(form) ?? { server: '?', what: form, covers };
    // A request without its header bypassed the rules.
    if (key !== '' && !isBreach(target, host, key, applied)) return [];
    return [`${server} ${key}: ${what}: served ${JSON.stringify(target)} of ${JSON.stringify(host)}`];
  });
}

async function inForce({ normalization, sent }: Option): Promise<void> {
  await shared.get().normalize(normalization);
  const form: Http1Form = {
    what: 'option',
    bytes: (headers) => `GET /public/.//x%2fy HTTP/1.1\r\nHost: public.example\r\nConnection: close\r\n${headers}\r\n`,
  };
  await eventually(
    async () => {
      for (const server of Object.keys(SERVERS) as Server[]) {
        const { text } = await sendHttp1(server, 'deny-path', form, 'option', {});
        assert.equal(JSON.parse(text.slice(text.indexOf('{'))).target, sent);
      }
    },
    { timeoutMs: 30_000, intervalMs: 50 },
  );
}

/** Asserts that the rules are in force: what they name is denied, and everything else is not. */
async function rulesHold(): Promise<void> {
  const status = async (server: Server, key: Key, target: string, host: string) => {
    const bytes = (headers: string) => `GET ${target} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n${headers}\r\n`;
    return (await sendHttp1(server, key, { what: target, bytes }, 'plain', {})).status;
  };
  for (const server of Object.keys(SERVERS) as Server[]) {
    for (const key of [...PATH_KEYS, ...HOST_KEYS]) {
      assert.equal(await status(server, key, '/public/x?y', 'public.example'), 200);
      const [target, host] = PATH_KEYS.includes(key) ? ['/admin', 'public.example'] : ['/public', 'admin.example'];
      assert.equal(await status(server, key, target, host), 403);
    }
  }
}

describe('disguised paths and hosts', () => {
  for (const option of OPTIONS) {
    test(`${option.normalization}: no form reaches what ${option.covers} applications would serve`, async () => {
      await inForce(option);
      await rulesHold();
      const paths = [
        ...attempts(PATH_KEYS, PATH_FORMS, sendHttp1),
        ...attempts(PATH_KEYS, HTTP2_PATH_FORMS, sendHttp2),
      ];
      assert.deepEqual(await breaches(paths, option), []);
    });
  }

  test('weaker options cover fewer applications, so the default is the strongest where a policy has paths', async () => {
    const base = OPTIONS.find(({ normalization }) => normalization === 'BASE') ?? assert.fail();
    await inForce(base);
    const chosen = PATH_FORMS.filter(({ what }) => ['//admin', '/%2fadmin', '/x/../admin'].includes(what));
    const seen = await breaches(attempts(['deny-path'], chosen, sendHttp1), { ...base, covers: 'decoding' });
    assert.deepEqual([...new Set(seen)].sort(), [
      'gateway deny-path: /%2fadmin: served "/%2fadmin" of "public.example"',
      'gateway deny-path: //admin: served "//admin" of "public.example"',
      'sidecar deny-path: /%2fadmin: served "/%2fadmin" of "public.example"',
      'sidecar deny-path: //admin: served "//admin" of "public.example"',
    ]);
  });

  test('no form of a host reaches the denied host', async () => {
    const option = OPTIONS[0] ?? assert.fail();
    await inForce(option);
    await rulesHold();
    const hosts = [...attempts(HOST_KEYS, HOST_FORMS, sendHttp1), ...attempts(HOST_KEYS, HTTP2_HOST_FORMS, sendHttp2)];
    assert.deepEqual(await breaches(hosts, option), []);
  });
});
