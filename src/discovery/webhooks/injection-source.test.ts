/** The settings of injection, as they are read from files and from a ConfigMap, and change. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { systemClock } from '../../core/clock.ts';
import { CtlError, toCtlError } from '../../core/errors.ts';
import { waitUntil } from '../../core/testing/wait-until.ts';
import { Connection } from '../../kubernetes/index.ts';
import { ScriptedApiServer } from '../../kubernetes/testing/scripted-api-server.ts';
import { defaultMeshConfig, parseMeshConfig, parseProxyConfig } from '../../resources/index.ts';
import { defaultDiscoverySettings } from '../../settings/index.ts';
import type { InjectionSettings } from '../../webhooks/index.ts';
import { createInjector } from '../../webhooks/injection/index.ts';
import { writtenProxyConfig } from '../config/webhook-settings.ts';
import { InjectionSource } from './injection-source.ts';

const CONFIG_MAPS = '/api/v1/configmaps';
const GOOD = 'policy: disabled\n';
const BAD = 'defaultTemplates: [sidecar]\npolicy: sometimes\n';

interface World {
  readonly source: InjectionSource;
  readonly directory: string;
  /** The settings that injection has used, in order. */
  readonly used: InjectionSettings[];
  readonly lines: string[];
  /** Makes checks fail for another reason than the settings. */
  failing: number;
}

async function follow(
  context: TestContext,
  {
    server,
    files = {},
  }: { readonly server?: ScriptedApiServer; readonly files?: Readonly<Record<string, string | Uint8Array>> },
): Promise<World> {
  const directory = await mkdtemp(join(tmpdir(), 'meshd-injection-'));
  for (const [name, text] of Object.entries(files)) await writeFile(join(directory, name), text);
  const connection =
    server && new Connection({ access: server.access(), clock: systemClock, random: () => 0, userAgent: 'test' });
  const lines: string[] = [];
  const used: InjectionSettings[] = [];
  const write = (line: string): void => void lines.push(line);
  const world = { directory, used, lines, failing: 0 };
  const source = new InjectionSource({
    settings: defaultDiscoverySettings({ namespace: 'mesh-system', resyncMs: 0 }),
    connection,
    mesh: defaultMeshConfig(),
    pool: {
      async check(settings) {
        if (world.failing-- > 0) throw new CtlError('internal', 'the worker ended');
        try {
          createInjector(settings);
          return undefined;
        } catch (error) {
          return toCtlError(error).oneLine();
        }
      },
      use: (settings) => {
        if (settings !== undefined) used.push(settings);
      },
    },
    log: { debug: () => {}, info: write, warn: write, error: write },
    clock: { ...systemClock, setTimer: (ms, run) => systemClock.setTimer(Math.min(ms, 20), run) },
    directory,
  });
  context.after(async () => {
    await source.close();
    connection?.close();
    await rm(directory, { recursive: true });
  });
  source.start();
  return Object.assign(world, { source });
}

async function scripted(context: TestContext): Promise<ScriptedApiServer> {
  const server = await ScriptedApiServer.start();
  context.after(() => server.stop());
  server.serve(CONFIG_MAPS);
  return server;
}

const configMap = (data: Readonly<Record<string, string>>) => ({
  metadata: { name: 'mesh-sidecar-injector', namespace: 'mesh-system' },
  data,
});

const until = (what: string, condition: () => boolean) => waitUntil(condition, { what: () => what });

test('without files and without a cluster the built-in templates are used', async (context) => {
  const { source, used } = await follow(context, {});
  assert.equal(source.isReady, false);
  await until('settings', () => source.isReady);
  assert.deepEqual([used.length, used[0]?.config, used[0]?.values], [1, undefined, undefined]);
  assert.equal(used[0]?.discoveryAddress, 'meshd.mesh-system.svc:15012');
});

test('settings of files are followed, and a mistake leaves the last good ones in use', async (context) => {
  const { source, used, lines, directory } = await follow(context, { files: { config: GOOD } });
  await until('the first settings', () => used.length === 1);
  assert.equal(used[0]?.config?.text, GOOD);
  await writeFile(join(directory, 'config'), BAD);
  await until('the mistake', () => lines.some((line) => line.includes('sometimes') || line.includes('policy')));
  assert.match(lines.at(-1) ?? '', /^injection: \S+\/config:2: policy: .*; the last good settings stay in use$/);
  assert.equal(used.length, 1);
  const [status] = source.status();
  assert.equal(status?.synced, true);
  assert.ok(status?.health.ok === false && status.health.reason.includes('policy'));
  await writeFile(join(directory, 'values'), 'global: { hub: example.com }\n');
  await writeFile(join(directory, 'config'), 'policy: enabled\n');
  await until('the correction', () => used.at(-1)?.config?.text === 'policy: enabled\n');
  await until('the values', () => used.at(-1)?.values !== undefined);
  assert.deepEqual(source.status()[0]?.health, { ok: true });
});

