import assert from 'node:assert/strict';
import { test } from 'node:test';
import { shownConfig } from './mesh-settings.ts';

test('mesh: values that may be credentials are redacted', () => {
  const shown = shownConfig({
    rootNamespace: 'mesh-system',
    defaultConfig: { proxyMetadata: { ANY: 'secret' } },
    extensionProviders: [
      { name: 'a', http: { headers: [{ name: 'x', value: 'secret' }], password: 'secret' } },
      { envoyExtAuthzHttp: { service: 'https://user:secret@authz/?key=secret' } },
    ],
  });
  assert.doesNotMatch(JSON.stringify(shown), /secret/);
  assert.match(JSON.stringify(shown), /"rootNamespace":"mesh-system".*"name":"a".*authz/);
});
