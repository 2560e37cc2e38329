/** `deploy/rbac.yaml` is made from the rules of the Helm chart; `UPDATE_RBAC=1` writes it. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { test } from 'node:test';
import { RBAC_FILE, rbacText } from './rbac.ts';

test('deploy/rbac.yaml has the rules of the Helm chart', () => {
  if (process.env.UPDATE_RBAC === '1') writeFileSync(RBAC_FILE, rbacText());
  assert.equal(readFileSync(RBAC_FILE, 'utf8'), rbacText(), 'write it with UPDATE_RBAC=1 npm test -- unit rbac');
});
