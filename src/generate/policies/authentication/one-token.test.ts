/** Tests the user's text in the script; the real Envoy tests what the script does. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { JwtRule } from '../../../resources/kinds/schemas.ts';
import { ambiguityScript } from './one-token.ts';

const scriptOf = (rule: Partial<JwtRule>) => ambiguityScript([{ name: 'p', jwks: '', rule: { issuer: 'a', ...rule } }]);

it('names the token locations of all rules', () => {
  const script = scriptOf({ fromHeaders: [{ name: 'X', prefix: 'T ' }], fromParams: ['p'], fromCookies: ['c'] });
  const tables = 'local schemes = {["x"]={"T\\032"}}\nlocal parameters = {["p"]=true}\nlocal cookies = {["c"]=true}\n';
  assert.ok(script.startsWith(tables), script);
  assert.match(
    scriptOf({}),
    /^local schemes = \{\["authorization"\]=\{"Bearer\\032"\}\}\n.*\["access\\095token"\]=true/,
  );
});

it('never executes text of users', () => {
  const odd = '"]=1} os.exit()\n--[[\\"é';
  const [first = ''] = scriptOf({ fromParams: [odd] }).split('\nlocal cookies');
  assert.ok(!/os\.exit|--|é/.test(first), first);
  assert.match(first, /parameters = \{\["(\\\d{3}|[0-9A-Za-z])*"\]=true\}$/);
});
