/** Configuration that is invalid, half written, moved or duplicated: the last good version stays in force. */
import assert from 'node:assert/strict';
import { mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, before, test } from 'node:test';
import { stringify } from 'yaml';
import { eventually, startDiscovery, tempDir } from '../harness/index.ts';
import { resource } from './support/config.ts';
import type { MeshProxy } from './support/mesh.ts';
import { lazy, suiteOwner } from './support/suite.ts';
import { call, eventuallyAll } from './support/traffic.ts';
import { HTTP_PORT, startVersionsMesh, to, type VersionsMesh } from './support/versions.ts';

interface Problem {
  readonly field: string;
  readonly message: string;
  readonly origin: { readonly file?: string; readonly line?: number };
}

const owner = suiteOwner();
const shared = lazy<VersionsMesh>();
const mesh = (): VersionsMesh => shared.get();

before(async () => {
  shared.set(await startVersionsMesh(owner));
});

afterEach(async () => {
  for (const name of ['routes', 'second', 'bad'])
    await mesh()
      .config.remove(name)
      .catch(() => undefined);
  await eventually(async () => assert.deepEqual(await problems(), []));
});

let edits = 0;
/** A rule for `web` that marks requests, so that it can be recognized. */
function marked(mark: string, subset = 'v1') {
  const headers = { request: { set: { 'x-mark': mark } } };
  return resource('VirtualService', 'web', { hosts: ['web'], http: [{ headers, route: [to(subset)] }] });
}
const newMark = () => `edit-${++edits}`;

async function send(client: MeshProxy): Promise<string> {
  const { status, reply } = await call({ address: client.address, port: HTTP_PORT, host: 'web' });
  return status === 200 ? String(reply?.headers['x-mark']) : String(status);
}

/** Waits until every client follows the rule with this mark. */
async function follows(mark: string): Promise<void> {
  await eventuallyAll(mesh().clients, async (client) => assert.equal(await send(client), mark));
}

async function problems(): Promise<readonly Problem[]> {
  const { problems } = (await mesh().discovery().http('/debug/configz')).json() as { problems: Problem[] };
  return problems;
}

/** Lines of discovery's log that contain a text. */
const lines = (pattern: RegExp) =>
  mesh()
    .discovery()
    .output()
    .split('\n')
    .filter((line) => pattern.test(line));

test('an invalid document changes nothing in force, is logged once and counted', async () => {
  const { config, discovery } = mesh();
  const mark = newMark();
  await config.apply('routes', marked(mark));
  await follows(mark);
  const errors = (await discovery().metric('ctl_total_orch_object_errors')) ?? 0;
  const bad = stringify(marked('never')).replace('subset: v1', 'subset: 7');
  await config.write('routes.yaml', `${stringify(resource('DestinationRule', 'other', { host: 'other' }))}---\n${bad}`);
  const found = await eventually(async () => {
    const [problem, ...more] = await problems();
    assert.ok(problem);
    assert.deepEqual(more, []);
    return problem;
  });
  assert.equal(found.field, 'spec.http[0].route[0].destination.subset');
  const line =
    1 +
    `${stringify(resource('DestinationRule', 'other', { host: 'other' }))}---\n${bad}`
      .split('\n')
      .findIndex((text) => text.includes('subset: 7'));
  assert.equal(found.origin.line, line);
  const toldLines = () => lines(/destination\.subset: expected a string/);
  const told = await eventually(async () => {
    assert.equal(toldLines().length, 1, toldLines().join('\n'));
    return toldLines();
  });
  assert.match(
    told[0] ?? '',
    new RegExp(`routes\\.yaml:${line}.*spec\\.http\\[0\\]\\.route\\[0\\]\\.destination\\.subset`),
  );
  assert.equal(await discovery().metric('ctl_total_orch_object_errors'), errors + 1);
  assert.equal(await discovery().metric('ctl_orch_object_errors{type="VirtualService"}'), 1);
  await follows(mark);
  // The valid document beside it was accepted.
  await eventually(async () => assert.match((await discovery().http('/debug/configz')).body, /"name": "other"/));

  const repaired = newMark();
  await config.apply('routes', marked(repaired));
  await follows(repaired);
  assert.equal(toldLines().length, 1, 'once');
  assert.deepEqual(await problems(), []);
  assert.equal((await discovery().metric('ctl_orch_object_errors{type="VirtualService"}')) ?? 0, 0);
});

