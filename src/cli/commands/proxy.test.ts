import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Environment } from '../../settings/index.ts';
import { runProgram } from '../program.ts';
import { proxyCommand, type RunAgent } from './proxy.ts';

const QUIET = ['--log_target', 'stderr', '--log_output_level', 'all:none'];

/** Runs the command with an agent that only records its arguments. */
async function run(args: readonly string[], env: Environment = {}) {
  const calls: Parameters<RunAgent>[] = [];
  const stderr: string[] = [];
  const note: RunAgent = async (...call) => {
    calls.push(call);
    return 7;
  };
  const program = { name: 'ctl-agent', summary: '', flags: {}, commands: [proxyCommand(note)] } as const;
  const io = { stdout: { write: () => true }, stderr: { write: (text: string) => stderr.push(text) }, env };
  const code = await runProgram(program, ['proxy', ...args, ...QUIET], io);
  return { code, stderr: stderr.join(''), role: calls[0]?.[0], settings: calls[0]?.[1] };
}

test('a proxy is a sidecar by default or a router; the exit code is that of the agent', async () => {
  assert.deepEqual([(await run([])).role, (await run(['router'])).role], ['sidecar', 'router']);
  assert.equal((await run(['sidecar'])).code, 7);
});

test('flags override the variables of the same setting', async () => {
  const env = {
    INSTANCE_IP: '10.0.0.1',
    MESH_BOOTSTRAP: '/a',
    TRUST_DOMAIN: 'td',
    TERMINATION_DRAIN_DURATION_SECONDS: '9',
  };
  const { settings } = await run(['--ip', '10.0.0.2', '--proxyLogLevel=debug'], env);
  assert.equal(settings?.ip, '10.0.0.2');
  assert.equal(settings?.templateFile, '/a');
  assert.equal(settings?.trustDomain, 'td');
  assert.equal(settings?.proxyLogLevel, 'debug');
  assert.equal(settings?.terminationDrainDurationSeconds, 9);
});

const REFUSED: readonly (readonly [string, readonly string[], Environment, RegExp])[] = [
  ['a role that is none', ['gateway'], {}, /expected sidecar or router, got "gateway"/],
  ['an address that is none', ['--ip', 'here'], {}, /"here" for flag --ip: not an IP address/],
  ['an id that would break the node id', ['--id', 'a~b'], {}, /"a~b" for flag --id/],
  ['a log level that Envoy does not have', ['--proxyLogLevel', 'loud'], {}, /"loud" is not one of trace, debug/],
  ['a component level that is none', ['--proxyComponentLogLevel', 'misc'], {}, /"misc" is not <component>:<level>/],
  ['threads below none', ['--concurrency', '-1'], {}, /--concurrency: less than 0/],
  ['a drain time that is none', [], { TERMINATION_DRAIN_DURATION_SECONDS: '5s' }, /TERMINATION_DRAIN_DURATION_SECONDS/],
];
for (const [what, args, env, message] of REFUSED) {
  test(`refuses ${what} in one line`, async () => {
    const { code, stderr, role } = await run(args, env);
    assert.deepEqual([code, role], [1, undefined]);
    assert.match(stderr, /^ctl-agent: [^\n]+\n$/);
    assert.match(stderr, message);
  });
}
