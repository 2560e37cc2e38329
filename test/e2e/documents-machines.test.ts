/** The quickstart of docs/virtual-machines.md, word for word: machines that register themselves, leave and return. */
import assert from 'node:assert/strict';
import { chmod, cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import {
  type Child,
  createNetwork,
  envoyPath,
  eventually,
  type Namespace,
  netnsUnavailable,
  programFile,
  tempDir,
} from '../harness/index.ts';
import { example } from './support/documents.ts';
import { type Machine, makeMachine, programsFolder, untilReady } from './support/machines.ts';

const PROXY_UID = 1337;

/** Answers with its name; unhealthy while the file exists. */
const APPLICATION = (name: string, sick: string): string => `
  const { existsSync } = require('fs');
  require('http').createServer((request, answer) => {
    if (request.url === '/healthz' && existsSync('${sick}')) answer.statusCode = 503;
    answer.end('${name}');
  }).listen(8080)`;

/**
 * Does what systemd does with the unit of the agent, in the foreground: the machines of this test are not machines of
 * their own but network namespaces. machines-systemd.test.ts has a machine with systemd.
 */
const SYSTEMCTL = (root: string): string => `#!/bin/sh -e
line() { sed -n "s/^$1=+*//p" "${root}/etc/systemd/system/ctl-agent.service"; }
if [ "$1" != enable ]; then exit 0; fi
set -a; . "$(line EnvironmentFile)"; set +a
eval "$(line ExecStartPre)"
mkdir -p "${root}/var/lib/ctl-agent"; cd "${root}/var/lib/ctl-agent"; chown ${PROXY_UID}:${PROXY_UID} .
exec setpriv --reuid=${PROXY_UID} --regid=${PROXY_UID} --clear-groups $(line ExecStart)
`;

/** Puts the addresses, files and users of this test in place of those that the document names. */
function adapt(control: Namespace, root: string): (text: string) => string {
  const words: Readonly<Record<string, string>> = {
    '192.0.2.1:': `${control.address}:`,
    '/opt/meshd/dist/ctl-discovery.js': programFile('ctl-discovery'),
    '/opt/meshd/dist/ctl-agent.js': programFile('ctl-agent'),
    'id mesh-proxy || useradd --system --no-create-home mesh-proxy': ':',
    '-o mesh-proxy -g mesh-proxy': `-o ${PROXY_UID} -g ${PROXY_UID}`,
    '/etc/systemd/system': `${root}/etc/systemd/system`,
    '/etc/ctl-agent': `${root}/etc/ctl-agent`,
    '/var/lib/ctl-agent': `${root}/var/lib/ctl-agent`,
    'SELF_SIGNED_CA_DIR=mesh/ca': 'exec env CTL_WORKLOAD_ENTRY_GRACE_PERIOD=2s SELF_SIGNED_CA_DIR=mesh/ca',
  };
  return (text) => Object.entries(words).reduce((result, [from, to]) => result.replaceAll(from, to), text);
}

interface Vm extends Machine {
  readonly name: string;
  readonly adapted: (text: string) => string;
  /** While this file exists, the application is unhealthy. */
  readonly sick: string;
  /** Runs the commands of the document; the agent is the child. */
  startProxy(): Promise<Child>;
}

async function makeVm(t: TestContext, name: string, netns: Namespace, control: Machine): Promise<Vm> {
  const programs = await programsFolder(t);
  const machine = await makeMachine(t, netns, programs);
  await chmod(machine.folder, 0o755);
  await writeFile(join(programs, 'systemctl'), SYSTEMCTL(machine.folder), { mode: 0o755 });
  await mkdir(join(machine.folder, 'etc/systemd/system'), { recursive: true });
  const sick = join(await tempDir(t), 'sick');
  await netns.start(`application ${name}`, [process.execPath, '-e', APPLICATION(name, sick)]);
  const adapted = adapt(control.netns, machine.folder);
  const startProxy = () =>
    machine.start(
      `cd vm\n${adapted(example('docs/virtual-machines.md', 'a machine')).replace(/systemctl enable/, 'exec $&')}`,
    );
  return { ...machine, name, adapted, sick, startProxy };
}

/** The copy of the folder on a machine. */
async function copyFiles(control: Machine, vm: Vm): Promise<void> {
  const folder = join(vm.folder, 'vm');
  await cp(join(control.folder, 'vm'), folder, { recursive: true });
  for (const name of await readdir(folder)) {
    const file = join(folder, name);
    // On machine two, registration and health are on the stream of Envoy, which the agent relays.
    const relay = vm.name === 'two' ? 'XDS_LOCAL=./etc/mesh/proxy/XDS\n' : '';
    const own = `ENVOY_PATH=${envoyPath()}\nTERMINATION_DRAIN_DURATION_SECONDS=1\n${relay}`;
    const extra = name === 'cluster.env' ? own : '';
    await writeFile(file, vm.adapted(await readFile(file, 'utf8')) + extra);
  }
}

/** Calls from a machine, one after the other; `stop` gives the results of those that failed. */
async function steadyCalls(vm: Vm, call: string) {
  const folder = await mkdtemp(join(vm.folder, 'calls-'));
  const [results, end] = [join(folder, 'results'), join(folder, 'end')];
  const calls = await vm.start(
    `while [ ! -e ${end} ]; do if ${call} > ${folder}/answer; then echo ok; else echo "failed: $?"; fi >> ${results}; done`,
  );
  const lines = async () => (await readFile(results, 'utf8').catch(() => '')).split('\n').slice(0, -1);
  return {
    async more(count: number) {
      const goal = (await lines()).length + count;
      await eventually(async () => assert.ok((await lines()).length >= goal), { timeoutMs: 60_000 });
    },
    async stop() {
      await writeFile(end, '');
      await calls.exited;
      return (await lines()).filter((line) => line !== 'ok');
    },
  };
}

test('machines register themselves, and are used while they are healthy and connected', {
  skip: await netnsUnavailable(),
}, async (t) => {
  const network = await createNetwork(t);
  const control = await makeMachine(t, await network.addNamespace('control'), await programsFolder(t));
  const one = await makeVm(t, 'one', await network.addNamespace('one'), control);
  const two = await makeVm(t, 'two', await network.addNamespace('two'), control);
  const { adapted } = one;

  const config = join(control.folder, 'mesh/config/shop.yaml');
  await mkdir(dirname(config), { recursive: true });
  await writeFile(config, example('docs/virtual-machines.md', 'mesh/config/shop.yaml'));
  const startControlPlane = async (): Promise<Child> => {
    const discovery = await control.start(adapted(example('docs/virtual-machines.md', 'the control plane')));
    await eventually(async () => {
      discovery.assertRunning();
      await control.netns.run('curl', '-sS', '--fail', 'http://127.0.0.1:8080/ready');
    });
    return discovery;
  };
  let discovery = await startControlPlane();
  await control.run(adapted(example('docs/virtual-machines.md', 'the files of a machine')));
  await copyFiles(control, one);
  await copyFiles(control, two);
  const proxies = { one: await one.startProxy(), two: await two.startProxy() };
  await untilReady(proxies.one, control, one);
  await untilReady(proxies.two, control, two);

  const callFromOne = adapted(example('docs/virtual-machines.md', 'a call')).trim();
  /** The machines that answer ten calls; a failure counts as ''. */
  const answers = async (): Promise<string[]> => {
    const calls = `for i in 1 2 3 4 5 6 7 8 9 10; do ${callFromOne} || true; echo; done`;
    return [...new Set((await one.run(calls)).trim().split('\n'))].sort();
  };
  const entries = async () => await control.run(adapted(example('docs/virtual-machines.md', 'who is registered')));
  const answeredBy = (...names: string[]) =>
    eventually(async () => assert.deepEqual(await answers(), names), { timeoutMs: 30_000 });
  const names = [one, two].map(({ netns }) => `web-${netns.address}`);

  await t.test('both answer calls through mutual TLS', async () => {
    await answeredBy('one', 'two');
    for (const name of names)
      assert.match(await entries(), new RegExp(`^shop +${name} +${name.slice(4)} +True +registered workloads$`, 'm'));
    await assert.rejects(
      control.netns.run('curl', '-sS', '--fail', '--max-time', '5', `http://${two.netns.address}:8080/`),
    );
    // They have one host name.
    const proxies = await control.run('ctl-discovery request GET /debug/syncz');
    for (const name of names) assert.match(proxies, new RegExp(`"${name.replaceAll('.', '-')}\\.shop"`));
  });
  for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
    await t.test(`no call fails while the control plane is down after ${signal}, and when it returns`, async () => {
      const state = join(control.folder, 'var/lib/mesh/state/registered-workloads.json');
      await eventually(async () => assert.equal((await readFile(state, 'utf8')).split('"problem":""').length, 3));
      const streams = async () =>
        /^ctl_xds (\d+)$/m.exec(await control.netns.run('curl', '-sS', 'http://127.0.0.1:15014/metrics'))?.[1];
      const before = await streams();
      const traffic = await steadyCalls(one, callFromOne);
      await traffic.more(20);
      discovery.signal(signal);
      await discovery.exited;
      await traffic.more(100);
      discovery = await startControlPlane();
      const began = discovery;
      await eventually(() => assert.match(began.output(), /2 registered workloads of the last run are kept until/));
      await eventually(async () => assert.equal(await streams(), before));
      await traffic.more(200);
      assert.deepEqual(await traffic.stop(), []);
      await answeredBy('one', 'two');
    });
  }
  await t.test('an unhealthy application is not called until it is healthy again', async () => {
    await writeFile(two.sick, '');
    await answeredBy('one');
    assert.match(await entries(), new RegExp(`${names[1]} .* False `));
    await rm(two.sick);
    await answeredBy('one', 'two');
  });
  await t.test('a machine that leaves loses its entry, and needs no token to return', async () => {
    proxies.two.signal('SIGTERM');
    await proxies.two.exited;
    await eventually(async () => assert.doesNotMatch(await entries(), new RegExp(names[1] ?? '')));
    await answeredBy('one');
    await writeFile(join(two.folder, 'vm/token'), `e30.${Buffer.from('{"exp":1}').toString('base64url')}.c2ln`);
    proxies.two = await two.startProxy();
    await untilReady(proxies.two, control, two);
    await answeredBy('one', 'two');
  });
  await t.test('the redirection ends by the commands of the document', async () => {
    assert.match(await two.netns.run('iptables-save'), /MESH/);
    proxies.two.signal('SIGTERM');
    await proxies.two.exited;
    await two.run(two.adapted(example('docs/virtual-machines.md', 'the end of a machine')));
    assert.doesNotMatch(await two.netns.run('iptables-save'), /MESH/);
  });
});
