import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Registry } from 'prom-client';
import { createMetrics } from '../../observe/index.ts';
import { testHost } from '../../policy/adapters/testing/host.ts';
import type { RunningHandler } from '../../policy/adapters/types.ts';
import { HandlerTable } from '../../policy/runtime/handler-table.ts';
import { compiled } from '../../policy/testing/compiled.ts';
import { addStats } from './metrics.ts';

/** No adapter fails so: the handlers here are stand-ins. */
test('handlers that are closed, and those that cannot be, are counted', async () => {
  const { handlers } = compiled(
    ['one', 'two', 'three']
      .map((name) => `kind: handler\nmetadata: { name: ${name} }\nspec: { compiledAdapter: denier }`)
      .join('\n---\n'),
  );
  const closed = { handlers: 0, failures: 0 };
  const table = new HandlerTable({
    open: ({ id }): RunningHandler => ({
      daemons: 0,
      workers: 0,
      close: () => (id.startsWith('one') ? undefined : Promise.reject(new Error('stuck'))),
    }),
    log: testHost().log,
    closed: (failed) => {
      if (failed) closed.failures++;
      else closed.handlers++;
    },
  });
  table.replace(handlers.values());
  table.replace([]);
  await new Promise(setImmediate);
  const registry = new Registry();
  addStats(createMetrics(registry), {
    kind: 'stats',
    runtime: undefined,
    activity: table.activity(),
    closed,
    droppedEntries: 0,
  });
  const text = await registry.metrics();
  assert.match(text, /^plc_handler_closed_handlers_total 1$/m);
  assert.match(text, /^plc_handler_handler_close_failures_total 2$/m);
});