test('an unknown field is left out with one warning, and the rest of the document is in force', async () => {
  const { config, discovery } = mesh();
  const mark = newMark();
  const text = stringify(marked(mark)).replace('  http:', '  htttp: []\n  http:');
  await config.write('routes.yaml', text);
  await follows(mark);
  const line = 1 + text.split('\n').findIndex((each) => each.includes('htttp'));
  const says = new RegExp(
    `routes\\.yaml:${line}: VirtualService/default/web: spec\\.htttp: unknown field; the field is ignored`,
  );
  assert.equal(lines(says).length, 1, discovery().output());
  const { items } = (await discovery().http('/debug/configz')).json() as {
    items: { metadata: { name: string }; warnings?: unknown }[];
  };
  const [item] = items.filter((each) => each.warnings !== undefined);
  assert.deepEqual(item?.warnings, [{ field: 'spec.htttp', message: 'unknown field', line }]);
  // The same field in a new version is not logged again, another field is.
  const next = newMark();
  await config.write('routes.yaml', text.replace(mark, next));
  await follows(next);
  assert.equal(lines(says).length, 1);
  await config.write('routes.yaml', text.replace('htttp', 'htttps'));
  await eventually(() => assert.equal(lines(/spec\.htttps: unknown field/).length, 1));
});

test('a pattern of a policy that matches almost nothing is reported where its author looks', async () => {
  const { config, discovery } = mesh();
  const rules = [{ to: [{ operation: { paths: ['/admin', '/a*b'] } }] }];
  await config.apply('policy', resource('AuthorizationPolicy', 'stars', { action: 'DENY', rules }));
  const says =
    /policy\.yaml:\d+: AuthorizationPolicy\/default\/stars: spec\.rules\[0\]\.to\[0\]\.operation\.paths\[1\]: "\*" in the middle/;
  await eventually(() => assert.equal(lines(says).length, 1, discovery().output()));
  await eventually(async () => {
    const { items } = (await discovery().http('/debug/configz?kind=AuthorizationPolicy')).json() as {
      items: { warnings?: { field: string }[] }[];
    };
    const fields = items.flatMap(({ warnings = [] }) => warnings.map(({ field }) => field));
    assert.deepEqual(fields, ['spec.rules[0].to[0].operation.paths[1]']);
  });
  await config.remove('policy');
});

test('a file that is not YAML is a problem of that file only, and its resources stay in force', async () => {
  const mark = newMark();
  await mesh().config.apply('routes', marked(mark));
  await follows(mark);
  await mesh().config.write('routes.yaml', `${stringify(marked('never'))}\n  : [ {{\n`);
  await eventually(async () => assert.equal((await problems()).length, 1));
  await mesh().config.apply('second', resource('DestinationRule', 'second', { host: 'second' }));
  await eventually(async () => {
    assert.match((await mesh().discovery().http('/debug/configz')).body, /"name": "second"/);
  });
  await follows(mark);
});

test('a file that is written piece by piece is read only when it is complete', async () => {
  const mark = newMark();
  await mesh().config.apply('routes', marked(mark));
  await follows(mark);
  const next = newMark();
  const text = stringify(marked(next));
  const cut = text.indexOf('route:') + 3;
  await mesh().config.write('routes.yaml', text.slice(0, cut));
  await eventually(async () => assert.equal((await problems()).length, 1));
  await follows(mark);
  await mesh().config.write('routes.yaml', text);
  await follows(next);
});

test('files that are replaced by renaming and mounts that switch a symlink are followed', async (t) => {
  const mark = newMark();
  const elsewhere = await tempDir(t);
  const folder = mesh().config.path;
  await writeFile(join(elsewhere, 'routes.tmp'), stringify(marked(mark)));
  await rename(join(elsewhere, 'routes.tmp'), join(folder, 'routes.yaml'));
  await follows(mark);
  const renamed = newMark();
  await writeFile(join(elsewhere, 'routes.tmp'), stringify(marked(renamed)));
  await rename(join(elsewhere, 'routes.tmp'), join(folder, 'routes.yaml'));
  await follows(renamed);
  await rm(join(folder, 'routes.yaml'));

  // As a mounted config map: the file is a link through `..data`, which is switched from one version to the next.
  const mount = join(folder, 'mounted');
  await mkdir(mount);
  const version = async (name: string, text: string) => {
    await mkdir(join(mount, name));
    await writeFile(join(mount, name, 'routes.yaml'), text);
    await symlink(name, join(mount, '..next'));
    await rename(join(mount, '..next'), join(mount, '..data'));
  };
  const first = newMark();
  await version('..v1', stringify(marked(first)));
  await symlink(join('..data', 'routes.yaml'), join(mount, 'routes.yaml'));
  await follows(first);
  for (const name of ['..v2', '..v3']) {
    const next = newMark();
    await version(name, stringify(marked(next)));
    await follows(next);
  }
  await rm(mount, { recursive: true });
  await follows('undefined');
});

