/** The agent without an Envoy, in this process. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { tempDir } from '../../test/harness/files.ts';
import { waitUntil } from '../core/testing/wait-until.ts';
import { defaultAgentSettings } from '../settings/index.ts';
import { runAgent } from './program.ts';

test('an agent whose start fails ends what it has started', async (context) => {
  const folder = await tempDir(context);
  // A folder is where the file is to be.
  const grpcBootstrap = join(folder, 'grpc');
  await mkdir(grpcBootstrap);
  const settings = defaultAgentSettings({
    ip: '127.0.0.1',
    podName: 'web',
    disableEnvoy: true,
    xdsLocal: join(folder, 'xds'),
    grpcBootstrap,
    proxyConfig: JSON.stringify({ configPath: folder }),
  });
  const before = process.listenerCount('SIGTERM');
  await assert.rejects(runAgent('sidecar', settings, {}), /cannot write the bootstrap of gRPC applications/);
  await waitUntil(() => !existsSync(join(folder, 'SDS')), { what: () => 'the end of the SDS server' });
  assert.equal(process.listenerCount('SIGTERM'), before);
});
