import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { Snapshot } from '../../model/types/types.ts';
import {
  type GeneratedJob,
  type Generator,
  InlineGenerator,
  type JobSource,
  type SubmitOptions,
} from '../jobs/generator.ts';
import {
  content,
  heldMesh,
  inline,
  Mesh,
  meshResource,
  ready,
  service,
  sidecar,
  turns,
  virtualService,
} from '../testing/mesh.ts';

/** Generates at once, and delays its answers while the test requires it. */
class SlowAnswers extends InlineGenerator {
  held = false;
  readonly #waiting: (() => void)[] = [];

  override async submit(source: JobSource): Promise<GeneratedJob> {
    const made = await super.submit(source);
    if (this.held) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    return made;
  }

  release(): void {
    this.held = false;
    for (const resolve of this.#waiting.splice(0)) resolve();
  }
}

/** Changes the answers of an inner generator to invalid ones while the test requires it. */
class Spoiling extends InlineGenerator {
  spoils: ((job: GeneratedJob) => GeneratedJob) | undefined;

  override async submit(source: JobSource, _options?: SubmitOptions): Promise<GeneratedJob> {
    const made = await super.submit(source);
    return this.spoils?.(made) ?? made;
  }
}

function meshWith<G extends Generator>(
  make: (snapshot: Snapshot) => G,
  resources: ConstructorParameters<typeof Mesh>[1],
) {
  let generator: G | undefined;
  const mesh = new Mesh((snapshot) => {
    generator = make(snapshot);
    return generator;
  }, resources);
  assert.ok(generator !== undefined);
  return { mesh, generator };
}

const client = () => sidecar('10.5.0.1', 'shop');
const toDatabase = meshResource('VirtualService', 'shop', 'web', {
  hosts: ['web'],
  http: [{ route: [{ destination: { host: 'db' } }] }],
});
const database = (port: number) => service('shop', 'db', { clusterIP: '10.9.0.2', ports: [{ name: 'tcp', port }] });

describe('engine: what units have read', () => {
  it('counts when it changes while they are generated for the first time', async () => {
    const { mesh, generator } = meshWith(
      (snapshot) => new SlowAnswers(snapshot),
      [service('shop', 'web'), database(3306)],
    );
    const proxy = mesh.connect(client());
    await ready(mesh, proxy);
    generator.held = true;
    mesh.change([toDatabase]);
    await turns(20);
    // The routes lead to the only port of the database: they have been made with the old one by now.
    mesh.change([database(3307)]);
    await turns(20);
    generator.release();
    await mesh.settled();
    const fresh = new Mesh(inline, [service('shop', 'web'), toDatabase, database(3307)]);
    const other = fresh.connect(client());
    await ready(fresh, other);
    assert.deepEqual(content(proxy.session).rds, content(other.session).rds);
  });

  it('causes no generation when a change was read by no unit', async () => {
    const { mesh, generator } = meshWith((snapshot) => new SlowAnswers(snapshot), [service('shop', 'web')]);
    const proxy = mesh.connect(sidecar('10.5.0.1', 'elsewhere'));
    await ready(mesh, proxy);
    generator.held = true;
    mesh.change([
      meshResource('Gateway', 'shop', 'edge', {
        servers: [{ port: { number: 80, name: 'http', protocol: 'HTTP' }, hosts: ['*'] }],
      }),
      virtualService('shop', 'web', '3s'),
    ]);
    await turns(20);
    assert.deepEqual(
      [...mesh.engine.views()].filter(({ view, inFlight }) => view.namespace === 'elsewhere' && inFlight),
      [],
    );
    generator.release();
    await mesh.settled();
  });

  it('is dropped for units that are gone', async () => {
    const mesh = new Mesh(inline, [service('shop', 'web')]);
    const proxy = mesh.connect(client());
    await ready(mesh, proxy);
    const { facts } = mesh.engine.stats();
    const ports = [{ name: 'http', port: 8081 }];
    mesh.change([service('shop', 'other', { clusterIP: '10.9.0.7', ports })]);
    await mesh.settled();
    assert.ok(mesh.engine.stats().facts > facts);
    mesh.change([], ['Service/shop/other']);
    await mesh.settled();
    assert.equal(mesh.engine.stats().facts, facts);
  });

  it('is dropped for units that another Sidecar does not have', async () => {
    const services = [service('shop', 'web'), service('other', 'db')];
    const sidecarFor = (...hosts: readonly string[]) =>
      meshResource('Sidecar', 'shop', 'default', { egress: [{ hosts }] });
    const factsOf = async (...sidecars: ReturnType<typeof sidecarFor>[]) => {
      const mesh = new Mesh(inline, [...services, ...sidecars.slice(0, 1)]);
      await ready(mesh, mesh.connect(client()));
      for (const each of sidecars.slice(1)) {
        mesh.change([each]);
        await mesh.settled();
      }
      return mesh.engine.stats().facts;
    };
    const [wide, narrow] = [sidecarFor('./*', 'other/*'), sidecarFor('./*')];
    assert.ok((await factsOf(wide)) > (await factsOf(narrow)));
    assert.equal(await factsOf(wide, narrow), await factsOf(narrow));
  });

  it('is dropped for views that are gone', async () => {
    const mesh = new Mesh(inline, [service('shop', 'web')]);
    const proxy = mesh.connect(client());
    await ready(mesh, proxy);
    assert.ok(mesh.engine.stats().facts > 0);
    proxy.session.close();
    mesh.ahead += 1_000_000;
    mesh.change([service('shop', 'other', { clusterIP: '10.9.0.3' })]);
    assert.equal(mesh.engine.stats().facts, 0);
  });
});

describe('engine: withheld listeners', () => {
  it('are tried again with their routes, although nothing that they read has changed', async () => {
    const { mesh, generator } = meshWith((snapshot) => new Spoiling(snapshot), [service('shop', 'web')]);
    const proxy = mesh.connect(client());
    await ready(mesh, proxy);
    generator.spoils = (job) => {
      const { units } = job.answer;
      const broken = units.filter(({ type, unit }) => type === 'rds' && unit === '81');
      const failures = broken.map(({ type, unit, reads }) => ({ type, unit, reads, message: 'broken' }));
      return { ...job, answer: { ...job.answer, failures, units: units.filter((unit) => !broken.includes(unit)) } };
    };
    const ports = [{ name: 'http', port: 81, targetPort: 8080 }];
    mesh.change([service('shop', 'extra', { clusterIP: '10.9.0.8', ports })]);
    await mesh.settled();
    const listens = () => content(proxy.session).lds.some(([name]) => name === '0.0.0.0_81');
    assert.ok(!listens());
    generator.spoils = undefined;
    mesh.change([virtualService('shop', 'extra', '3s')]);
    await mesh.settled();
    assert.ok(listens());
  });
});

describe('engine: an idle view', () => {
  it('is served to the next session with what it missed, and not before', async () => {
    const { mesh, generator } = heldMesh([service('shop', 'web')]);
    const first = mesh.connect(client());
    await ready(mesh, first);
    generator.held = true;
    mesh.change([service('shop', 'extra', { clusterIP: '10.9.0.8' })]);
    first.session.close();
    const next = mesh.connect(client());
    let served = false;
    void next.session.ready.then(() => {
      served = true;
    });
    await turns();
    assert.equal(served, false);
    generator.held = false;
    generator.release('');
    await next.session.ready;
    assert.ok(content(next.session).cds.some(([name]) => name.includes('extra')));
  });
});

describe('engine: labels that virtual services start to match', () => {
  it('separate the views of connected proxies', async () => {
    const mesh = new Mesh(inline, [service('shop', 'web')]);
    const one = mesh.connect({ ...client(), labels: { version: 'v1' } });
    const two = mesh.connect({ ...sidecar('10.5.0.2', 'shop'), labels: { version: 'v2' } });
    await ready(mesh, one, two);
    assert.deepEqual(content(one.session).rds, content(two.session).rds);
    const http = [{ match: [{ sourceLabels: { version: 'v1' } }], redirect: { uri: '/old' } }];
    mesh.change([meshResource('VirtualService', 'shop', 'web', { hosts: ['web'], http })]);
    await mesh.settled();
    assert.notDeepEqual(content(one.session).rds, content(two.session).rds);
  });
});
