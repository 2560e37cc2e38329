import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { GeneratedJob, Generator } from '../jobs/generator.ts';
import {
  content,
  endpoints,
  heldMesh,
  inline,
  Mesh,
  meshResource,
  parse,
  ready,
  service,
  sidecar,
  turns,
  virtualService,
} from '../testing/mesh.ts';
import { MAX_RETRY_AFTER_CHANGE_MS } from './retries.ts';

const SHOP = [service('shop', 'web'), endpoints('shop', 'web', '10.0.0.1'), service('other', 'db')];

/** A Sidecar for all proxies of a namespace. */
function scope(namespace: string, ...hosts: string[]) {
  return meshResource('Sidecar', namespace, 'default', { egress: [{ hosts }] });
}

/** A Sidecar for the proxies of a namespace that are labelled as this application. */
function scopeOf(app: string, namespace: string, ...hosts: string[]) {
  return meshResource('Sidecar', namespace, 'of-app', { workloadSelector: { labels: { app } }, egress: [{ hosts }] });
}

/** An inline generator whose answers are changed on their way. */
function changing(change: (job: GeneratedJob) => GeneratedJob) {
  return (snapshot: Parameters<typeof inline>[0]): Generator => {
    const inner = inline(snapshot);
    return {
      advance: (next, changes) => inner.advance(next, changes),
      submit: async (source) => change(await inner.submit(source)),
      released: (ids) => inner.released(ids),
      withdraw: (source) => inner.withdraw(source),
      close: () => inner.close(),
    };
  };
}

