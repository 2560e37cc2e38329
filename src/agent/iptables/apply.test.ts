import assert from 'node:assert/strict';
import { test } from 'node:test';
import { applyRedirection, cleanRedirection } from './apply.ts';
import { usableFamilies } from './host.ts';
import type { Run, RunResult } from './run.ts';
import { redirection } from './testing/redirections.ts';

interface Call {
  readonly command: string;
  readonly input: string | undefined;
}

/** A fake host that records commands; `answers` has results by the beginning of a command. */
function host(answers: Readonly<Record<string, Partial<RunResult>>> = {}): { run: Run; calls: Call[] } {
  const calls: Call[] = [];
  const run: Run = async (program, args, input) => {
    const command = [program, ...args].join(' ');
    calls.push({ command, input });
    const answer = Object.entries(answers).find(([start]) => command.startsWith(start))?.[1] ?? {};
    return { code: 0, stdout: '', stderr: '', ...answer };
  };
  return { run, calls };
}

const changes = ({ calls }: { calls: Call[] }) =>
  calls.map(({ command }) => command).filter((command) => !/-save|rule show/.test(command));

const TPROXY = redirection({ meshInboundInterceptionMode: 'TPROXY', meshInboundPorts: '*' });

test('each table gets one transaction, after the routes that it needs', async () => {
  const made = host();
  await applyRedirection(made.run, ['ipv4'], TPROXY);
  assert.deepEqual(changes(made), [
    'ip -4 rule add pref 15006 fwmark 1337 lookup 133',
    'ip -4 route replace local default dev lo table 133 metric 15006',
    'iptables-restore --noflush -w 30',
    'iptables-restore --noflush -w 30',
  ]);
});

test('an existing rule is not added again, and one of another mark is removed', async () => {
  const existing =
    '0:\tfrom all lookup local\n15006:\tfrom all fwmark 0x539 lookup 133\n15006:\tfrom all fwmark 0x7 lookup 8\n';
  const made = host({ 'ip -4 rule show': { stdout: existing } });
  await applyRedirection(made.run, ['ipv4'], TPROXY);
  assert.deepEqual(changes(made).slice(0, 3), [
    'ip -4 rule del pref 15006 fwmark 7 lookup 8',
    'ip -4 route del local default dev lo table 8 metric 15006',
    'ip -4 route replace local default dev lo table 133 metric 15006',
  ]);
});

test('everything is removed when a step fails', async () => {
  const saved = { stdout: ':MESH_OUTPUT - [0:0]\n' };
  const made = host({
    'iptables-save -t nat': saved,
    'ip6tables-restore': { code: 1, stderr: 'no chain\nTry `x -h`\n' },
  });
  await assert.rejects(applyRedirection(made.run, ['ipv4', 'ipv6'], redirection({ meshServiceCidr: '*' })), {
    code: 'unavailable',
    message: 'ip6tables-restore --noflush -w 30 failed: no chain',
  });
  assert.match(
    made.calls.findLast(({ command }) => command.startsWith('iptables-restore'))?.input ?? '',
    /-X MESH_OUTPUT/,
  );
});

test('without permission nothing is changed', async () => {
  const made = host({ 'iptables-save': { code: 4, stderr: 'Fatal: Permission denied (you must be root)\n' } });
  await assert.rejects(applyRedirection(made.run, ['ipv4'], TPROXY), { code: 'permission_denied' });
  assert.deepEqual(changes(made), []);
});

test('cleaning a host without rules changes nothing', async () => {
  const made = host();
  await cleanRedirection(made.run, ['ipv4']);
  assert.deepEqual(changes(made), []);
});

test('IPv6 that cannot be redirected is an error when there are IPv6 addresses, and otherwise a warning', async () => {
  const { run } = host({ 'ip6tables-save': { code: 1, stderr: 'no such table\n' } });
  const warnings: string[] = [];
  const families = (addresses: string) =>
    usableFamilies(
      run,
      async () => addresses,
      (why) => warnings.push(why),
    );
  const loopback = '00000000000000000000000000000001 01 80 10 80       lo\n';
  assert.deepEqual(await families(loopback), ['ipv4']);
  assert.deepEqual(warnings, ['no such table']);
  const global = `${loopback}fd000005000000000000000000000005 02 40 00 80     eth0\n`;
  await assert.rejects(families(global), /there are IPv6 addresses here, but IPv6 cannot be redirected: no such table/);
  assert.deepEqual(await families(''), ['ipv4']);
});
