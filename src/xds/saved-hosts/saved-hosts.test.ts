/** Learned hosts over restarts, in a file, and shared by replicas in a ConfigMap of a scripted API server. */
import assert from 'node:assert/strict';
import { chmod, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, test } from 'node:test';
import type { Clock } from '../../core/clock.ts';
import { Memos } from '../../core/memo.ts';
import { fakeClock } from '../../core/testing/fake-clock.ts';
import { waitUntil } from '../../core/testing/wait-until.ts';
import { Connection, KubernetesClient } from '../../kubernetes/index.ts';
import { fastClock } from '../../kubernetes/testing/fast-clock.ts';
import { ScriptedApiServer } from '../../kubernetes/testing/scripted-api-server.ts';
import { storeWrites } from '../../kubernetes/testing/writable-objects.ts';
import { LearnedHosts } from '../on-demand/learned-hosts.ts';
import { NameSets } from '../protocol/index.ts';
import { configMap, fileIn, SavedHosts } from './index.ts';
import type { Place } from './saved-hosts.ts';

const MANY = 100_000;
const SCOPE = 'shop/';
const HOUR_MS = 3_600_000;

const cleanup: (() => Promise<void> | void)[] = [];

afterEach(async () => {
  for (const close of cleanup.splice(0).reverse()) await close();
});

function notedLog() {
  const lines: string[] = [];
  const note = (message: string): void => void lines.push(message);
  return { lines, log: { debug: () => {}, info: note, warn: note, error: note } };
}

/** A run of the program. */
function run(place: (log: ReturnType<typeof notedLog>['log']) => Place, clock: Clock, now: () => number = clock.now) {
  const { lines, log } = notedLog();
  const learned = new LearnedHosts(new NameSets(new Memos()), clock);
  const options = { learned, clock, now, random: () => 0, log };
  const saved = new SavedHosts({ ...options, place: place(log), isExpected: true });
  saved.start();
  const has = () => [...learned.of(SCOPE, MANY).names].sort();
  return { learned, saved, has, lines, learn: (...names: readonly string[]) => learned.learn(SCOPE, names, MANY) };
}

async function folder(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'saved-hosts-'));
  cleanup.push(() => rm(path, { recursive: true }));
  return path;
}

test('the next run has what the last one has learned, for a day', async () => {
  const directory = await folder();
  const clock = fakeClock({ start: 1000 * HOUR_MS });
  const first = run((log) => fileIn(directory, log), clock);
  first.learn('80/a', '80/b');
  await first.saved.close();
  await clock.advance(23 * HOUR_MS);
  const second = run((log) => fileIn(directory, log), clock);
  assert.deepEqual(second.has(), ['80/a', '80/b']);
  second.learn('80/a');
  await second.saved.close();
  await clock.advance(2 * HOUR_MS);
  const third = run((log) => fileIn(directory, log), clock);
  assert.deepEqual(third.has(), ['80/a']);
  assert.deepEqual(
    [first, second, third].flatMap(({ lines }) => lines),
    [],
  );
  await third.saved.close();
});

test('hosts that are learned at once are written once, and rarely', async () => {
  const directory = await folder();
  const clock = fakeClock({ start: 1000 * HOUR_MS });
  const writes: string[] = [];
  let written: Promise<boolean> | undefined;
  const counted = (log: ReturnType<typeof notedLog>['log']): Place => {
    const place = fileIn(directory, log);
    const write = (text: string) => {
      writes.push(text);
      written = place.write(text);
      return written;
    };
    return { ...place, write };
  };
  const { learn, learned, saved } = run(counted, clock);
  // The disk does not wait for this clock.
  const advance = async (ms: number) => {
    await clock.advance(ms);
    await written;
  };
  for (let at = 0; at < 50; at++) {
    learn(`80/host-${at}`);
    await advance(1_000);
  }
  assert.ok(writes.length <= 2, `${writes.length} writes`);
  await advance(60_000);
  const before = writes.length;
  // Nothing new, and a time of use that is saved almost like that.
  learn('80/host-0');
  learned.follow('other/', { used: new NameSets(new Memos()).of([]), wake: () => {} });
  await advance(HOUR_MS);
  assert.equal(writes.length, before);
  await saved.close();
});