describe('engine: moving between views', () => {
  it('never shows a proxy an empty configuration while its Sidecar goes', async () => {
    const mesh = new Mesh(inline, [...SHOP, scope('client', 'shop/*')]);
    const proxy = mesh.connect(sidecar('10.5.0.1', 'client'));
    await ready(mesh, proxy);
    mesh.change([], ['Sidecar/client/default']);
    await mesh.settled();
    assert.ok(proxy.seen.length > 0);
    for (const { cds, lds } of proxy.seen) {
      assert.ok(cds.some(([name]) => name.includes('web.shop')));
      assert.ok(lds.length > 0);
    }
    assert.ok(content(proxy.session).cds.some(([name]) => name.includes('db.other')));
  });

  it('does not give a proxy the endpoints of the views that it is leaving by the same change', async () => {
    const { mesh, generator } = heldMesh(SHOP);
    const proxy = mesh.connect(sidecar('10.5.0.1', 'client'));
    await ready(mesh, proxy);
    generator.held = true;
    mesh.change([endpoints('shop', 'web', '10.0.0.2'), scope('client', 'other/*')]);
    await turns();
    assert.deepEqual(proxy.pushes, []);
    generator.held = false;
    generator.release('');
    await mesh.settled();
    assert.ok(proxy.seen.length > 0);
    for (const { eds } of proxy.seen) assert.ok(!eds.some(([name]) => name.includes('web.shop')));
  });

  it('generates nothing for a view that all its proxies are leaving', async () => {
    const { mesh, generator } = heldMesh(SHOP);
    mesh.change([scope('client', 'shop/*')]);
    const proxy = mesh.connect(sidecar('10.5.0.1', 'client'));
    await ready(mesh, proxy);
    generator.held = true;
    mesh.change([], ['Sidecar/client/default']);
    await turns();
    assert.deepEqual(generator.waiting.map(({ source }) => source.key.slice(0, source.key.lastIndexOf(':'))).sort(), [
      'inbound:client/',
      'outbound:client/',
    ]);
    generator.release('');
    generator.held = false;
    await mesh.settled();
    const fresh = new Mesh(inline, SHOP).connect(sidecar('10.5.0.1', 'client'));
    await fresh.session.ready;
    assert.deepEqual(content(proxy.session), content(fresh.session));
  });

  it('comes back to the first views when the change is taken back before they are left', async () => {
    const { mesh, generator } = heldMesh(SHOP);
    const narrow = scope('client', 'shop/*');
    mesh.change([narrow]);
    const proxy = mesh.connect(sidecar('10.5.0.1', 'client'));
    await ready(mesh, proxy);
    generator.held = true;
    mesh.change([], ['Sidecar/client/default']);
    await turns();
    mesh.change([narrow, service('shop', 'api')]);
    await turns();
    generator.held = false;
    generator.release('');
    await mesh.settled();
    const reference = new Mesh(inline, [...SHOP, narrow, service('shop', 'api')]);
    const fresh = reference.connect(sidecar('10.5.0.1', 'client'));
    await fresh.session.ready;
    assert.deepEqual(content(proxy.session), content(fresh.session));
    assert.deepEqual(proxy.seen.at(-1), content(fresh.session));
  });

  describe('by a change of endpoints, too', () => {
    const narrow = scopeOf('web', 'client', 'shop/*');

    async function moving() {
      const { mesh, generator } = heldMesh([service('shop', 'web'), endpoints('shop', 'web', '10.0.0.1'), narrow]);
      const proxy = mesh.connect({ ...sidecar('10.5.0.1', 'client'), labels: { app: 'web' } });
      await ready(mesh, proxy);
      generator.held = true;
      mesh.change([endpoints('shop', 'web', '10.0.0.9'), scopeOf('another', 'client', 'shop/*')]);
      await turns();
      assert.deepEqual(proxy.pushes, []);
      const isTold = () => proxy.pushes.some(({ types }) => types.has('eds'));
      return { mesh, generator, isTold };
    }

    it('is pushed the endpoints when it moves, though both views have the same', async () => {
      const { mesh, generator, isTold } = await moving();
      generator.held = false;
      generator.release('');
      await mesh.settled();
      assert.ok(isTold());
      assert.ok(mesh.allSettled());
    });

    it('is pushed the endpoints when it is not known any more when it moves', async () => {
      const { generator, isTold } = await moving();
      generator.release('', new Error('no'));
      await turns();
      assert.ok(isTold());
    });

    it('is pushed the endpoints when it does not move after all', async () => {
      const { mesh, generator, isTold } = await moving();
      mesh.change([narrow]);
      generator.held = false;
      generator.release('');
      await mesh.settled();
      assert.ok(isTold());
      assert.ok(mesh.allSettled());
    });
  });

  describe('to one that others have and that changes with it', () => {
    const before = [...SHOP, scope('client', 'shop/*'), scopeOf('web', 'client', '*/*')];
    const after = [...SHOP, scope('client', '*/*')];
    const hasDb = ({ cds }: { readonly cds: readonly (readonly [string, string])[] }) =>
      cds.some(([name]) => name.includes('db.other'));

    async function moving() {
      const { mesh, generator } = heldMesh(before);
      const proxy = mesh.connect({ ...sidecar('10.5.0.1', 'client'), labels: { app: 'web' } });
      const other = mesh.connect(sidecar('10.5.0.2', 'client'));
      await ready(mesh, proxy, other);
      assert.ok(hasDb(content(proxy.session)) && !hasDb(content(other.session)));
      generator.held = true;
      mesh.change([scope('client', '*/*')], ['Sidecar/client/of-app']);
      await turns();
      return { mesh, generator, proxy };
    }

    it('has what it had until the change is in the other view', async () => {
      const { mesh, generator, proxy } = await moving();
      assert.ok(hasDb(content(proxy.session)));
      generator.held = false;
      generator.release('');
      await mesh.settled();
      for (const seen of proxy.seen) assert.ok(hasDb(seen));
      const fresh = new Mesh(inline, after).connect({ ...sidecar('10.5.0.1', 'client'), labels: { app: 'web' } });
      await fresh.session.ready;
      assert.deepEqual(content(proxy.session), content(fresh.session));
    });

    it('takes the other view as it was when that cannot be generated', async () => {
      const { mesh, generator, proxy } = await moving();
      generator.release('', new Error('no'));
      await turns();
      assert.ok(!hasDb(content(proxy.session)));
      generator.held = false;
      mesh.retry();
      await mesh.settled();
      assert.ok(hasDb(content(proxy.session)));
    });
  });

  it('does not keep for later what was generated when the Sidecar of a view was gone', async () => {
    const narrow = scope('client', 'shop/*');
    const mesh = new Mesh(inline, [...SHOP, narrow]);
    const proxy = mesh.connect(sidecar('10.5.0.1', 'client'));
    mesh.change([], ['Sidecar/client/default']);
    await ready(mesh, proxy);
    mesh.change([narrow]);
    await mesh.settled();
    const fresh = new Mesh(inline, [...SHOP, narrow]).connect(sidecar('10.5.0.1', 'client'));
    await fresh.session.ready;
    assert.deepEqual(content(proxy.session), content(fresh.session));
  });

  it('does not show a proxy what was generated while its Sidecar was gone, when it is back before the answer', async () => {
    const narrow = scope('client', 'shop/*');
    let gate = Promise.resolve();
    const mesh = new Mesh(
      (snapshot) => {
        const inner = inline(snapshot);
        return {
          advance: (next, changes) => inner.advance(next, changes),
          submit: async (source) => {
            const job = await inner.submit(source);
            await gate;
            return job;
          },
          released: (ids) => inner.released(ids),
          withdraw: (source) => inner.withdraw(source),
          close: () => inner.close(),
        };
      },
      [...SHOP, narrow],
    );
    const proxy = mesh.connect(sidecar('10.5.0.1', 'client'));
    await ready(mesh, proxy);
    const { promise, resolve } = Promise.withResolvers<void>();
    gate = promise;
    mesh.change([service('shop', 'api')]);
    mesh.change([], ['Sidecar/client/default']);
    await turns();
    mesh.change([narrow]);
    resolve();
    await mesh.settled();
    const fresh = new Mesh(inline, [...SHOP, narrow, service('shop', 'api')]).connect(sidecar('10.5.0.1', 'client'));
    await fresh.session.ready;
    for (const { lds } of proxy.seen) assert.ok(lds.length > 0);
    assert.deepEqual(content(proxy.session), content(fresh.session));
  });
});

