import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type DiscoverySettings, discoveryRequestFlags, type Environment, parseFlags } from '../settings/index.ts';
import { agentProgram } from './agent.ts';
import { discoveryProgram, type RunDiscovery, requestBase } from './discovery.ts';
import { type Program, runProgram } from './program.ts';

async function run(program: Program, args: readonly string[], env: Environment = {}) {
  const stdout: string[] = [];
  const stderr: string[] = [];
  const code = await runProgram(program, args, {
    stdout: { write: (text) => stdout.push(text) },
    stderr: { write: (text) => stderr.push(text) },
    env,
  });
  return { code, stdout: stdout.join(''), stderr: stderr.join('') };
}

/** A discovery program that only records its settings. */
function recorded(result: () => Promise<number> = () => Promise.resolve(0)) {
  const calls: DiscoverySettings[] = [];
  const runDiscovery: RunDiscovery = (settings) => {
    calls.push(settings);
    return result();
  };
  return { program: discoveryProgram(runDiscovery), calls };
}

const QUIET = ['--log_target', 'stderr', '--log_output_level', 'all:none'];

describe('ctl-discovery discovery', () => {
  test('gets flags and variables as one object of settings; its exit code is that of the service', async () => {
    const { program, calls } = recorded(() => Promise.resolve(3));
    const result = await run(program, ['discovery', '--configDir=cfg', '-a', 'x,y', ...QUIET], { CTL_HTTP10: '1' });
    assert.deepEqual(result, { code: 3, stdout: '', stderr: '' });
    assert.equal(calls[0]?.configDir, 'cfg');
    assert.equal(calls[0]?.appNamespace, 'x,y');
    assert.equal(calls[0]?.http10, true);
  });

  test('accepts flags before its name', async () => {
    const { program, calls } = recorded();
    await run(program, ['--httpAddr', ':1', '--log_as_json', 'discovery', ...QUIET]);
    assert.deepEqual([calls[0]?.httpAddr, calls[0]?.logAsJson], [':1', true]);
  });

  const REFUSED: readonly (readonly [string, string[], Environment, RegExp])[] = [
    ['an unknown registry', ['--registries', 'Orchestrator,Eureka'], {}, /"Eureka" is not one of/],
    [
      'an external registry that is no URL',
      ['--extregistryServerURL', 'http://consul:8500,consul:8500'],
      {},
      /--extregistryServerURL: expected http or https URLs separated by commas, got "consul:8500"/,
    ],
    [
      'credentials of an external registry',
      ['--extregistryServerURL', 'http://me:secret@consul:8500'],
      {},
      /expected a URL without credentials; the token is in the file of CTL_EXTREGISTRY_TOKEN_FILE/,
    ],
    ['a registry named twice', ['--registries', 'Mock,Mock'], {}, /--registries: a registry may be named only once/],
    ['an invalid address', ['--grpcAddr', 'here'], {}, /"here" for flag --grpcAddr: not an address/],
    ['an unknown log scope', ['--log_output_level', 'default:info,sds:debug'], {}, /unknown log scope "sds"/],
    ['an unknown log level', ['--log_stacktrace_level', 'ads:loud'], {}, /unknown log level "loud"/],
    ['a NaN duration', ['--keepaliveInterval', 'NaN'], {}, /"NaN" for flag --keepaliveInterval/],
    ['an invalid variable', [], { CTL_DEBOUNCE_MAX: 'NaN' }, /"NaN" of variable CTL_DEBOUNCE_MAX/],
    ['an argument', ['now'], {}, /unexpected argument "now" of discovery/],
    [
      'a log target it cannot open',
      ['--log_target', '/nosuchdir/log'],
      {},
      /cannot open a log target: ENOENT.*\/nosuchdir\/log/,
    ],
  ];
  for (const [what, args, env, message] of REFUSED) {
    test(`refuses ${what} with one line and does not start`, async () => {
      const { program, calls } = recorded();
      const { code, stdout, stderr } = await run(program, ['discovery', ...args], env);
      assert.deepEqual([code, stdout, calls.length], [1, '', 0]);
      assert.match(stderr, /^ctl-discovery: [^\n]+\n$/);
      assert.match(stderr, message);
    });
  }

  test('a system error of the service is one line, an internal error has a stack trace', async () => {
    const busy = Object.assign(new Error('listen EADDRINUSE: address already in use :::15010'), { syscall: 'listen' });
    const system = await run(recorded(() => Promise.reject(busy)).program, ['discovery', ...QUIET]);
    assert.deepEqual(system, { code: 1, stdout: '', stderr: `ctl-discovery: ${busy.message}\n` });
    const internal = await run(recorded(() => Promise.reject(new TypeError('x is not y'))).program, [
      'discovery',
      ...QUIET,
    ]);
    assert.match(internal.stderr, /TypeError: x is not y\n\s+at /);
  });
});

