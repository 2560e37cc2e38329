/** Sidecars that import everything at a port share the public services with it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keyOf } from '../../resources/kinds/types.ts';
import { fqdn, meshOf, resource, service } from '../testing/build.ts';
import { modelOf } from '../testing/steps.ts';
import type { Scope } from '../types/types.ts';

const hostsOf = (scope: Scope) => scope.services.sorted().map(([host]) => host);

const exported = (path: string, exportTo: string) =>
  service(path, {}, { annotations: { 'networking.istio.io/exportTo': exportTo } });

const atPort = (path: string, app: string, hosts: readonly string[] = ['*/*']) =>
  resource('Sidecar', path, {
    workloadSelector: { labels: { app } },
    egress: [{ hosts, port: { number: 80, protocol: 'HTTP', name: 'http' } }],
  });

const routed = (to: string) =>
  resource('VirtualService', 'a/web', { hosts: ['web'], http: [{ route: [{ destination: { host: to } }] }] });

test('Sidecars that import everything at a port share its services, before and after changes', () => {
  const other = (path: string) => service(path, { ports: [{ name: 'http', port: 81 }] });
  const sidecars = [atPort('a/one', 'one'), atPort('a/two', 'two'), atPort('c/three', 'three')];
  const resources = [service('a/web'), other('a/other'), exported('b/own', '.'), routed('web')];
  const model = modelOf(meshOf([...resources, ...sidecars, atPort('b/four', 'four')]));
  for (const id of ['a/one', 'a/two', 'b/four']) model.acquire(id);
  const shared = (...more: readonly string[]) => {
    const scopes = ['a/one', 'a/two', 'c/three'].map((id) => model.snapshot.scopeById(id));
    const [one, ...others] = scopes;
    assert.ok(one !== undefined);
    assert.deepEqual(hostsOf(one), [fqdn('web.a'), ...more].sort());
    for (const each of others) {
      assert.equal(each?.services, one.services);
      assert.equal(each?.egress[0]?.services, one.egress[0]?.services);
      assert.equal(each?.egress[0]?.virtualServices, one.egress[0]?.virtualServices);
      assert.equal(each?.destinationRule, one.destinationRule);
    }
    const own = model.snapshot.scopeById('b/four');
    assert.deepEqual(own && hostsOf(own), [fqdn('web.a'), fqdn('own.b'), ...more].sort());
  };
  shared();
  const apply = (set: ReturnType<typeof service>) => {
    const key = keyOf(set);
    model.apply({ changes: [{ key, before: undefined, after: set }], eventTime: 0 });
  };
  apply(service('a/new'));
  shared(fqdn('new.a'));
  apply(other('a/new'));
  shared();
  apply(service('a/third'));
  shared(fqdn('third.a'));
});

test('a Sidecar with a port has the service with the port, of several with one host', () => {
  const entry = (path: string, created: number, port: number) =>
    resource(
      'ServiceEntry',
      path,
      { hosts: ['h.com'], ports: [{ number: port, name: 'http', protocol: 'HTTP' }] },
      { created },
    );
  const entries = [entry('a/e', 1, 81), entry('b/e', 2, 80)];
  const seen = (snapshot: ReturnType<typeof meshOf>) => snapshot.scopeById('c/s')?.services.get('h.com')?.namespace;
  assert.equal(seen(meshOf([...entries, atPort('c/s', 's')])), 'b');
  const model = modelOf(meshOf([entry('a/e', 1, 81), atPort('c/s', 's')]));
  model.acquire('c/s');
  assert.equal(seen(model.snapshot), undefined);
  model.apply({ changes: [{ key: 'ServiceEntry/b/e', before: undefined, after: entry('b/e', 2, 80) }], eventTime: 0 });
  assert.equal(seen(model.snapshot), 'b');
});

test('a Sidecar with a port has the destinations of its routes that lack the port, as long as they are', () => {
  const other = (port: number) => service('a/other', { ports: [{ name: 'http', port }] });
  const model = modelOf(meshOf([service('a/web'), other(81), routed('other'), atPort('c/s', 's')]));
  model.acquire('c/s');
  const seen = () => {
    const scope = model.snapshot.scopeById('c/s');
    return scope && [hostsOf(scope), scope.egress[0]?.services.sorted().map(([host]) => host)];
  };
  const apply = (after: ReturnType<typeof service>) =>
    model.apply({ changes: [{ key: keyOf(after), before: undefined, after }], eventTime: 0 });
  const [web, to] = [fqdn('web.a'), fqdn('other.a')];
  assert.deepEqual(seen(), [[to, web], [web]]);
  apply(other(80));
  assert.deepEqual(seen(), [
    [to, web],
    [to, web],
  ]);
  apply(other(82));
  assert.deepEqual(seen(), [[to, web], [web]]);
  apply(routed('web'));
  assert.deepEqual(seen(), [[web], [web]]);
});
