/** Proxies of one view in several places: what depends on the place is made for each, and everything else once. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ProxyNode } from '../../core/proxy.ts';
import type { Snapshot } from '../../model/types.ts';
import { envoy } from '../../protobuf/index.ts';
import { messageOf } from '../bundles/encode-resource.ts';
import { type GeneratedJob, InlineGenerator, type JobSource, type SubmitOptions } from '../jobs/generator.ts';
import type { GenerateJob } from '../protocol.ts';
import {
  type Connected,
  content,
  heldMesh,
  Mesh,
  meshResource,
  parse,
  ready,
  service,
  sidecar,
  turns,
  virtualService,
} from '../testing/mesh.ts';
import { IDLE_VIEW_MS, MAX_VIEWS_OF_CALLER } from './view-table.ts';

const { Cluster } = envoy.config.cluster.v3;
const { ClusterLoadAssignment } = envoy.config.endpoint.v3;

const ZONES = Array.from({ length: 20 }, (_, index) => `r${index}/z`);

function entry(name: string, resolution: 'DNS' | 'STATIC', zones: readonly string[] = ZONES) {
  const address = (index: number) => (resolution === 'DNS' ? `${name}${index}.example.com` : `10.3.0.${index + 1}`);
  return meshResource('ServiceEntry', 'shop', name, {
    hosts: [`${name}.example.com`],
    ports: [{ number: 80, name: 'http', protocol: 'HTTP' }],
    location: 'MESH_EXTERNAL',
    resolution,
    endpoints: zones.map((locality, index) => ({ address: address(index), locality })),
  });
}

/** Prefers what is near. */
function nearby(name: string) {
  const trafficPolicy = { outlierDetection: { consecutive5xxErrors: 5 } };
  return meshResource('DestinationRule', 'shop', name, { host: `${name}.example.com`, trafficPolicy });
}

const DNS = 'outbound|80||dns.example.com';
const STATIC = 'outbound|80||static.example.com';
const SHOP = [service('shop', 'web'), entry('dns', 'DNS'), entry('static', 'STATIC')];
const RULES = [nearby('dns'), nearby('static')];

function at(index: number, locality: string, namespace = 'client'): ProxyNode {
  return { ...sidecar(`10.5.0.${index + 1}`, namespace), locality };
}

/** Notes its jobs. */
class NotingGenerator extends InlineGenerator {
  readonly jobs: GenerateJob[] = [];
  readonly #noted = new Map<JobSource, JobSource>();

  override submit(source: JobSource, _options?: SubmitOptions) {
    const noted: JobSource = {
      key: source.key,
      callers: () => source.callers(),
      takeJob: () => {
        const job = source.takeJob();
        this.jobs.push(job);
        return job;
      },
    };
    this.#noted.set(source, noted);
    return super.submit(noted);
  }

  override withdraw(source: JobSource): boolean {
    return super.withdraw(this.#noted.get(source) ?? source);
  }

  /** Units of a type that were asked for, by view. */
  asked(type: 'cds' | 'lds' | 'rds'): (string | readonly string[])[] {
    return this.jobs.flatMap(({ view, units }) => (view.part === 'inbound' ? [] : (units[type] ?? [])));
  }
}

/** Its answers come when `answered` says so. */
class LateGenerator extends InlineGenerator {
  answered: Promise<void> = Promise.resolve();

  override async submit(source: JobSource): Promise<GeneratedJob> {
    const job = await super.submit(source);
    await this.answered;
    return job;
  }
}

/** Reports the clusters of these hosts as failed. */
class FailingGenerator extends InlineGenerator {
  readonly failing = new Set<string>();

