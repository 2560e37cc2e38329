/**
 * A cluster that is removed while an Envoy waits for its endpoints. Envoy acknowledges no clusters meanwhile, and must
 * get the next ones nevertheless.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventually, startBalancer } from '../harness/index.ts';
import { resource } from './support/config.ts';
import { call, eventuallyAll } from './support/traffic.ts';
import { HTTP_PORT, startVersionsMesh, to, WEB, WEB_SUBSETS } from './support/versions.ts';

/** So much later than they are sent messages arrive: longer than an edit takes to be in force. */
const DELAY_MS = 2_000;

test('clusters that are removed while Envoys wait for their endpoints hold up nothing', async (t) => {
  const between = await startBalancer(t);
  const mesh = await startVersionsMesh(t, { balancer: between, env: { CTL_DEBOUNCE_AFTER: '10ms' } });
  const { clients, config } = mesh;
  const metric = async (sample: string): Promise<number> => (await mesh.discovery().metric(sample)) ?? 0;
  const pushes = () => metric('ctl_xds_pushes{type="cds"}');
  const triggers = () => metric('ctl_push_triggers{type="config"}');
  await eventuallyAll(clients, async ({ address }) => {
    assert.equal((await call({ address, port: HTTP_PORT, host: 'web' })).status, 200);
  });

  between.delay(DELAY_MS);
  const [pushed, triggered] = [await pushes(), await triggers()];
  const subsets = [{ name: 'brief', labels: { version: 'v1' } }];
  await config.apply('web', WEB, resource('DestinationRule', 'web', { host: 'web', subsets }));
  await eventually(async () => assert.ok((await pushes()) >= pushed + clients.length));
  // The requests for the endpoints of `brief` arrive after this.
  await config.apply('web', WEB, WEB_SUBSETS);
  await eventually(async () => assert.ok((await triggers()) >= triggered + 2));
  between.delay(0);

  const headers = { request: { set: { 'x-mark': 'next' } } };
  const http = [{ headers, route: [to('v2')] }];
  await config.apply('routes', resource('VirtualService', 'web', { hosts: ['web'], http }));
  await eventuallyAll(clients, async ({ address }) => {
    const { by, reply } = await call({ address, port: HTTP_PORT, host: 'web' });
    assert.deepEqual([by, reply?.headers['x-mark']], ['web-v2', 'next']);
  });
});
