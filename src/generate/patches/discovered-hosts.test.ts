/** Patches of virtual hosts that are resources of their own; the golden file `envoy-filter-routes` shows them, too. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { envoy } from '../../protobuf/index.ts';
import { generate } from '../generate.ts';
import { meshOf, meshResource } from '../testing/mesh.ts';
import { outboundView } from '../testing/views.ts';

const { RouteConfiguration, VirtualHost } = envoy.config.route.v3;

const WEB = meshResource('ServiceEntry', 'default', 'web', {
  hosts: ['web.example.com'],
  ports: [{ number: 80, name: 'http', protocol: 'HTTP' }],
  resolution: 'STATIC',
  endpoints: [{ address: '10.0.0.1' }],
});
const LABEL = 'EnvoyFilter/default/patches: spec.configPatches[0]';

describe('virtual hosts that are discovered', () => {
  const HOSTS = ['allow_any', 'web.example.com:80'].map((name) => `80/${name}`);

  /** The virtual hosts of port 80, those of its route configuration, and what is reported. */
  function discovered(...configPatches: readonly object[]) {
    const applied = [{ key: 'EnvoyFilter/default/patches', patches: configPatches.map((_, index) => index) }];
    const view = outboundView({ virtualHosts: 'discovered', patches: { rds: applied, vhds: applied } });
    const mesh = meshOf([WEB, meshResource('EnvoyFilter', 'default', 'patches', { configPatches })]);
    const result = generate(mesh, view, { rds: 'all', vhds: 'all' });
    const hosts = (result.units.vhds?.get('80') ?? []).map(({ bytes }) => VirtualHost.decode(bytes));
    const [routes] = result.units.rds?.get('80') ?? [];
    return {
      hosts,
      routes: RouteConfiguration.decode(routes?.bytes ?? new Uint8Array()),
      failures: result.failures.map(({ type, unit, message }) => `${type} ${unit}: ${message}`),
    };
  }
  const names = (hosts: readonly { readonly name: string }[]) => hosts.map(({ name }) => name).sort();
  const ofPort = { routeConfiguration: { name: '80' } };
  const added = { name: 'added', domains: ['added.example'] };

  test('a merged route configuration keeps discovery, and its virtual hosts are discovered', () => {
    const value = { virtual_hosts: [added], max_direct_response_body_size_bytes: 7 };
    const merging = (operation: string) =>
      discovered({ applyTo: 'ROUTE_CONFIGURATION', match: ofPort, patch: { operation, value } });
    const { hosts, routes, failures: lines } = merging('MERGE');
    assert.deepEqual([names(hosts), lines], [[...HOSTS, '80/added'].sort(), []]);
    assert.deepEqual([routes.virtualHosts, routes.maxDirectResponseBodySizeBytes?.value], [[], 7]);
    assert.ok(routes.vhds !== null);
    assert.deepEqual(names(merging('MERGE_AND_REPLACE_LIST').hosts), ['80/added']);
  });

  test('one that is added is a resource like the others', () => {
    const { hosts, routes } = discovered({
      applyTo: 'VIRTUAL_HOST',
      match: ofPort,
      patch: { operation: 'ADD', value: added },
    });
    assert.deepEqual(names(hosts), [...HOSTS, '80/added'].sort());
    assert.deepEqual(routes.virtualHosts, []);
  });

  test('where all are removed there is one that returns HTTP 404, because Envoy waits for one', () => {
    const { hosts } = discovered({ applyTo: 'VIRTUAL_HOST', patch: { operation: 'REMOVE' } });
    assert.deepEqual(
      hosts.map(({ name, domains, routes }) => [name, domains, routes]),
      [['80/none', ['*'], []]],
    );
  });

  test('a route configuration that does not exist has none, whatever patches add', () => {
    const patched = outboundView({
      virtualHosts: 'discovered',
      patches: { vhds: [{ key: 'EnvoyFilter/default/patches', patches: [0] }] },
    });
    const adding = { applyTo: 'VIRTUAL_HOST', patch: { operation: 'ADD', value: added } };
    const mesh = meshOf([WEB, meshResource('EnvoyFilter', 'default', 'patches', { configPatches: [adding] })]);
    const { units } = generate(mesh, patched, { vhds: new Set(['80', '99']) });
    assert.deepEqual(
      [...(units.vhds ?? [])].map(([unit, hosts]) => [unit, hosts.length]),
      [
        ['80', 3],
        ['99', 0],
      ],
    );
  });

  test('those that Envoy could not distinguish are a failure', () => {
    const adding = (value: object) =>
      discovered({ applyTo: 'VIRTUAL_HOST', match: ofPort, patch: { operation: 'ADD', value } }).failures;
    const start = `vhds 80: ${LABEL}:`;
    assert.deepEqual(adding({ ...added, domains: ['WEB.example.com'] }), [
      `${start} the route configuration 80 would have the domain WEB.example.com twice`,
    ]);
    assert.deepEqual(adding({ ...added, name: 'web.example.com:80' }), [
      `${start} the route configuration 80 would have two virtual hosts named web.example.com:80`,
    ]);
    assert.deepEqual(adding({ ...added, name: 'a/b' }), [
      `${start} the virtual host a/b would have a name with "/", which Envoy cannot discover`,
    ]);
  });
});
