import assert from 'node:assert/strict';
import { test } from 'node:test';
import { keyOf, type ResourceEvent, type ResourceList } from '../resources/index.ts';
import { problem, resource } from '../store/testing/documents.ts';
import { createStagedSink } from './staged-sink.ts';

const set = (
  kind: 'Service' | 'VirtualService',
  name: string,
  version = 1,
): Extract<ResourceEvent, { type: 'set' }> => ({
  type: 'set',
  resource: resource(kind, name, version),
  eventTime: version,
});

function shown(events: readonly ResourceEvent[]): string[] {
  return events.map((event) => {
    if (event.type === 'set') return `${keyOf(event.resource)}@${event.eventTime}`;
    return event.type === 'invalid' ? `invalid ${event.problem.id}` : event.type;
  });
}

test('passes the newest state of each list on when it is released, and then everything as it comes', () => {
  const staged = createStagedSink();
  const passed: unknown[] = [];
  staged.replace({ events: [set('Service', 'a'), set('Service', 'b')], eventTime: 1, kinds: ['Service'] });
  staged.replace({ events: [set('VirtualService', 'p')], eventTime: 1, kinds: ['VirtualService'], namespace: 'ns' });
  staged.apply([set('Service', 'a', 2), { type: 'delete', key: 'Service/ns/b', eventTime: 2 }]);
  staged.apply([{ type: 'invalid', problem: problem('Service', 'c', 'east'), eventTime: 3 }]);
  staged.apply([set('Service', 'd', 3), { type: 'delete', key: 'VirtualService/other/x', eventTime: 3 }]);
  staged.replace({ events: [set('VirtualService', 'q', 4)], eventTime: 4, kinds: ['VirtualService'], namespace: 'ns' });
  staged.changing(4);
  staged.release(
    {
      apply: (events) => passed.push(['apply', shown(events)]),
      replace: ({ kinds, namespace, events, eventTime }: ResourceList) =>
        passed.push([kinds, namespace, eventTime, shown(events)]),
      changing: (at) => passed.push(at),
    },
    9,
  );
  assert.deepEqual(passed.splice(0), [
    [['Service'], undefined, 9, ['Service/ns/a@2', 'invalid Service/ns/c', 'Service/ns/d@3']],
    [['VirtualService'], 'ns', 9, ['VirtualService/ns/q@4']],
    ['apply', ['delete']],
  ]);
  staged.changing(10);
  staged.apply([set('VirtualService', 'r', 10)]);
  staged.replace({ events: [], eventTime: 11, kinds: ['VirtualService'] });
  assert.deepEqual(passed, [10, ['apply', ['VirtualService/ns/r@10']], [['VirtualService'], undefined, 11, []]]);
});
