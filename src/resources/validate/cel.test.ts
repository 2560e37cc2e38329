import assert from 'node:assert/strict';
import { test } from 'node:test';
import { expressionProblem } from './cel.ts';

const VALID = [
  'response.code >= 400',
  "response.code == 0xff || bytes('a') == b'a'",
  "response.code >= 500 || connection.mtls && !(request.url_path.startsWith('/health'))",
  "request.headers['x-user'] in ['ann', 'bob'] ? true : size(request.path) > 10u",
  'has(request.headers) && request.duration > duration("1.5s") && -1 < 2 % 3',
  "request.url_path.matches(r'^/a\\d+$') || {'a': 1}['a'] == 1",
];

const INVALID: readonly (readonly [expression: string, problem: RegExp])[] = [
  ['response.code >=', /ends too early/],
  ['response.code 400', /unexpected "400"/],
  ['(response.code', /missing \)/],
  ['response.code = 400', /unexpected/],
  ["request.path.startsWith('/a)", /unexpected/],
  ['[1, 2].exists(x, x == 1)', /no function exists/],
  ['string(1) == "1"', /no function string/],
  ['request..path', /a name after a dot/],
  ['%RESPONSE_CODE%', /unexpected "%"/],
  [`${'('.repeat(2000)}1`, /nested/],
];

for (const expression of VALID) {
  test(`${expression} is valid`, () => assert.equal(expressionProblem(expression), undefined));
}

for (const [expression, problem] of INVALID) {
  test(`${expression.slice(0, 40)} is not`, () => assert.match(expressionProblem(expression) ?? '', problem));
}
