import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../../core/testing/properties.ts';
import { routesOf, TO_REVIEWS } from '../../testing/routes.ts';
import type { RetryPolicy, Route } from '../messages.ts';
import { withSharedRetries } from './shared-retries.ts';

const matched = (path: string) => ({ match: [{ uri: { exact: path } }] });

test('a policy of several routes is moved to the virtual host', () => {
  const routes = routesOf([{ ...matched('/a'), route: TO_REVIEWS }, { route: TO_REVIEWS }]);
  const [policy] = routes.map(({ route }) => route?.retryPolicy);
  const shared = withSharedRetries(routes);
  assert.ok(policy);
  assert.equal(shared.retryPolicy, policy);
  assert.deepEqual(
    shared.routes?.map(({ route }) => route?.retryPolicy),
    [undefined, undefined],
  );
});

test('all matches of one route have its policy', () => {
  const match = ['/a', '/b'].map((exact) => ({ uri: { exact } }));
  const { retryPolicy, routes } = withSharedRetries(
    routesOf([
      { match, route: TO_REVIEWS, retries: { attempts: 7 } },
      { route: TO_REVIEWS, retries: { attempts: 1 } },
    ]),
  );
  assert.deepEqual(retryPolicy?.numRetries, { value: 7 });
  assert.deepEqual(
    routes?.map(({ route }) => route?.retryPolicy?.numRetries),
    [undefined, undefined, { value: 1 }],
  );
});

test('a route without retries has an explicit policy, beside routes with retries', () => {
  const none = { ...matched('/none'), route: TO_REVIEWS, retries: { attempts: 0 } };
  const usual = [{ ...matched('/a'), route: TO_REVIEWS }, { route: TO_REVIEWS }];
  const { routes } = withSharedRetries(routesOf([none, ...usual]));
  assert.deepEqual(routes?.[0]?.route?.retryPolicy, {});
});

test('a single route keeps its policy', () => {
  const routes = routesOf([{ route: TO_REVIEWS }]);
  assert.deepEqual(withSharedRetries(routes), { routes });
});

/** The result in Envoy: the route's own policy, else that of its virtual host. */
function inForce({ retryPolicy: shared, routes }: ReturnType<typeof withSharedRetries>) {
  return (routes ?? []).map(({ route }) => {
    const policy = route && (route.retryPolicy ?? shared);
    return policy && Object.keys(policy).length > 0 ? policy : undefined;
  });
}

test('property: the policy in force of each route is unchanged', () => {
  const policies: RetryPolicy[] = [1, 2, 3].map((value) => ({ retryOn: '5xx', numRetries: { value } }));
  const forwarding = fc.option(fc.constantFrom(...policies), { nil: undefined }).map((retryPolicy): Route => {
    return { route: { cluster: 'c', ...(retryPolicy && { retryPolicy }) } };
  });
  const route = fc.oneof(forwarding, fc.constant<Route>({ redirect: { pathRedirect: '/' } }));
  fc.assert(
    fc.property(fc.array(route, { maxLength: 8 }), (routes) => {
      const shared = withSharedRetries(routes);
      assert.deepEqual(inForce(shared), inForce({ routes }));
      const written = (shared.routes ?? []).map((each) => each.route?.retryPolicy);
      assert.ok(shared.retryPolicy === undefined || !written.includes(shared.retryPolicy));
      const before = routes.map((each) => each.route?.retryPolicy).filter((policy) => policy !== undefined);
      assert.equal(shared.retryPolicy === undefined, new Set(before).size === before.length);
    }),
  );
});