describe('help', () => {
  test('a program without a command lists all commands', async () => {
    const { code, stdout, stderr } = await run(recorded().program, []);
    assert.deepEqual([code, stderr], [0, '']);
    for (const name of ['discovery', 'env', 'request', 'version']) assert.match(stdout, new RegExp(`^  ${name} `, 'm'));
  });

  test('env of both programs lists their variables, also those of iptables', async () => {
    for (const [program, own] of [
      [agentProgram(), 'PROXY_USER'],
      [recorded().program, 'ENABLE_CA_SERVER'],
    ] as const) {
      const { code, stdout } = await run(program, ['env']);
      assert.equal(code, 0);
      const rows = JSON.parse(stdout) as { name: string; type: string; default: unknown }[];
      const names = rows.map(({ name }) => name);
      for (const name of [own, 'CLUSTER_ID']) assert.ok(names.includes(name), `${program.name}: ${name}`);
      assert.equal(new Set(names).size, names.length);
    }
  });

  test('shows each flag with its short form, type, meaning and default', async () => {
    const { stdout } = await run(recorded().program, ['discovery', '--help']);
    assert.match(stdout, /^ {2}-n, --namespace string +Namespace where .* \(default "mesh-system"\)$/m);
    assert.match(stdout, /^ {6}--plugins strings +.* \(default \[authn,authz,health,policy\]\)$/m);
    assert.match(stdout, /^ {6}--resync duration +.* \(default 1m0s\)$/m);
    assert.match(stdout, /^ {6}--configDir string +(?!.*\(default)/m);
    assert.equal((await run(recorded().program, ['help', 'discovery'])).stdout, stdout);
  });
});

describe('commands that do not exist', () => {
  for (const program of [agentProgram(), recorded().program]) {
    for (const args of [['nosuch'], ['help', 'nosuch'], ['constructor']]) {
      test(`${program.name} ${args.join(' ')} is refused with an error that names it`, async () => {
        const { code, stderr } = await run(program, args);
        assert.equal(code, 1);
        assert.match(stderr, new RegExp(`^${program.name}: unknown command "${args.at(-1)}"[^\\n]*\\n$`));
      });
    }
  }
});

describe('version', () => {
  test('prints the version by default and build information with --short=false', async () => {
    for (const program of [agentProgram(), recorded().program]) {
      const short = (await run(program, ['version'])).stdout;
      assert.match(short, /^\d+\.\d+\.\d+\n$/);
      assert.equal((await run(program, ['version', '-s'])).stdout, short);
      const full = (await run(program, ['version', '--short=false'])).stdout;
      assert.match(full, /^version: .*\nrevision: .*\nnodeVersion: v\d+/);
    }
  });

  test('prints the same fields as JSON and as YAML', async () => {
    const json = JSON.parse((await run(agentProgram(), ['version', '-o', 'json', '-s=false'])).stdout);
    assert.deepEqual(Object.keys(json), ['version', 'revision', 'nodeVersion', 'status', 'tag']);
    const yaml = (await run(agentProgram(), ['version', '--output=yaml', '-s=false'])).stdout;
    assert.equal(
      yaml,
      Object.entries(json)
        .map(([key, value]) => `${key}: ${value}\n`)
        .join(''),
    );
  });
});

const authorizationOf = ({ authorization }: IncomingMessage['headers']) =>
  authorization === undefined ? {} : { authorization };

test('--version prints the same as the command version', async () => {
  for (const program of [recorded().program, agentProgram()]) {
    const asked = await run(program, ['--version']);
    assert.deepEqual(asked, await run(program, ['version']));
    assert.match(asked.stdout, /^\d+\.\d+\.\d+\n$/);
    assert.match((await run(program, ['--help'])).stdout, /^ +--version +Print the version\.$/m);
  }
});

test('the error for a misspelt command or flag suggests the right one', async () => {
  const { program } = recorded();
  for (const [args, message] of [
    [['discvoery'], 'unknown command "discvoery", did you mean discovery?'],
    [['help', 'requst'], 'unknown command "requst", did you mean request?'],
    [['discovery', '--grpc-addr', ':1'], 'unknown flag --grpc-addr, did you mean --grpcAddr?'],
    [['--versoin'], 'unknown flag --versoin, did you mean --version?'],
  ] as const) {
    assert.deepEqual(await run(program, args), { code: 1, stdout: '', stderr: `ctl-discovery: ${message}\n` });
  }
});

test('errors about bounds name the unit', async () => {
  const { program } = recorded();
  for (const [args, env, message] of [
    [['discovery', '--keepaliveTimeout', '0s'], {}, /"0s" for flag --keepaliveTimeout: less than 1ms\n$/],
    [['issue-token', '--ttl', '10ms'], {}, /"10ms" for flag --ttl: less than 1s\n$/],
    [['discovery', '--log_rotate_max_age=-1'], {}, /less than 0 days\n$/],
    [['discovery'], { MESH_GPRC_MAXRECVMSGSIZE: '0' }, /MESH_GPRC_MAXRECVMSGSIZE: less than 1 bytes\n$/],
    [['discovery'], { CTL_JWT_PUB_KEY_REFRESH_INTERVAL: '1ms' }, /less than 1s\n$/],
    [['discovery'], { TERMINATION_DRAIN_DURATION_SECONDS: '5s' }, /not a whole number of seconds\n$/],
  ] as const) {
    const { code, stderr } = await run(program, [...args, ...QUIET], env);
    assert.equal(code, 1);
    assert.match(stderr, message);
  }
});

describe('request', () => {
  const seen: {
    method: string | undefined;
    url: string | undefined;
    body: string;
    connection: string | undefined;
    authorization?: string;
  }[] = [];
  const server = createServer((request: IncomingMessage, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { method, url, headers } = request;
      seen.push({
        method,
        url,
        body: Buffer.concat(chunks).toString(),
        connection: headers.connection,
        ...authorizationOf(headers),
      });
      response.statusCode = url === '/missing' ? 404 : 200;
      response.end(url === '/missing' ? 'no such page' : 'pong\n');
    });
  });
  let base = '';
  before(async () => {
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const address = server.address();
    base = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
  });
  after(() => server.close());

  test('sends the body, prints the answer and leaves no connection', async () => {
    const result = await run(agentProgram(), ['request', 'post', `${base}/ping?x=1`, 'hello']);
    assert.deepEqual(result, { code: 0, stdout: 'pong\n', stderr: '' });
    assert.deepEqual(seen.at(-1), { method: 'POST', url: '/ping?x=1', body: 'hello', connection: 'close' });
  });

  test('a status of 400 or more prints the answer and fails', async () => {
    const { code, stdout, stderr } = await run(recorded().program, ['request', 'GET', `${base}/missing`]);
    assert.deepEqual([code, stdout], [1, 'no such page\n']);
    assert.match(stderr, /^ctl-discovery: GET .*\/missing returned HTTP 404\n$/);
  });

  test('a refused connection is one line', async () => {
    const { code, stderr } = await run(agentProgram(), ['request', 'GET', 'http://127.0.0.1:1/']);
    assert.equal(code, 1);
    assert.match(stderr, /^ctl-agent: cannot GET http:\/\/127.0.0.1:1\/: [^\n]*ECONNREFUSED[^\n]*\n$/);
  });

  test('of ctl-discovery calls the monitoring address for metrics and the HTTP address for other pages', () => {
    const base = (path: string, ...args: readonly string[]) =>
      requestBase(path, parseFlags(args, discoveryRequestFlags));
    assert.equal(base('/metrics'), 'http://localhost:15014');
    assert.equal(base('/metrics?x=1'), 'http://localhost:15014');
    assert.equal(base('/debug/syncz'), 'http://localhost:8080');
    assert.equal(base('/metricsz'), 'http://localhost:8080');
    assert.equal(base('/metrics', '--monitoringAddr', ':9'), 'http://localhost:9');
    assert.equal(base('/debug/syncz', '--httpAddr', '[::1]:7'), 'http://[::1]:7');
  });

  test('of ctl-discovery uses the address flags and the token of CTL_DEBUG_TOKEN_FILE', async (t) => {
    const { program } = recorded();
    const folder = await mkdtemp(join(tmpdir(), 'meshd-'));
    t.after(() => rm(folder, { recursive: true }));
    const file = join(folder, 'token');
    await writeFile(file, 'a.b-c.d_e\n');
    const call = ['--httpAddr', base.slice('http://'.length), 'request', 'GET', '/debug/syncz'];
    assert.equal((await run(program, call)).stdout, 'pong\n');
    assert.equal(seen.at(-1)?.authorization, undefined);
    assert.equal((await run(program, call, { CTL_DEBUG_TOKEN_FILE: file })).code, 0);
    assert.equal(seen.at(-1)?.authorization, 'Bearer a.b-c.d_e');
    const elsewhere = await run(program, ['request', 'GET', `${base}/debug/syncz`], { CTL_DEBUG_TOKEN_FILE: file });
    assert.equal(seen.at(-1)?.authorization, undefined, 'a URL of another address');
    assert.match(elsewhere.stderr, /^no credential is sent to http:\/\/127\.0\.0\.1:\d+: /);
    await writeFile(file, 'two\nlines');
    for (const [path, message] of [
      [file, /CTL_DEBUG_TOKEN_FILE: .* is not a token\n$/],
      [`${file}.gone`, /CTL_DEBUG_TOKEN_FILE: ENOENT[^\n]*\n$/],
    ] as const) {
      const { code, stderr } = await run(program, call, { CTL_DEBUG_TOKEN_FILE: path });
      assert.equal(code, 1);
      assert.match(stderr, message);
    }
  });

  for (const [args, message] of [
    [['request'], /<method> is missing/],
    [['request', 'GET'], /<path> is missing/],
    [['request', 'G T', '/'], /not an HTTP method: "G T"/],
    [['request', 'GET', '/', 'body', 'more'], /unexpected argument "more"/],
  ] as const) {
    test(`${args.join(' ')} is refused`, async () => {
      const { code, stderr } = await run(agentProgram(), args);
      assert.equal(code, 1);
      assert.match(stderr, message);
    });
  }
});