describe('engine: pushes held back for another part', () => {
  it('are let go when the proxy moves to other views', async () => {
    const { mesh, generator } = heldMesh(SHOP);
    const proxy = mesh.connect(sidecar('10.0.0.7', 'shop'));
    await ready(mesh, proxy);
    generator.held = true;
    // Outbound and inbound of the proxy are generated; outbound ends first.
    mesh.change([scope('shop', './*', 'other/*')]);
    await turns();
    generator.release('outbound');
    await turns();
    generator.release('inbound');
    generator.held = false;
    await mesh.settled();
    assert.ok(mesh.allSettled());
  });

  it('wait for that part once, however often it is generated again', async () => {
    const { mesh, generator } = heldMesh(SHOP);
    const proxy = mesh.connect(sidecar('10.0.0.7', 'shop'));
    mesh.change([scope('shop', './*')]);
    await ready(mesh, proxy);
    generator.held = true;
    mesh.change([scope('shop', './*', 'other/*')]);
    await turns();
    generator.release('outbound');
    await turns();
    assert.equal(proxy.pushes.length, 0);
    mesh.change([service('other', 'new')]);
    await turns();
    generator.release('outbound');
    await turns();
    assert.ok(generator.waiting.some(({ source }) => source.key.startsWith('inbound')));
    assert.equal(proxy.pushes.length, 1);
    assert.ok(proxy.seen.at(-1)?.cds.some(([name]) => name.includes('new.other')));
  });

  it('do not wait for a part that could not be generated', async () => {
    const { mesh, generator } = heldMesh(SHOP);
    const proxy = mesh.connect(sidecar('10.0.0.7', 'shop'));
    mesh.change([scope('shop', './*')]);
    await ready(mesh, proxy);
    generator.held = true;
    mesh.change([scope('shop', './*', 'other/*')]);
    await turns();
    generator.release('inbound', new Error('cannot be generated'));
    await turns();
    generator.release('outbound');
    generator.held = false;
    await turns();
    assert.ok(proxy.pushes.length > 0);
    assert.ok(proxy.seen.at(-1)?.cds.some(([name]) => name.includes('db.other')));
  });
});

