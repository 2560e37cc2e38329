import assert from 'node:assert/strict';
import { test } from 'node:test';
import { finish } from '../../core/slices.ts';
import * as fc from '../../core/testing/properties.ts';
import { keyOf, type ResourceEvent } from '../../resources/kinds/types.ts';
import { readDocuments } from './documents.ts';
import { createLedger } from './ledger.ts';

const service = (name: string, port = 80) =>
  `---\napiVersion: v1\nkind: Service\nmetadata: {name: ${name}}\nspec: {ports: [{port: ${port}}]}\n`;
const reading = (file: string, text: string) => ({
  documents: finish(readDocuments(file, text)).flatMap((part) => part.found),
});

/** Events in short form: `set Service/default/a@file:port`. */
function lines(events: readonly ResourceEvent[]): string[] {
  return events.map((event) => {
    if (event.type === 'set') {
      assert.ok(event.resource.kind === 'Service');
      const { meta, origin, content } = event.resource;
      return `set ${meta.name}@${origin.file}:${content.spec.ports?.[0]?.port}`;
    }
    if (event.type === 'delete') return `delete ${event.key}`;
    if (event.type === 'resolved') return `resolved ${event.id}`;
    const { id, origin, message } = event.problem;
    return `invalid ${id}@${origin.file}:${origin.line}: ${message}`;
  });
}

test('the first file in path order gives a key; the other is a problem until the first is deleted', () => {
  const ledger = createLedger();
  ledger.put('b', reading('b', service('x', 2)));
  assert.deepEqual(lines(ledger.flush(0)), ['set x@b:2']);
  ledger.put('a', reading('a', service('x', 1)));
  assert.deepEqual(lines(ledger.flush(0)), [
    'set x@a:1',
    'invalid b#0@b:2: expected one document for Service/default/x; the document in a:2 is in force',
  ]);
  ledger.remove('a');
  assert.deepEqual(lines(ledger.flush(0)), ['set x@b:2', 'resolved b#0']);
  ledger.remove('b');
  assert.deepEqual(lines(ledger.flush(0)), ['delete Service/default/x']);
});

test('a document that becomes invalid keeps its last good version, and is resolved when it is valid again', () => {
  const ledger = createLedger();
  ledger.put('a', reading('a', service('x') + service('y')));
  ledger.flush(0);
  ledger.put('a', reading('a', service('x', 0) + service('y', 81)));
  assert.deepEqual(lines(ledger.flush(0)), [
    'set y@a:81',
    'invalid Service/default/x@a:5: expected a port from 1 to 65535, got 0',
  ]);
  ledger.put('a', reading('a', service('x') + service('y', 81)));
  assert.deepEqual(
    lines(ledger.flush(0)).map((line) => line.split('@')[0]),
    ['resolved Service/default/x'],
  );
});

test('a syntax error keeps what may have been in its document, and does not affect other documents', () => {
  const ledger = createLedger();
  ledger.put('a', reading('a', service('x') + service('y')));
  ledger.flush(0);
  const broken = reading('a', `---\nkind: [\n${service('y', 81)}`);
  assert.equal(ledger.isSuspicious('a', broken.documents), true);
  ledger.put('a', broken);
  const events = lines(ledger.flush(0));
  assert.equal(events[0], 'set y@a:81');
  assert.match(events[1] ?? '', /^invalid a#0@a:[23]: expected YAML or JSON/);
  assert.equal(events.length, 2);
  ledger.put('a', reading('a', service('y', 81)));
  assert.deepEqual(
    lines(ledger.flush(0)).map((line) => line.split('@')[0]),
    ['delete Service/default/x', 'set y', 'resolved a#0'],
  );
});

test('a file that cannot be read keeps all of its resources', () => {
  const ledger = createLedger();
  ledger.put('a', reading('a', service('x')));
  ledger.flush(0);
  const problem = { id: 'a', origin: { source: 'directory', file: 'a', line: 1 }, field: '', message: 'unreadable' };
  ledger.put('a', { unreadable: problem });
  assert.deepEqual(lines(ledger.flush(0)), ['invalid a@a:1: unreadable']);
  assert.deepEqual(lines(ledger.flush(0)), []);
});

test('an invalid document whose key another file gives does not take that key’s name', () => {
  const ledger = createLedger();
  ledger.put('a', reading('a', service('x')));
  ledger.put('b', reading('b', service('x', 0)));
  const events = lines(ledger.flush(0));
  assert.equal(events[0], 'set x@a:80');
  assert.match(events[1] ?? '', /^invalid b#0@b:/);
});

test('a valid document next to an invalid one of the same key is accepted; the invalid one keeps its position', () => {
  for (const text of [service('x', 0) + service('x'), service('x') + service('x', 0)]) {
    const ledger = createLedger();
    ledger.put('a', reading('a', text));
    const events = lines(ledger.flush(0));
    assert.match(events[0] ?? '', /^set x@a:80/);
    assert.match(events[1] ?? '', /^invalid a#[01]@a:/);
  }
});

test('property: after any history of files, the events add up to what the files contain, first file first', () => {
  const file = fc.constantFrom('a', 'b', 'c');
  const names = fc.array(fc.record({ name: fc.constantFrom('x', 'y', 'z'), port: fc.integer({ min: 1, max: 3 }) }), {
    maxLength: 3,
  });
  const step = fc.record({ file, content: fc.option(names, { nil: undefined }), flush: fc.boolean() });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 15 }), (steps) => {
      const ledger = createLedger();
      const contents = new Map<string, { name: string; port: number }[]>();
      const state = new Map<string, string>();
      const problems = new Set<string>();
      const follow = (events: readonly ResourceEvent[]) => {
        for (const event of events) {
          if (event.type === 'set') state.set(keyOf(event.resource), lines([event])[0] ?? '');
          else if (event.type === 'delete') assert.ok(state.delete(event.key), event.key);
          else if (event.type === 'invalid') problems.add(event.problem.id);
          else assert.ok(problems.delete(event.id), event.id);
        }
      };
      for (const { file, content, flush } of steps) {
        if (content === undefined) ledger.remove(file);
        else ledger.put(file, reading(file, content.map(({ name, port }) => service(name, port)).join('')));
        if (content === undefined) contents.delete(file);
        else contents.set(file, content);
        if (flush) follow(ledger.flush(0));
      }
      follow(ledger.flush(0));
      const expected = new Map<string, string>();
      let documents = 0;
      for (const [name, all] of [...contents].sort(([a], [b]) => (a < b ? -1 : 1))) {
        for (const each of all) {
          documents++;
          const key = `Service/default/${each.name}`;
          if (!expected.has(key)) expected.set(key, `set ${each.name}@${name}:${each.port}`);
        }
      }
      assert.deepEqual([...state].sort(), [...expected].sort());
      assert.equal(problems.size, documents - expected.size);
    }),
    { numRuns: 60 },
  );
});