test('the end of the program does not wait for a place that does not answer', async () => {
  const clock = fakeClock({ start: 1000 * HOUR_MS });
  const silent: Place = {
    title: 'a silent place',
    open: () => {},
    write: () => new Promise(() => {}),
    close: () => Promise.resolve(),
  };
  const { learn, lines, saved } = run(() => silent, clock);
  learn('80/a');
  const closed = saved.close();
  await clock.advance(2_000);
  await closed;
  assert.match(lines.join('\n'), /^a silent place: the hosts .* cannot be saved; .*: no answer within 2 s$/);
});

test('a file that cannot be used gives one line and no hosts, and is replaced', async () => {
  const directory = await folder();
  const clock = fakeClock({ start: 1000 * HOUR_MS });
  const file = join(directory, 'learned-hosts.json');
  for (const [text, mode, message] of [
    ['{"version":1', 0o600, /learned-hosts.json: the hosts that .* cannot be read: it has an unknown format$/],
    ['{}', 0o644, /learned-hosts.json: .* cannot be read: is accessible to other users$/],
  ] as const) {
    await writeFile(file, text);
    await chmod(file, mode);
    const { has, lines, learn, saved } = run((log) => fileIn(directory, log), clock);
    assert.deepEqual(has(), []);
    assert.equal(lines.length, 1);
    assert.match(lines[0] ?? '', message);
    learn('80/a');
    await saved.close();
    assert.match(await readFile(file, 'utf8'), /80\/a/);
    assert.deepEqual(await readdir(directory), ['learned-hosts.json']);
  }
});

const CONFIG_MAPS = '/api/v1/configmaps';

async function cluster() {
  const server = await ScriptedApiServer.start();
  server.serve(CONFIG_MAPS);
  const control = storeWrites(server);
  cleanup.push(() => server.stop());
  const replica = () => {
    const connection = new Connection({
      access: server.access(),
      clock: fastClock(1),
      random: () => 0,
      userAgent: 'test',
    });
    const client = new KubernetesClient(connection);
    const one = run(
      (log) => configMap({ client, namespace: 'mesh-system', name: 'meshd-learned-hosts', log }),
      fastClock(200),
      Date.now,
    );
    cleanup.push(async () => {
      await one.saved.close();
      connection.close();
    });
    return one;
  };
  const text = () => {
    const data = server.find(CONFIG_MAPS, 'meshd-learned-hosts', 'mesh-system')?.data;
    return (data as Readonly<Record<string, string>> | undefined)?.hosts ?? '';
  };
  return { server, control, replica, text };
}

test('replicas share what they have learned, also what they write at once', async () => {
  const { replica, text } = await cluster();
  const [one, two] = [replica(), replica()];
  one.learn('80/a');
  two.learn('80/b');
  const both = ['80/a', '80/b'];
  await waitUntil(() => [one, two].every(({ has }) => has().join() === both.join()));
  await waitUntil(() => both.every((name) => text().includes(name)));
  // One that starts when all others have ended.
  await Promise.all([one.saved.close(), two.saved.close()]);
  const three = replica();
  await waitUntil(() => three.has().join() === both.join());
  assert.deepEqual(
    [one, two, three].flatMap(({ lines }) => lines),
    [],
  );
});

test('a ConfigMap that is refused is reported once, and written when it can be', async () => {
  const { control, replica, text } = await cluster();
  control.refuse = ({ method }) => (method === 'GET' ? undefined : [403, 'Forbidden']);
  const one = replica();
  one.learn('80/a');
  await waitUntil(() => one.lines.length > 0);
  assert.match(one.lines[0] ?? '', /^ConfigMap mesh-system\/meshd-learned-hosts: the hosts .* cannot be saved; .*403/);
  control.refuse = () => undefined;
  await waitUntil(() => text().includes('80/a'));
  await waitUntil(() => one.lines.length === 2);
  assert.match(one.lines[1] ?? '', /can be saved again$/);
});

test('a ConfigMap with another content gives one line, and is replaced', async () => {
  const { server, replica, text } = await cluster();
  server.set(CONFIG_MAPS, {
    metadata: { name: 'meshd-learned-hosts', namespace: 'mesh-system' },
    data: { hosts: '{"version":7}' },
  });
  const one = replica();
  await waitUntil(() => one.lines.length === 1);
  assert.match(one.lines[0] ?? '', /cannot be read: it has an unknown format$/);
  one.learn('80/a');
  await waitUntil(() => text().includes('80/a'));
});
