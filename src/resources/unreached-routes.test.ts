import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { finish } from '../core/slices.ts';
import { parseResource } from './index.ts';
import type { AnyResource } from './kinds/types.ts';
import { unreachedRoutes } from './unreached-routes.ts';

const route = [{ destination: { host: 'web' } }];
function service(http: readonly object[]): AnyResource {
  const document = {
    apiVersion: 'networking.mesh.io/v1',
    kind: 'VirtualService',
    metadata: { name: 'web', namespace: 'shop' },
    spec: { hosts: ['web'], http: http.map((each) => ({ route, ...each })) },
  };
  const parsed = parseResource(document, { source: 'test' }, () => undefined);
  assert.ok('resource' in parsed, JSON.stringify(parsed));
  return parsed.resource;
}
const on = (...match: readonly object[]) => ({ match });

function unreached(after: readonly object[], before?: readonly object[]): string[] {
  const changes = [{ key: 'web', before: before && service(before), after: service(after) }];
  return finish(unreachedRoutes(changes)).routes.map(
    ({ field, route: what, takenBy }) => `${field} ${what}: ${takenBy}`,
  );
}

const LATER = 'spec.http[1] prefix /b: spec.http[0]';

describe('routes that are never reached', () => {
  const ROWS: readonly (readonly [title: string, first: object, second: object, taken: string | undefined])[] = [
    ['after one without conditions', {}, on({ uri: { prefix: '/b' } }), `${LATER} (prefix /)`],
    ['after a shorter prefix', on({ uri: { prefix: '/' } }), on({ uri: { prefix: '/b' } }), `${LATER} (prefix /)`],
    ['after a longer prefix', on({ uri: { prefix: '/bc' } }), on({ uri: { prefix: '/b' } }), undefined],
    [
      'after an equal path',
      on({ uri: { prefix: '/b' } }),
      on({ uri: { exact: '/b' } }),
      'spec.http[1] exact /b: spec.http[0] (prefix /b)',
    ],
    [
      'after one with a condition more',
      on({ uri: { prefix: '/b' }, method: { exact: 'GET' } }),
      on({ uri: { prefix: '/b' } }),
      undefined,
    ],
    [
      'with a condition more',
      on({ uri: { prefix: '/b' } }),
      on({ uri: { prefix: '/b' }, headers: { a: { exact: '1' } } }),
      `${LATER} (prefix /b)`,
    ],
    [
      'with a header less',
      on({ headers: { a: {}, b: {} } }),
      on({ uri: { prefix: '/b' }, headers: { a: {} } }),
      undefined,
    ],
    [
      'of others callers',
      on({ sourceLabels: { app: 'a' } }),
      on({ uri: { prefix: '/b' }, sourceLabels: { app: 'b' } }),
      undefined,
    ],
    [
      'after a part of its matches',
      on({ uri: { prefix: '/b' } }),
      on({ uri: { prefix: '/b' } }, { uri: { prefix: '/c' } }),
      undefined,
    ],
    [
      'after all of its matches',
      on({ uri: { prefix: '/b' } }, { uri: { prefix: '/c' } }),
      on({ uri: { prefix: '/b/1' } }, { uri: { exact: '/c' } }),
      'spec.http[1] prefix /b/1: spec.http[0] (prefix /b)',
    ],
    [
      'in another case',
      on({ uri: { prefix: '/B' }, ignoreUriCase: true }),
      on({ uri: { prefix: '/b' } }),
      `${LATER} (prefix /B)`,
    ],
    [
      'in any case after one',
      on({ uri: { prefix: '/b' } }),
      on({ uri: { prefix: '/b' }, ignoreUriCase: true }),
      undefined,
    ],
    [
      'after a regular expression for everything',
      on({ uri: { regex: '.*' } }),
      on({ uri: { prefix: '/b' } }),
      `${LATER} (regex .*)`,
    ],
    ['after another regular expression', on({ uri: { regex: '/b.*' } }), on({ uri: { prefix: '/b' } }), undefined],
  ];
  for (const [title, first, second, taken] of ROWS)
    it(title, () => assert.deepEqual(unreached([first, second]), taken === undefined ? [] : [taken]));

  it('are not news where they were not reached before', () => {
    const routes = [{}, on({ uri: { prefix: '/b' } })];
    assert.deepEqual(unreached(routes, routes), []);
    assert.equal(unreached([...routes, { name: 'last' }], routes).join(), 'spec.http[2] last: spec.http[0] (prefix /)');
  });

  it('are compared in slices, with a limit for all documents of a change, until it is late', () => {
    const paths = Array.from({ length: 600 }, (_, index) => on({ uri: { exact: `/${index}` } }));
    const document = service([...paths, {}, { name: 'last' }]);
    const changes = Array.from({ length: 30 }, () => ({ key: 'web', before: undefined, after: document }));
    let late = false;
    const work = unreachedRoutes(changes, () => late);
    for (let steps = 0; steps < 3000; steps++) assert.equal(work.next().done, false);
    const { routes, left } = finish(work);
    assert.ok(routes.length > 0 && left > 0 && routes.length + left === 30, `${routes.length} found, ${left} left`);
    late = true;
    assert.deepEqual(finish(unreachedRoutes(changes, () => late)), { routes: [], left: 30 });
  });
});