describe('engine: jobs', () => {
  it('have all that the snapshot changed that they are generated from', async () => {
    const { mesh, generator } = heldMesh(SHOP);
    const proxy = mesh.connect(sidecar('10.5.0.1', 'client'));
    await ready(mesh, proxy);
    generator.held = true;
    mesh.change([service('shop', 'one', { clusterIP: '10.9.0.21' })]);
    await turns();
    mesh.change([service('shop', 'two', { clusterIP: '10.9.0.22' })]);
    await turns();
    assert.equal(generator.waiting.length, 1);
    generator.release('outbound');
    await turns();
    // One job, one push: nothing was generated twice, nothing was half there.
    assert.equal(generator.waiting.length, 0);
    assert.equal(proxy.seen.length, 1);
    for (const name of ['one', 'two']) assert.ok(proxy.seen[0]?.cds.some(([cluster]) => cluster.includes(`|${name}.`)));
  });
});

describe('engine: sessions', () => {
  it('that are gone are not generated for', async () => {
    const { mesh, generator } = heldMesh(SHOP);
    generator.held = true;
    const proxies = Array.from({ length: 50 }, (_, index) => mesh.connect(sidecar('10.5.0.1', `guest-${index}`)));
    assert.equal(generator.waiting.length, 100);
    for (const { session } of proxies) session.close();
    for (const { session } of proxies) await assert.rejects(session.ready, { code: 'unavailable' });
    assert.equal(generator.waiting.length, 0);
    // What was taken back is generated when somebody needs it.
    generator.held = false;
    const proxy = mesh.connect(sidecar('10.5.0.1', 'guest-1'));
    await ready(mesh, proxy);
    assert.ok(content(proxy.session).cds.length > 0);
  });

  it('settles `ready` of a session that is closed before its views are built', async () => {
    const { mesh, generator } = heldMesh(SHOP);
    generator.held = true;
    const { session } = mesh.connect(sidecar('10.5.0.1', 'client'));
    session.close();
    await assert.rejects(session.ready, { code: 'unavailable' });
  });

  it('gives the slot of a closed session back, even if its push never ends', async () => {
    const mesh = new Mesh(inline, SHOP);
    const stuck = Array.from({ length: 12 }, (_, index) =>
      mesh.connect(sidecar(`10.5.0.${index}`, 'client'), () => new Promise(() => {})),
    );
    await Promise.all(stuck.map(({ session }) => session.ready));
    await turns();
    for (const { session } of stuck) session.close();
    assert.deepEqual(
      { ...mesh.engine.stats(), interned: 0, views: 0, facts: 0 },
      { queued: 0, underWay: 0, interned: 0, views: 0, facts: 0 },
    );
  });

  it('leaves nothing behind of a proxy for which no views can be found', () => {
    const mesh = new Mesh(inline, SHOP);
    const broken = sidecar('10.5.0.1', 'client');
    Object.defineProperty(broken, 'labels', {
      get: () => {
        throw new Error('broken');
      },
    });
    assert.throws(() => mesh.connect(broken));
    assert.deepEqual([...mesh.engine.sessions()], []);
  });

  it('observes the convergence of an endpoint change acknowledged while an unrelated job was under way', async () => {
    const { mesh, generator } = heldMesh(SHOP);
    const proxy = mesh.connect(sidecar('10.5.0.1', 'client'));
    await ready(mesh, proxy);
    mesh.converged.length = 0;
    generator.held = true;
    // Concerns the view (a virtual service for all), but comes to the same bytes.
    mesh.change([virtualService('client', 'nothing', '3s')]);
    mesh.change([endpoints('shop', 'web', '10.0.0.5')]);
    await turns();
    generator.release('');
    generator.held = false;
    await mesh.settled();
    assert.equal(mesh.converged.length, 1);
    assert.ok(mesh.allSettled());
  });
});

