/** Which proxies ask the policy component, and what is generated again when a rule changes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { AnyResource } from '../../resources/kinds/types.ts';
import type { Generator } from '../jobs/generator.ts';
import { inline, Mesh, meshResource, parse, service, sidecar, snapshotOf } from '../testing/mesh.ts';
import { viewsOf } from './proxy-views.ts';

const ROOT = 'mesh-system';

function rule(namespace: string, match: string, instance = 'any'): AnyResource {
  const spec = { ...(match !== '' && { match }), actions: [{ handler: 'h', instances: [instance] }] };
  return parse({ apiVersion: 'config.mesh.io/v1alpha2', kind: 'rule', metadata: { name: 'r', namespace }, spec });
}

function instance(name: string, compiledTemplate: string, namespace: string): AnyResource {
  const apiVersion = 'config.mesh.io/v1alpha2';
  return parse({ apiVersion, kind: 'instance', metadata: { name, namespace }, spec: { compiledTemplate } });
}

const PARTS = [ROOT, 'shop'].flatMap((each) => [
  instance('any', 'checknothing', each),
  instance('line', 'logentry', each),
]);
const proxy = (namespace: string, app: string) => ({
  ...sidecar(namespace === 'shop' ? '10.5.0.1' : '10.5.0.2', namespace),
  labels: { app },
});

/** The generator, which notes the keys of the views that it generates. */
function recording(generator: Generator, generated: string[]): Generator {
  const submit = generator.submit.bind(generator);
  generator.submit = (source, options) => {
    generated.push(source.key);
    return submit(source, options);
  };
  return generator;
}

function needs(documents: readonly AnyResource[], node: ReturnType<typeof proxy>): readonly string[] {
  const views = viewsOf(snapshotOf([...PARTS, ...documents]), node);
  return views.flatMap((view) => (view.part === 'inbound' ? Object.keys(view.policy ?? {}) : []));
}

test('sidecars ask about what rules of their namespace and of the root namespace may match', () => {
  const web = proxy('shop', 'web');
  for (const [documents, expected] of [
    [[], []],
    [[rule('shop', '')], ['checks', 'connections']],
    [[rule('shop', 'destination.labels["app"] == "web"', 'line')], ['reports']],
    [[rule('shop', 'destination.labels["app"] == "cart"')], []],
    [[rule('other', '')], []],
    [[rule(ROOT, 'destination.namespace == "shop"')], ['checks', 'connections']],
    [[rule(ROOT, 'destination.namespace == "other"')], []],
    [
      [rule(ROOT, 'destination.namespace == "shop"', 'line'), rule('shop', 'request.path == "/"')],
      ['checks', 'reports'],
    ],
    // Instances of other namespaces are not found, whatever they do, so that the rule is wrong and refuses requests.
    [
      [instance('line', 'logentry', 'bank'), rule('shop', '', 'line.bank')],
      ['checks', 'connections', 'reports'],
    ],
    [[rule('shop', '', 'line.none')], ['checks', 'connections', 'reports']],
    // What an unknown instance does is not known.
    [[rule('shop', '', 'unknown')], ['checks', 'connections', 'reports']],
  ] as const) {
    assert.deepEqual(needs(documents, web).toSorted(), expected);
  }
});

test('labels that a workload gets while its proxy runs count', async () => {
  const generated: string[] = [];
  const entry = (labels: Record<string, string>): AnyResource =>
    meshResource('WorkloadEntry', 'shop', 'web', { address: '10.5.0.1', labels: { app: 'web', ...labels } });
  const services = meshResource('ServiceEntry', 'shop', 'web', {
    hosts: ['web.shop'],
    location: 'MESH_INTERNAL',
    resolution: 'STATIC',
    ports: [{ number: 80, name: 'http', protocol: 'HTTP' }],
    workloadSelector: { labels: { app: 'web' } },
  });
  const mesh = new Mesh((snapshot) => recording(inline(snapshot), generated), [services, entry({}), ...PARTS]);
  await mesh.connect(proxy('shop', 'web')).session.ready;
  const inbound = async (documents: readonly AnyResource[]) => {
    generated.length = 0;
    mesh.change(documents);
    await mesh.settled();
    return generated.filter((key) => key.startsWith('inbound')).length;
  };
  const isolated = '(destination.labels["quarantine"] | "") == "yes"';
  assert.equal(await inbound([rule('shop', isolated)]), 0);
  assert.equal(await inbound([entry({ quarantine: 'yes' })]), 1);
  // The same for a rule that changes afterwards.
  assert.equal(await inbound([rule('shop', isolated, 'line')]), 1);
});

test('a change of a rule generates configuration of the workloads that it reaches only', async () => {
  const generated: string[] = [];
  const mesh = new Mesh(
    (snapshot) => recording(inline(snapshot), generated),
    [service('shop', 'web'), service('other', 'web'), ...PARTS],
  );
  for (const node of [proxy('shop', 'web'), proxy('other', 'web')]) await mesh.connect(node).session.ready;
  const after = async (documents: readonly AnyResource[], deletes: readonly string[] = []) => {
    generated.length = 0;
    mesh.change(documents, deletes);
    await mesh.settled();
    return generated.toSorted();
  };
  const shop = await after([rule(ROOT, 'destination.namespace == "shop"')]);
  assert.ok(shop.length > 0 && shop.every((view) => view.includes('shop')), shop.join());
  // It needs no more than before.
  assert.deepEqual(await after([rule(ROOT, 'destination.namespace == "shop" && !connection.mtls')]), []);
  const moved = await after([rule(ROOT, 'destination.namespace == "other"')]);
  assert.ok(
    moved.some((view) => view.includes('other')),
    moved.join(),
  );
  assert.deepEqual(await after([rule('third', '')]), []);
});
