/**
 * Two registries with a service of the same name: which is in force, what happens to the other, and how it is reported.
 */
import assert from 'node:assert/strict';
import { mkdir, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { stringify } from 'yaml';
import { eventually, startDiscovery, tempDir } from '../harness/index.ts';
import { service } from './support/config.ts';

interface Configz {
  readonly sources: readonly {
    readonly id: string;
    readonly synced: boolean;
    readonly health: { readonly ok: boolean };
  }[];
  readonly otherKinds: readonly {
    readonly key: string;
    readonly source: string;
    readonly others: readonly { readonly source: string; readonly origin: { readonly file?: string } }[];
  }[];
  readonly items: readonly { readonly source: string; readonly metadata: { readonly name: string } }[];
}

const ROUTE = {
  apiVersion: 'networking.mesh.io/v1alpha3',
  kind: 'VirtualService',
  metadata: { name: 'route', namespace: 'default' },
  spec: { hosts: ['hello'], http: [{ route: [{ destination: { host: 'world' } }] }] },
};

test('the service of the first registry is in force; another registry can remove only its own', async (t) => {
  const configDir = join(await tempDir(t), 'config');
  const flags = ['--registries', 'Mock,Orchestrator'];
  const discovery = await startDiscovery(t, { configDir, flags, waitReady: false });
  await eventually(async () => {
    const { status, body } = await discovery.http('/ready');
    assert.deepEqual([status, body], [503, 'not ready: configuration is being read, waiting for directory\n']);
  });
  const staging = `${configDir}.new`;
  await mkdir(staging);
  const hello = service('hello', { clusterIP: '10.96.0.9', ports: [{ name: 'http', port: 8888 }] });
  await writeFile(join(staging, 'hello.yaml'), stringify(hello));
  await writeFile(join(staging, 'route.yaml'), stringify(ROUTE));
  // The directory appears together with both files.
  await rename(staging, configDir);
  await discovery.waitReady();
  const configz = async () => (await discovery.http('/debug/configz')).json() as Configz;
  const ports = async () => {
    const services = (await discovery.http('/debug/registryz')).json() as {
      readonly hostname: string;
      readonly ports: readonly { readonly port: number }[];
    }[];
    return services.find(({ hostname }) => hostname.startsWith('hello.'))?.ports.map(({ port }) => port);
  };
  const first = await configz();
  assert.deepEqual(
    first.sources.map(({ id, synced, health }) => [id, synced, health.ok]),
    [
      ['mock', true, true],
      ['directory', true, true],
      ['injection (./var/lib/mesh/inject)', true, true],
    ],
  );
  assert.deepEqual(
    first.otherKinds.map(({ key, source, others }) => [key, source, others[0]?.source, others[0]?.origin.file]),
    [['Service/default/hello', 'mock', 'directory', join(configDir, 'hello.yaml')]],
  );
  assert.deepEqual(
    first.items.map(({ source, metadata }) => [source, metadata.name]),
    [['directory', 'route']],
  );
  assert.deepEqual(await ports(), [80, 90, 100]);
  assert.match(
    discovery.output(),
    /Service\/default\/hello: the document of source mock is in force, not that of directory/,
  );
  await rm(join(configDir, 'hello.yaml'));
  await eventually(async () => assert.deepEqual((await configz()).otherKinds, []));
  assert.deepEqual(await ports(), [80, 90, 100]);
  await rm(configDir, { recursive: true });
  await eventually(async () => assert.equal((await configz()).sources[1]?.health.ok, false));
  assert.equal((await configz()).items.length, 1);
  assert.equal((await discovery.http('/ready')).status, 200);
});