test('invalid settings at startup count as absent, and the program is ready', async (context) => {
  const server = await scripted(context);
  server.set(CONFIG_MAPS, configMap({ config: BAD }));
  const { source, used, lines } = await follow(context, { server });
  await until('a decision', () => source.isReady);
  assert.equal(used.length, 0);
  assert.match(
    lines.at(-1) ?? '',
    /^injection: ConfigMap mesh-system\/mesh-sidecar-injector, key config:2: .*; Pods are rejected until the settings are corrected$/,
  );
  server.set(CONFIG_MAPS, configMap({ config: GOOD, values: 'global: { hub: example.com }' }));
  await until('the correction', () => used.length > 0);
  await until('both documents', () => used.at(-1)?.values?.text === 'global: { hub: example.com }');
  assert.equal(used.at(-1)?.config?.text, GOOD);
});

test('a file that cannot be read at startup is used once it can be', async (context) => {
  const { source, used, lines, directory } = await follow(context, { files: { config: Buffer.of(0xff, 0xfe) } });
  await until('a decision', () => source.isReady);
  assert.equal(used.length, 0);
  assert.match(lines.at(-1) ?? '', /^injection: .*config.*; Pods are rejected until the settings are corrected$/);
  await writeFile(join(directory, 'config'), GOOD);
  // While it is being written, the file may be read empty.
  await until('the correction', () => used.at(-1)?.config?.text === GOOD);
  assert.deepEqual(source.status()[0]?.health, { ok: true });
});

test('the program is not ready before the ConfigMap has been read', async (context) => {
  const server = await scripted(context);
  server.intercept = (_request, stream) => server.fail(stream, 403, 'Forbidden');
  const { source, used, lines } = await follow(context, { server });
  await until('the refusal', () => lines.some((line) => line.includes('403')));
  assert.deepEqual(
    source.status().map(({ id, synced }) => [id, synced]),
    [['injection (ConfigMap mesh-system/mesh-sidecar-injector)', false]],
  );
  server.intercept = () => false;
  await until('the ConfigMap', () => source.isReady);
  assert.equal(used.length, 1);
});

test('in a cluster, the program is ready when the worker can answer reviews, even without documents of the user', async (context) => {
  const world = await follow(context, { server: await scripted(context) });
  world.failing = 1;
  await until('the first attempt', () => world.lines.some((line) => line.includes('cannot be checked')));
  assert.equal(world.source.isReady, false);
  await until('the second one', () => world.source.isReady);
  assert.equal(world.used.length, 1);
});

test('a changed mesh configuration changes the settings, and one without effect on them does not', async (context) => {
  const { source, used } = await follow(context, {});
  await until('settings', () => source.isReady);
  const parsed = parseMeshConfig({ defaultConfig: { drainDuration: '5s', concurrency: 3 } });
  assert.ok('value' in parsed);
  source.configure(parsed.value);
  await until('the change', () => used.length === 2);
  assert.deepEqual(used[1]?.proxyConfig, { drainDuration: '5s', concurrency: 3 });
  source.configure({ ...parsed.value, connectTimeout: 1 });
  source.configure(defaultMeshConfig());
  await until('the next change', () => used.length === 3);
  assert.deepEqual(used[2]?.proxyConfig, {});
});

test('a check that fails for another reason is repeated', async (context) => {
  const world = await follow(context, { files: { config: GOOD } });
  world.failing = 2;
  await until('settings', () => world.used.length === 1);
  assert.equal(world.lines.filter((line) => line.includes('cannot be checked')).length, 2);
});

test('durations of a proxy configuration are written as the API has them', () => {
  const config = {
    drainDuration: '45s',
    parentShutdownDuration: '1.5s',
    envoyMetricsService: { address: 'a:1', tcpKeepalive: { time: '10s', interval: '75s', probes: 3 } },
    proxyMetadata: { A: 'b' },
  };
  const parsed = parseProxyConfig(config);
  assert.ok('value' in parsed);
  assert.deepEqual(writtenProxyConfig(parsed.value), config);
});