describe('engine: faults', () => {
  it('keeps the last good endpoints where they cannot be encoded, and serves the rest', async () => {
    const mesh = new Mesh(inline, [...SHOP, endpoints('other', 'db', '10.0.9.1')]);
    const proxy = mesh.connect(sidecar('10.5.0.1', 'client'));
    await ready(mesh, proxy);
    const before = new Map(content(proxy.session).eds);
    const broken = endpoints('shop', 'web', '10.0.0.2');
    mesh.distorted = (snapshot) => breakEndpoints(snapshot, 'shop');
    mesh.change([broken, endpoints('other', 'db', '10.0.9.2')]);
    await mesh.settled();
    const now = new Map(content(proxy.session).eds);
    const web = 'outbound|80||web.shop.svc.cluster.local';
    const db = 'outbound|80||db.other.svc.cluster.local';
    assert.equal(now.get(web), before.get(web));
    assert.notEqual(now.get(db), before.get(db));
    assert.equal(mesh.failures.length, 1);
  });

  it('survives a result that cannot be taken over, and tries again until it works', async () => {
    let broken = false;
    const mesh = new Mesh(
      changing((job) =>
        broken ? { ...job, answer: { ...job.answer, units: [{ type: 'rds', unit: 'x' } as never] } } : job,
      ),
      SHOP,
    );
    const proxy = mesh.connect(sidecar('10.5.0.1', 'shop'));
    await ready(mesh, proxy);
    const before = content(proxy.session);
    broken = true;
    mesh.change([virtualService('shop', 'web', '3s')]);
    for (let times = 1; times < 5; times++) {
      await mesh.settled();
      assert.equal(mesh.timers.size, 1);
      assert.deepEqual(
        mesh.engine.failing().map(({ failures }) => failures),
        [times],
      );
      mesh.retry();
    }
    await mesh.settled();
    // What is wrong is told of once; what the proxy has stays.
    assert.equal(mesh.failures.length, 1);
    assert.deepEqual(content(proxy.session), before);
    broken = false;
    // Nothing changes any more: the change is not lost all the same.
    mesh.retry();
    await mesh.settled();
    const fresh = new Mesh(inline, [...SHOP, virtualService('shop', 'web', '3s')]).connect(sidecar('10.5.0.1', 'shop'));
    await fresh.session.ready;
    assert.deepEqual(content(proxy.session), content(fresh.session));
    assert.deepEqual(mesh.engine.failing(), []);
    assert.equal(mesh.recovered.length, 1);
  });

  it('serves other views while one cannot be generated, and has no change repeat that before its time', async () => {
    const attempts: string[] = [];
    const mesh = new Mesh((snapshot) => {
      const inner = inline(snapshot);
      return {
        advance: (next, changes) => inner.advance(next, changes),
        submit: (source, options) => {
          if (!source.key.startsWith('outbound:poison/')) return inner.submit(source, options);
          attempts.push(options?.isolated === true ? 'isolated' : 'first');
          return Promise.reject(new Error('poison'));
        },
        released: (ids) => inner.released(ids),
        withdraw: (source) => inner.withdraw(source),
        close: () => inner.close(),
      };
    }, SHOP);
    const poisoned = mesh.connect(sidecar('10.5.0.1', 'poison'));
    await assert.rejects(poisoned.session.ready, { code: 'internal' });
    const others = mesh.connect(sidecar('10.5.0.2', 'client'));
    await ready(mesh, others);
    for (const name of ['one', 'two', 'three']) {
      mesh.change([service('shop', name)]);
      await mesh.settled();
      assert.ok(content(others.session).cds.some(([cluster]) => cluster.includes(`|${name}.shop`)));
    }
    assert.deepEqual(attempts, ['first']);
    // A proxy that comes back is told at once instead of having it tried each time.
    poisoned.session.close();
    await assert.rejects(mesh.connect(sidecar('10.5.0.1', 'poison')).session.ready, { message: /poison/ });
    assert.deepEqual(attempts, ['first']);
    mesh.retry();
    await turns();
    assert.deepEqual(attempts, ['first', 'isolated']);
  });

  it('tries a view again sooner when configuration has changed that it may have read', async () => {
    const mesh = new Mesh((snapshot) => {
      const generator = inline(snapshot);
      return {
        advance: (next, changes) => generator.advance(next, changes),
        submit: () => Promise.reject(new Error('poison')),
        released: (ids) => generator.released(ids),
        withdraw: (source) => generator.withdraw(source),
        close: () => generator.close(),
      };
    }, SHOP);
    mesh.connect(sidecar('10.5.0.1', 'client'));
    for (let attempt = 0; attempt < 12; attempt++) {
      await turns();
      mesh.retry();
    }
    await turns();
    const delays = () => [...mesh.timers].map(({ ms }) => ms);
    assert.ok(delays().length > 0 && delays().every((ms) => ms > MAX_RETRY_AFTER_CHANGE_MS));
    const spec = { selector: { matchLabels: { app: 'nobody' } } };
    mesh.change([
      parse({
        apiVersion: 'security.mesh.io/v1beta1',
        kind: 'AuthorizationPolicy',
        metadata: { name: 'policy', namespace: 'far' },
        spec,
      }),
    ]);
    assert.ok(delays().length > 0 && delays().every((ms) => ms <= MAX_RETRY_AFTER_CHANGE_MS));
  });

  it('does not serve a listener whose routes could not be generated', async () => {
    const mesh = new Mesh(
      changing((job) => {
        const { answer } = job;
        const failures = answer.units.flatMap(({ type, unit, reads }) =>
          type === 'rds' && unit === '81' ? [{ type, unit, message: 'broken', reads }] : [],
        );
        return {
          ...job,
          answer: {
            ...answer,
            failures,
            units: answer.units.filter(({ type, unit }) => !(type === 'rds' && unit === '81')),
          },
        };
      }),
      SHOP,
    );
    const proxy = mesh.connect(sidecar('10.5.0.1', 'client'));
    await ready(mesh, proxy);
    const ports = [{ name: 'http', port: 81, targetPort: 8080 }];
    mesh.change([service('shop', 'extra', { clusterIP: '10.9.0.8', ports })]);
    await mesh.settled();
    for (const type of ['lds', 'rds'] as const) {
      const refs = proxy.session.parts('lds').flatMap((part) => part.resources().flatMap((resource) => resource.refs));
      const routes = new Set(content(proxy.session).rds.map(([name]) => name));
      assert.deepEqual(
        refs.filter((ref) => !routes.has(ref)),
        [],
        type,
      );
    }
    assert.ok(mesh.failures.length >= 1);
    assert.ok(content(proxy.session).cds.some(([name]) => name.includes('|81||extra')));
  });
});

function breakEndpoints(snapshot: Mesh['snapshot'], namespace: string): Mesh['snapshot'] {
  const services = [...snapshot.endpoints.keys()].filter((key) => key.startsWith(`${namespace}/`));
  const broken = services.map((key) => [key, [null] as never] as const);
  return Object.assign(Object.create(snapshot), { ...snapshot, endpoints: snapshot.endpoints.with(broken) });
}