  override async submit(source: JobSource): Promise<GeneratedJob> {
    const job = await super.submit(source);
    const isFailing = ({ type, unit }: { type: string; unit: string }) => type === 'cds' && this.failing.has(unit);
    const failed = job.answer.units.filter(isFailing);
    const failures = failed.map(({ type, unit, reads }) => ({ type, unit, reads, message: 'broken' }));
    const units = job.answer.units.filter((unit) => !isFailing(unit));
    return { ...job, answer: { ...job.answer, units, failures } };
  }
}

function notingMesh(resources: ConstructorParameters<typeof Mesh>[1]): { mesh: Mesh; generator: NotingGenerator } {
  let generator: NotingGenerator | undefined;
  const mesh = new Mesh((snapshot: Snapshot) => {
    generator = new NotingGenerator(snapshot);
    return generator;
  }, resources);
  assert.ok(generator !== undefined);
  return { mesh, generator };
}

function resourceOf({ session }: Connected, type: 'cds' | 'eds', name: string) {
  return session.parts(type).flatMap((part) => part.get(name) ?? [])[0];
}

/** The locality of highest priority among the endpoints that a cluster carries, or asks for. */
function nearest(proxy: Connected, name: string): string | undefined {
  const carrier = name === DNS ? resourceOf(proxy, 'cds', name) : resourceOf(proxy, 'eds', name);
  assert.ok(carrier !== undefined, `no ${name}`);
  const assignment =
    name === DNS ? Cluster.decode(messageOf(carrier)).loadAssignment : ClusterLoadAssignment.decode(messageOf(carrier));
  const first = (assignment?.endpoints ?? []).filter(({ priority }) => (priority ?? 0) === 0);
  const names = first.map(({ locality }) => `${locality?.region}/${locality?.zone}`);
  return names.length === 1 ? names[0] : undefined;
}

describe('proxies of one view in twenty localities', () => {
  it('cost one generation, and have clusters and endpoints of their own only where these tell places apart', async () => {
    const { mesh, generator } = notingMesh([...SHOP, ...RULES]);
    const proxies = ZONES.map((zone, index) => mesh.connect(at(index, zone)));
    await ready(mesh, ...proxies);
    assert.equal(mesh.engine.stats().views, 2);
    assert.deepEqual(generator.asked('lds'), ['all']);
    assert.deepEqual(generator.asked('rds'), ['all']);
    const [one] = proxies;
    assert.ok(one !== undefined);
    for (const [index, zone] of ZONES.entries()) {
      const proxy = proxies[index];
      assert.ok(proxy !== undefined);
      assert.equal(nearest(proxy, DNS), zone);
      assert.equal(nearest(proxy, STATIC), zone);
      for (const type of ['lds', 'rds', 'vhds'] as const)
        assert.equal(proxy.session.parts(type)[0], one.session.parts(type)[0]);
      const web = 'outbound|80||web.shop.svc.cluster.local';
      assert.equal(resourceOf(proxy, 'cds', web), resourceOf(one, 'cds', web));
      assert.ok(resourceOf(proxy, 'eds', web) !== undefined);
    }
  });

  it('have the very same bundles where no rule reads localities', async () => {
    const { mesh } = notingMesh(SHOP);
    const proxies = ZONES.map((zone, index) => mesh.connect(at(index, zone)));
    await ready(mesh, ...proxies);
    const parts = new Set(proxies.map(({ session }) => session.content().cds[0]));
    assert.equal(parts.size, 1);
  });

  it('have one bundle of clusters where only endpoints tell places apart', async () => {
    const { mesh } = notingMesh([...SHOP, nearby('static')]);
    const [one, two] = [mesh.connect(at(0, 'r0/z')), mesh.connect(at(1, 'r1/z'))];
    await ready(mesh, one, two);
    assert.equal(one.session.parts('cds')[0], two.session.parts('cds')[0]);
    assert.notEqual(one.session.parts('eds')[0], two.session.parts('eds')[0]);
    mesh.change([service('shop', 'more', { clusterIP: '10.9.0.8' })]);
    await mesh.settled();
    assert.equal(one.session.parts('cds')[0], two.session.parts('cds')[0]);
    for (const proxy of [one, two]) assert.ok(resourceOf(proxy, 'eds', 'outbound|80||more.shop.svc.cluster.local'));
  });

  it('are told of changed endpoints, each as it sees them', async () => {
    const { mesh, generator } = notingMesh([...SHOP, ...RULES]);
    const [one, two] = [mesh.connect(at(0, 'r0/z')), mesh.connect(at(1, 'r1/z'))];
    await ready(mesh, one, two);
    generator.jobs.length = 0;
    mesh.change([entry('static', 'STATIC', ['r1/z', 'r0/z'])]);
    await mesh.settled();
    for (const { seen } of [one, two]) assert.equal(seen.length, 1);
    assert.equal(nearest(one, STATIC), 'r0/z');
    assert.equal(nearest(two, STATIC), 'r1/z');
    assert.deepEqual(mesh.failures, []);
  });
});

describe('a placement that comes later', () => {
  it('is generated for the clusters that depend on it alone, and ready when they are there', async () => {
    const { mesh, generator } = notingMesh([...SHOP, ...RULES]);
    const one = mesh.connect(at(0, 'r0/z'));
    await ready(mesh, one);
    generator.jobs.length = 0;
    const two = mesh.connect(at(1, 'r1/z'));
    assert.deepEqual(content(two.session).lds, [], 'nothing is there before its clusters are');
    await two.session.ready;
    assert.equal(nearest(two, DNS), 'r1/z');
    await ready(mesh, two);
    assert.deepEqual(
      generator.jobs.map(({ units }) => units),
      [{ cds: ['dns.example.com'] }],
    );
    assert.equal(nearest(two, DNS), 'r1/z');
    assert.equal(nearest(two, STATIC), 'r1/z');
    assert.deepEqual(one.pushes, [], 'others are told nothing');
    assert.deepEqual(
      content(two.session).cds.map(([name]) => name),
      content(one.session).cds.map(([name]) => name),
    );
  });

  it('needs no generation where no cluster depends on it', async () => {
    const { mesh, generator } = notingMesh([...SHOP, nearby('static')]);
    const one = mesh.connect(at(0, 'r0/z'));
    await ready(mesh, one);
    generator.jobs.length = 0;
    const two = mesh.connect(at(1, 'r1/z'));
    assert.equal(nearest(two, STATIC), 'r1/z');
    assert.deepEqual(generator.jobs, []);
  });

  it('gets what it lacks after a job that began before it came', async () => {
    let generator: LateGenerator | undefined;
    const mesh = new Mesh(
      (snapshot) => {
        generator = new LateGenerator(snapshot);
        return generator;
      },
      [...SHOP, ...RULES],
    );
    assert.ok(generator !== undefined);
    const one = mesh.connect(at(0, 'r0/z'));
    await ready(mesh, one);
    const { promise, resolve } = Promise.withResolvers<void>();
    generator.answered = promise;
    mesh.change([entry('late', 'DNS', ['r0/z', 'r1/z']), nearby('late')]);
    await turns();
    const two = mesh.connect(at(1, 'r1/z'));
    await turns();
    resolve();
    await ready(mesh, two);
    for (const [proxy, zone] of [
      [one, 'r0/z'],
      [two, 'r1/z'],
    ] as const) {
      assert.equal(nearest(proxy, DNS), zone);
      assert.ok(resourceOf(proxy, 'cds', 'outbound|80||late.example.com'));
    }
    assert.deepEqual(mesh.failures, []);
  });

  it('begins with the last good clusters of another placement of its network where its own cannot be generated', async () => {
    let generator: FailingGenerator | undefined;
    const mesh = new Mesh(
      (snapshot) => {
        generator = new FailingGenerator(snapshot);
        return generator;
      },
      [...SHOP, ...RULES],
    );
    assert.ok(generator !== undefined);
    const one = mesh.connect(at(0, 'r0/z'));
    await ready(mesh, one);
    generator.failing.add('dns.example.com');
    const two = mesh.connect(at(1, 'r1/z'));
    await ready(mesh, two);
    assert.equal(resourceOf(two, 'cds', DNS), resourceOf(one, 'cds', DNS));
    assert.match(mesh.failures.join(), /dns\.example\.com.*broken/);
    generator.failing.clear();
    mesh.change([entry('dns', 'DNS', ZONES.slice(0, 3))]);
    await turns();
    assert.deepEqual([nearest(one, DNS), nearest(two, DNS)], ['r0/z', 'r1/z']);
  });

  it('waits for what the first generation makes', async () => {
    const { mesh, generator } = notingMesh([...SHOP, ...RULES]);
    const one = mesh.connect(at(0, 'r0/z'));
    const two = mesh.connect(at(1, 'r1/z'));
    await ready(mesh, one, two);
    assert.equal(generator.asked('lds').length, 1);
    assert.equal(nearest(two, DNS), 'r1/z');
  });
});

describe('a placement that nobody is in', () => {
  it('is kept for a reconnect, and dropped when nobody comes', async () => {
    const { mesh, generator } = notingMesh([...SHOP, ...RULES]);
    const stays = mesh.connect(at(0, 'r0/z'));
    const goes = mesh.connect(at(1, 'r1/z'));
    await ready(mesh, stays, goes);
    goes.session.close();
    generator.jobs.length = 0;
    const back = mesh.connect(at(1, 'r1/z'));
    assert.equal(nearest(back, DNS), 'r1/z');
    assert.deepEqual(generator.jobs, []);
    back.session.close();
    mesh.ahead = IDLE_VIEW_MS + 1;
    mesh.change([virtualService('shop', 'web', '3s')]);
    await mesh.settled();
    const [view] = [...mesh.engine.views()].filter(({ view: { part } }) => part === 'outbound');
    assert.equal([...(view?.placements() ?? [])].length, 1);
  });
});

describe('a view that nobody had while it changed', () => {
  it('gives a proxy that comes to another place all clusters of that place', async () => {
    const { mesh } = notingMesh([...SHOP, ...RULES]);
    const goes = mesh.connect(at(0, 'r0/z'));
    await ready(mesh, goes);
    goes.session.close();
    mesh.change([virtualService('client', 'web', '3s')]);
    await mesh.settled();
    const comes = mesh.connect(at(1, 'r1/z'));
    await ready(mesh, comes);
    assert.equal(nearest(comes, DNS), 'r1/z');
    assert.equal(nearest(comes, STATIC), 'r1/z');
  });
});

describe('a placement that its proxy left before anything was made for it', () => {
  it('is forgotten at once', async () => {
    const { mesh, generator } = heldMesh([...SHOP, ...RULES]);
    const stays = mesh.connect(at(0, 'r0/z'));
    await ready(mesh, stays);
    generator.held = true;
    for (const [index, zone] of ZONES.entries()) {
      const { session } = mesh.connect(at(index + 1, zone));
      session.ready.catch(() => {});
      session.close();
    }
    const [view] = [...mesh.engine.views()].filter(({ view: { part } }) => part === 'outbound');
    assert.equal([...(view?.placements() ?? [])].length, 1);
    generator.held = false;
    generator.release('outbound');
    await mesh.settled();
    assert.deepEqual(mesh.failures, []);
  });
});

describe('a locality rule', () => {
  it('that comes and goes moves proxies to their places and back, without anything being generated twice', async () => {
    const { mesh, generator } = notingMesh(SHOP);
    const [one, two] = [mesh.connect(at(0, 'r0/z')), mesh.connect(at(1, 'r1/z'))];
    await ready(mesh, one, two);
    const before = content(one.session);
    generator.jobs.length = 0;
    mesh.change(RULES);
    await mesh.settled();
    for (const [proxy, zone] of [
      [one, 'r0/z'],
      [two, 'r1/z'],
    ] as const) {
      assert.equal(nearest(proxy, DNS), zone);
      assert.equal(nearest(proxy, STATIC), zone);
    }
    assert.deepEqual(generator.asked('lds'), []);
    mesh.change(
      [],
      RULES.map(({ meta: { namespace, name } }) => `DestinationRule/${namespace}/${name}`),
    );
    await mesh.settled();
    for (const { session } of [one, two]) assert.deepEqual(content(session), before);
    assert.equal(one.session.parts('cds')[0], two.session.parts('cds')[0]);
    assert.deepEqual(generator.asked('lds'), []);
  });

  it('that goes gives nobody what others had of it: proxies move when their next place is as it shall be', async () => {
    const { mesh, generator } = heldMesh([...SHOP, ...RULES]);
    const [one, nowhere] = [mesh.connect(at(0, 'r0/z')), mesh.connect(at(1, ''))];
    await ready(mesh, one, nowhere);
    const before = content(one.session);
    generator.held = true;
    // What is nowhere changes at the same time.
    mesh.change([entry('dns', 'DNS', ['r0/z', 'r1/z'])], ['DestinationRule/shop/dns', 'DestinationRule/shop/static']);
    await turns();
    assert.deepEqual(content(one.session).cds, before.cds);
    generator.held = false;
    generator.release('outbound');
    await mesh.settled();
    assert.deepEqual(content(one.session), content(nowhere.session));
    assert.equal(one.seen.filter(({ cds }) => cds.length > 0).length, one.seen.length);
    assert.deepEqual(mesh.failures, []);
  });

  it('that goes is told to those who have then what others of the same place come to have', async () => {
    const { mesh } = notingMesh([...SHOP, ...RULES]);
    const one = mesh.connect(at(0, 'r0/z'));
    await ready(mesh, one);
    const before = content(one.session);
    mesh.change([], ['DestinationRule/shop/dns', 'DestinationRule/shop/static']);
    await mesh.settled();
    assert.notDeepEqual(content(one.session).cds, before.cds);
    assert.deepEqual(
      one.pushes.reduce((types, push) => types.union(push.types), new Set()),
      new Set(['cds', 'eds']),
    );
  });

  it('that goes is told once, with what changed in other parts: endpoints of the place that a proxy leaves are not', async () => {
    const policy = (...methods: readonly string[]) =>
      parse({
        apiVersion: 'security.mesh.io/v1beta1',
        kind: 'AuthorizationPolicy',
        metadata: { name: 'methods', namespace: 'client' },
        spec: { rules: [{ to: [{ operation: { methods } }] }] },
      });
    const { mesh, generator } = heldMesh([...SHOP, ...RULES, policy('GET')]);
    const one = mesh.connect(at(0, 'r0/z'));
    await ready(mesh, one);
    generator.held = true;
    const gone = ['DestinationRule/shop/dns', 'DestinationRule/shop/static'];
    mesh.change([policy('PUT'), entry('static', 'STATIC', ZONES.slice(0, 3))], gone);
    await turns();
    generator.release('inbound');
    await turns();
    assert.deepEqual(one.pushes, []);
    generator.held = false;
    generator.release('outbound');
    await mesh.settled();
    assert.deepEqual(
      one.pushes.map(({ types }) => types),
      [new Set(['eds', 'lds', 'cds'])],
    );
    assert.deepEqual(mesh.failures, []);
  });

  it('brings a changed cluster together with its routes: never one of them before', async () => {
    const { mesh, generator } = heldMesh([...SHOP, ...RULES]);
    const one = mesh.connect(at(0, 'r0/z'));
    const two = mesh.connect(at(1, 'r1/z'));
    await ready(mesh, one, two);
    generator.held = true;
    const route = [{ destination: { host: 'late.example.com' } }];
    const led = meshResource('VirtualService', 'shop', 'led', { hosts: ['led.example.com'], http: [{ route }] });
    mesh.change([entry('late', 'DNS', ['r0/z', 'r1/z']), nearby('late'), led]);
    await turns();
    for (const { seen } of [one, two]) assert.deepEqual(seen, []);
    generator.held = false;
    generator.release('outbound');
    await mesh.settled();
    for (const { seen } of [one, two]) {
      const [first] = seen;
      assert.ok(first?.cds.some(([name]) => name === 'outbound|80||late.example.com'));
      assert.ok((first?.rds.length ?? 0) > 0);
    }
    assert.deepEqual(mesh.failures, []);
  });
});

describe('one caller', () => {
  it('may not be in more places than it may have views', () => {
    const { mesh, generator } = heldMesh([
      ...SHOP,
      meshResource('DestinationRule', 'shop', 'many', {
        host: 'static.example.com',
        trafficPolicy: {
          loadBalancer: {
            localityLbSetting: {
              distribute: Array.from({ length: MAX_VIEWS_OF_CALLER }, (_, index) => ({
                from: `n${index}/*`,
                to: { '*': 100 },
              })),
            },
          },
        },
      }),
    ]);
    generator.held = true;
    const connect = (index: number, caller: string) => mesh.connect(at(1, `n${index}/z`), undefined, caller);
    // One place is the inbound part's.
    for (let index = 0; index < MAX_VIEWS_OF_CALLER - 1; index++) connect(index, 'greedy');
    assert.throws(() => connect(MAX_VIEWS_OF_CALLER - 1, 'greedy'), { code: 'resource_exhausted' });
    connect(7, 'greedy');
    connect(MAX_VIEWS_OF_CALLER - 1, 'honest');
    assert.equal(mesh.engine.stats().views, 2);
  });
});
