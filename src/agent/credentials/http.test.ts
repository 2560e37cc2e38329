import assert from 'node:assert/strict';
import { test } from 'node:test';
import { callService } from './http.ts';
import { startService } from './testing/service.ts';

test('a server that accepts a request and never answers, or never ends its answer, fails at the deadline', async (t) => {
  const { signal } = new AbortController();
  const silent = await startService(t, () => undefined);
  const endless = await startService(t, (response) => void response.writeHead(200).write('a'));
  for (const { url } of [silent, endless]) {
    const call = { url: new URL('/token?key=s3cret', url), method: 'GET', headers: {}, timeoutMs: 30, signal } as const;
    await assert.rejects(callService(call), {
      code: 'deadline_exceeded',
      message: `http://${url.host}/token: no answer within 30 ms`,
    });
  }
});