test('a directory that is deleted and created again is read again', async () => {
  const folder = join(mesh().config.path, 'deep', 'deeper');
  for (const mark of [newMark(), newMark()]) {
    await mesh().config.write('deep/deeper/routes.yaml', stringify(marked(mark)));
    await follows(mark);
    await rm(join(folder, '..'), { recursive: true });
    await follows('undefined');
  }
});

test('the first of two files with one resource is used; the second is a problem until the first is removed', async () => {
  const [first, second] = [newMark(), newMark()];
  await mesh().config.apply('routes', marked(first));
  await follows(first);
  await mesh().config.apply('second', marked(second));
  const [problem] = await eventually(async () => {
    const found = await problems();
    assert.equal(found.length, 1);
    return found;
  });
  assert.match(problem?.origin.file ?? '', /second\.yaml$/);
  assert.match(problem?.message ?? '', /routes\.yaml/);
  await follows(first);
  await mesh().config.remove('routes');
  await follows(second);
});

test('wrong command lines end with one line and exit code 1', { timeout: 600_000 }, async (t) => {
  const rows: readonly {
    readonly flags: readonly string[];
    readonly env?: Record<string, string>;
    readonly says: RegExp;
  }[] = [
    { flags: ['--noSuchFlag'], says: /noSuchFlag/ },
    { flags: ['--resync', 'NaN'], says: /resync/ },
    { flags: ['--resync', '5 parsecs'], says: /resync/ },
    { flags: ['--grpcAddr', 'nowhere:port'], says: /grpcAddr/ },
    { flags: ['--registries', 'Nothing'], says: /registries/ },
    { flags: ['--log_output_level', 'nothing:debug'], says: /nothing/ },
    {
      flags: ['--configDir', ''],
      says: /--registries: the registry Orchestrator has nothing to read: .*--configDir/,
    },
    { flags: [], env: { CTL_DEBOUNCE_AFTER: 'soon' }, says: /CTL_DEBOUNCE_AFTER/ },
    { flags: [], env: { CTL_PUSH_THROTTLE: '-1' }, says: /CTL_PUSH_THROTTLE/ },
    { flags: [], env: { CTL_ENABLE_STATUS: 'banana' }, says: /CTL_ENABLE_STATUS/ },
  ];
  const files = await tempDir(t);
  const file = async (name: string, text: string): Promise<string> => {
    await writeFile(join(files, name), text);
    return join(files, name);
  };
  const broken = [
    { flags: ['--meshConfig', await file('tab', 'a:\n\tb: 1\n')], says: /tab:2: mesh configuration: expected YAML/ },
    { flags: ['--meshConfig', files], says: /mesh configuration: expected a file, got a directory/ },
    {
      flags: ['--meshConfig', await file('misspelt', 'outboundTraficPolicy:\n  mode: REGISTRY_ONLY\n')],
      says: /misspelt:\d: outboundTraficPolicy: mesh configuration: unknown field, did you mean outboundTrafficPolicy/,
    },
    {
      flags: ['--networksConfig', await file('networks', 'networks: []\n')],
      says: /networks:1: networks: mesh networks/,
    },
    { flags: ['--configDir', await file('config', '')], says: /--configDir is not a directory/ },
  ];
  const empty = await tempDir(t);
  for (const { flags, env = {}, says } of [...rows, ...broken] as typeof rows) {
    const program = await startDiscovery(t, { configDir: empty, flags, env, waitReady: false });
    assert.deepEqual(await program.exited, { code: 1, signal: null }, flags.join(' '));
    const said = program.output().trim().split('\n');
    assert.match(said.at(-1) ?? '', says);
    const complaints = said.filter((line) => !/\t(info|warn)\t/.test(line));
    assert.equal(complaints.length, 1, program.output());
  }
});
