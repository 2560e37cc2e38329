/**
 * The units of docs/virtual-machines.md under a real systemd: whatever ends the agent, and however often, what is sent
 * to the machine in plain text reaches no application that requires mutual TLS.
 */
import assert from 'node:assert/strict';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import {
  createNetwork,
  envoyPath,
  eventually,
  GiveUp,
  programFile,
  type SystemdMachine,
  startSystemd,
  systemdUnavailable,
} from '../harness/index.ts';
import { example } from './support/documents.ts';
import { type Machine, makeMachine, programsFolder } from './support/machines.ts';

const DOCUMENT = 'docs/virtual-machines.md';
/** systemd gives up a unit after five starts in ten seconds, unless the unit says otherwise. */
const MORE_THAN_THE_START_LIMIT = 7;
const MESH_CLEAN = 'node /opt/meshd/dist/ctl-agent.js mesh-clean-iptables';

/** Writes how many rules of the redirection there were when it was started. */
const APPLICATION = `
  const { execFileSync } = require('child_process');
  const rules = execFileSync('iptables-save').toString().split('\\n').filter((line) => /-j MESH_IN/.test(line));
  require('fs').writeFileSync('/root/rules-at-start', String(rules.length));
  require('http').createServer((_, answer) => answer.end('application')).listen(8080);
`;
const APPLICATION_UNIT = `[Unit]
After=network.target
[Service]
ExecStart=/usr/local/bin/node /opt/application.js
[Install]
WantedBy=multi-user.target
`;
/** In place of the services that configure interfaces. */
const NETWORK_UNIT = `[Unit]
DefaultDependencies=no
After=network-pre.target
Wants=network.target
Before=network.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/true
[Install]
WantedBy=multi-user.target
`;

/** The control plane of the document, and the files of a machine, in the folder `vm`. */
async function startControlPlane(t: TestContext, control: Machine): Promise<void> {
  const adapted = (text: string) =>
    text
      .replaceAll('192.0.2.1:', `${control.netns.address}:`)
      .replaceAll('/opt/meshd/dist/ctl-discovery.js', programFile('ctl-discovery'))
      .replaceAll('SELF_SIGNED_CA_DIR=mesh/ca', 'exec env SELF_SIGNED_CA_DIR=mesh/ca');
  const config = join(control.folder, 'mesh/config/shop.yaml');
  await mkdir(dirname(config), { recursive: true });
  await writeFile(config, example(DOCUMENT, 'mesh/config/shop.yaml'));
  const discovery = await control.start(adapted(example(DOCUMENT, 'the control plane')));
  await eventually(async () => {
    discovery.assertRunning();
    await control.netns.run('curl', '-sS', '--fail', 'http://127.0.0.1:8080/ready');
  });
  await control.run(adapted(example(DOCUMENT, 'the files of a machine')));
  t.diagnostic('the control plane is ready');
}

async function installMachine(control: Machine, vm: SystemdMachine): Promise<void> {
  const folder = join(control.folder, 'vm');
  for (const name of await readdir(folder))
    await vm.write(`/root/vm/${name}`, await readFile(join(folder, name), 'utf8'));
  await vm.write('/opt/application.js', APPLICATION);
  await vm.write('/etc/systemd/system/application.service', APPLICATION_UNIT);
  await vm.write('/etc/systemd/system/interfaces.service', NETWORK_UNIT);
  await vm.shell('systemctl daemon-reload; systemctl enable --now application interfaces');
  await vm.shell(example(DOCUMENT, 'a machine'), '/root/vm');
}

interface Failure {
  readonly cause: string;
  readonly repair: string;
  /** How often systemd starts the agent meanwhile. */
  readonly restarts?: number;
}

const WRONG_SETTING: Failure = {
  cause: 'cp /etc/ctl-agent/cluster.env /root/good.env; echo SECRET_TTL=never >> /etc/ctl-agent/cluster.env',
  repair: 'cp /root/good.env /etc/ctl-agent/cluster.env',
};

/** The ways in which an agent cannot be started, and how that is mended. */
const FAILURES: Readonly<Record<string, Failure>> = {
  'a wrong setting': { ...WRONG_SETTING, restarts: MORE_THAN_THE_START_LIMIT },
  'a file of settings that is missing': {
    cause: 'mv /etc/ctl-agent/cluster.env /root/moved.env',
    repair: 'mv /root/moved.env /etc/ctl-agent/cluster.env',
  },
  'a read-only folder': {
    cause: 'mount --bind /var/lib/ctl-agent /var/lib/ctl-agent; mount -o remount,bind,ro /var/lib/ctl-agent',
    repair: 'umount /var/lib/ctl-agent',
  },
  'a full disk': {
    cause: `mkdir /root/small; mount -t tmpfs -o size=64k none /root/small; cp -a /var/lib/ctl-agent/. /root/small
      chown mesh-proxy: /root/small; rm -f /root/small/etc/mesh/proxy/*; mount --move /root/small /var/lib/ctl-agent
      cat /dev/zero > /var/lib/ctl-agent/filler 2>/dev/null || true`,
    repair: 'umount /var/lib/ctl-agent',
  },
};

