import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { breakEndpoints, changing, SHOP } from '../testing/faults.ts';
import {
  content,
  endpoints,
  heldMesh,
  inline,
  Mesh,
  parse,
  ready,
  service,
  sidecar,
  turns,
  virtualService,
} from '../testing/mesh.ts';
import { MAX_RETRY_AFTER_CHANGE_MS } from './retries.ts';

describe('engine: jobs', () => {
  it('include everything that their snapshot changed', async () => {
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
    // One job, one push: nothing was generated twice, and no push was incomplete.
    assert.equal(generator.waiting.length, 0);
    assert.equal(proxy.seen.length, 1);
    for (const name of ['one', 'two']) assert.ok(proxy.seen[0]?.cds.some(([cluster]) => cluster.includes(`|${name}.`)));
  });
});

describe('engine: failures', () => {
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

  it('survives a result that cannot be committed, and tries again until it works', async () => {
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
    // The failure is reported once, and the proxy keeps its configuration.
    assert.equal(mesh.failures.length, 1);
    assert.deepEqual(content(proxy.session), before);
    broken = false;
    // The change is not lost, although no other change follows it.
    mesh.retry();
    await mesh.settled();
    const fresh = new Mesh(inline, [...SHOP, virtualService('shop', 'web', '3s')]).connect(sidecar('10.5.0.1', 'shop'));
    await fresh.session.ready;
    assert.deepEqual(content(proxy.session), content(fresh.session));
    assert.deepEqual(mesh.engine.failing(), []);
    assert.equal(mesh.recovered.length, 1);
  });

  it('serves other views while one cannot be generated, and changes do not retry that one early', async () => {
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
    // A proxy that reconnects gets the error at once, without another attempt.
    poisoned.session.close();
    await assert.rejects(mesh.connect(sidecar('10.5.0.1', 'poison')).session.ready, { message: /poison/ });
    assert.deepEqual(attempts, ['first']);
    mesh.retry();
    await turns();
    assert.deepEqual(attempts, ['first', 'isolated']);
  });

  it('retries a view sooner when configuration that it may have read changes', async () => {
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