test('the redirection of a machine outlives whatever ends its agent', {
  skip: await systemdUnavailable(),
}, async (t) => {
  const network = await createNetwork(t);
  const control = await makeMachine(t, await network.addNamespace('control'), await programsFolder(t));
  await startControlPlane(t, control);
  const netns = await network.addNamespace('machine');
  const mounts = {
    '/usr/local/bin/node': process.execPath,
    '/usr/local/bin/envoy': envoyPath(),
    '/opt/meshd/dist': dirname(programFile('ctl-agent')),
  };
  const vm = await startSystemd(t, { netns, mounts });
  await installMachine(control, vm);

  const curl = (url: string) => control.netns.run('curl', '-sS', '--fail', '--max-time', '5', url);
  const untilReady = () =>
    eventually(() => curl(`http://${netns.address}:15021/healthz/ready`), { timeoutMs: 30_000, what: 'a ready proxy' });
  const rules = async () => (await netns.run('iptables-save')).split('\n').filter((line) => line.includes('MESH_'));
  const property = async (name: string) =>
    (await vm.run('systemctl', 'show', '--property', name, '--value', 'ctl-agent')).trim();
  const assertPlainRefused = async () =>
    assert.rejects(curl(`http://${netns.address}:8080/`), 'the application was called in plain text');
  await untilReady();
  const complete = await rules();
  assert.ok(complete.length > 20, complete.join('\n'));
  await assertPlainRefused();

  /** Fails at once when a rule is missing meanwhile. */
  const untilRestarted = (times: number) =>
    eventually(
      async () => {
        const now = await rules();
        if (now.join('\n') !== complete.join('\n'))
          throw new GiveUp(`of ${complete.length} rules there are ${now.length}`);
        const [restarts, state] = [Number(await property('NRestarts')), await property('ActiveState')];
        if (restarts < times) throw new Error(`restarted ${restarts} times, ${state}`);
      },
      { timeoutMs: 60_000 },
    );

  for (const [what, { cause, repair, restarts = 2 }] of Object.entries(FAILURES)) {
    await t.test(`${what} at a restart`, async () => {
      await vm.shell(`${cause}\nsystemctl restart ctl-agent || true`);
      await untilRestarted(restarts);
      await assertPlainRefused();
      await vm.shell(repair);
      await untilReady();
      assert.deepEqual(await rules(), complete);
      await assertPlainRefused();
    });
  }
  await t.test('an agent that is killed again and again', async () => {
    await vm.shell('systemctl restart ctl-agent');
    for (let times = 0; times < MORE_THAN_THE_START_LIMIT; times++) {
      await vm.shell('systemctl kill --signal=KILL ctl-agent');
      await untilRestarted(times + 1);
      await assertPlainRefused();
    }
    await untilReady();
    assert.deepEqual(await rules(), complete);
  });
  await t.test('a machine that boots with a wrong setting', async () => {
    await vm.shell(WRONG_SETTING.cause);
    // Rules end with the kernel of a machine, which here continues.
    await vm.shell(`${MESH_CLEAN}; rm /root/rules-at-start`);
    await vm.reboot();
    const atStart = await eventually(() => vm.run('cat', '/root/rules-at-start'));
    assert.ok(Number(atStart) >= 2, `the application started with ${atStart} rules for inbound connections`);
    await assertPlainRefused();
    await untilRestarted(2);
    await vm.shell(WRONG_SETTING.repair);
    await untilReady();
  });
  await t.test('an operator who stops the agent, or shuts the machine down', async () => {
    await vm.shell('systemctl stop ctl-agent');
    assert.deepEqual(await rules(), complete);
    await assertPlainRefused();
    await assert.rejects(vm.shell('systemctl stop ctl-agent-redirect'), /refused/);
    await vm.reboot();
    await untilReady();
    assert.deepEqual(await rules(), complete);
  });
  await t.test('the redirection ends by the commands of the document', async () => {
    await vm.shell(example(DOCUMENT, 'the end of a machine'));
    const called = () => eventually(() => curl(`http://${netns.address}:8080/`));
    assert.equal(await called(), 'application');
    await vm.reboot();
    assert.equal(await called(), 'application');
    assert.deepEqual(await rules(), []);
  });
});
