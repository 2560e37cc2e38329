import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { checkSyntax, compileExpression } from './compile.ts';
import { NONE, SOME, VOCABULARY } from './testing/attributes.ts';
import { type Attributes, EvaluationError, type Language, type Value } from './types.ts';

type Row = readonly [expression: string, expected: Value, attributes?: Attributes];
type Refusal = readonly [expression: string, message: RegExp];

function evaluate(language: Language, text: string, attributes: Attributes = SOME): Value {
  return compileExpression(text, { language, vocabulary: VOCABULARY }).evaluate(attributes);
}

function table(language: Language, rows: readonly Row[]): void {
  for (const [text, expected, attributes] of rows) {
    test(text, () => assert.deepEqual(evaluate(language, text, attributes), expected));
  }
}

function refusals(language: Language, rows: readonly Refusal[]): void {
  for (const [text, message] of rows) {
    test(`refused: ${text.slice(0, 60)}`, () =>
      assert.throws(() => compileExpression(text, { language, vocabulary: VOCABULARY }), {
        name: 'CtlError',
        code: 'invalid_argument',
        message,
      }));
  }
}

function failures(language: Language, rows: readonly (readonly [string, RegExp, Attributes?])[]): void {
  for (const [text, message, attributes] of rows) {
    test(`no value: ${text.slice(0, 60)}`, () =>
      assert.throws(
        () => evaluate(language, text, attributes),
        (error) => error instanceof EvaluationError && message.test(error.message),
      ));
  }
}

describe('literals and operators of attribute expressions', () => {
  table('CEXL', [
    ['true', true],
    ['False', false],
    ['42', 42n],
    ['-7', -7n],
    ['.5', 0.5],
    ['"a\\u00e9\\n\\x41\\101"', 'aé\nAA'],
    ['`raw\\n`', 'raw\\n'],
    ["'x'", 'x'],
    ['"1h1.5s"', { kind: 'duration', nanos: 3_601_500_000_000n }],
    ['"0"', { kind: 'duration', nanos: 0n }],
    ['"1x"', '1x'],
    ['source.name == "front" && request.size > 100', true],
    ['request.size != 200 || request.ratio <= 0.5', true],
    ['!(connection.mtls)', false],
    ['request.size + 1 == 201', true],
    ['"a" + "b"', 'ab'],
    ['response.duration < "20ms"', true],
    ['response.duration == "19ms"', true],
    ['"�" < "😀"', true],
    ['source.name | "unknown" == "front"', true],
    ['9223372036854775807 + 1', -9_223_372_036_854_775_808n],
  ]);
});

describe('attributes that are missing in attribute expressions', () => {
  table('CEXL', [
    ['source.name | "unknown"', 'unknown', NONE],
    ['source.name | request.path | "none"', 'none', NONE],
    ['request.headers["user-agent"]', 'curl/8'],
    ['request.headers["none"]', ''],
    ['request.headers["none"] | "-"', '-'],
    ['request.headers["none"] | source.labels["app"] | "-"', 'front'],
    ['source.labels["app"] | "-"', '-', NONE],
    ['source.labels | emptyStringMap()', new Map(), NONE],
    ['connection.mtls | false', false, NONE],
    ['true || connection.mtls', true, NONE],
    ['false && connection.mtls', false, NONE],
  ]);
  failures('CEXL', [
    ['source.name', /^attribute source\.name is missing$/, NONE],
    ['source.name == "a"', /source\.name is missing/, NONE],
    ['source.labels["a"]', /source\.labels is missing/, NONE],
    ['connection.mtls || true', /connection\.mtls is missing/, NONE],
    ['source.name', /expected STRING as attribute source\.name/, { get: () => 5n }],
  ]);
});

describe('functions of attribute expressions', () => {
  table('CEXL', [
    ['source.ip == ip("10.0.0.1")', true],
    ['source.ip == ip("::ffff:10.0.0.1")', true],
    ['ip("2001:db8::1")', Uint8Array.of(32, 1, 13, 184, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1)],
    ['source.ip | ip("0.0.0.0")', Uint8Array.of(0, 0, 0, 0), NONE],
    ['request.time >= timestamp("2023-11-14T22:13:20.123456789Z")', true],
    ['timestamp("2015-01-02T15:04:35+01:00")', { kind: 'timestamp', nanos: 1_420_207_475_000_000_000n }],
    ['request.host | dnsName("Bücher.example.") == dnsName("xn--bcher-kva.EXAMPLE")', true],
    ['request.user == email("ann@example.COM")', true],
    ['email("\\"a\\"@b.c") == email("a@b.c")', true],
    ['request.user == email("Ann@example.com")', false],
    ['uri("HTTP://Host.com:/a") == uri("http://host.COM/a")', true],
    ['uri("urn:A") == uri("urn:a")', false],
    ['match(request.path, "/api*") && match(request.path, "*v1") && !match(request.path, "/a*1")', true],
    ['"^/api/v[0-9]+$".matches(request.path)', true],
    ['request.path.matches("/api/v1")', true],
    ['request.path.startsWith("/api") && request.path.endsWith("v1")', true],
    ['toLower("ÄB")', 'äb'],
    ['"abc".reverse()', 'cba'],
    ['size("é")', 2n],
    ['conditional(request.size > 100, "large", source.name)', 'large'],
    ['conditionalString(false, "a", "b")', 'b'],
    ['emptyStringMap()["a"] | "none"', 'none'],
  ]);
  failures('CEXL', [
    ['ip(source.name)', /^expected an IP address, got "front"$/],
    [
      'source.name.matches(request.path | "x") && request.headers["user-agent"].matches("(")',
      /regular expression/,
      {
        get: (name) => (name === 'request.headers' ? new Map([['user-agent', '(']]) : 'x'),
      },
    ],
  ]);
});

describe('attribute expressions that are refused', () => {
  refusals('CEXL', [
    ['', /^column 1: expected a value, got the end$/],
    ['a = 2', /^column 3: unexpected "="$/],
    ['source.name == ', /^column 16: expected a value/],
    ['source.name source.ip', /^column 13: expected an operator or the end, got "source"$/],
    ['source.nam', /^column 1: unknown attribute "source.nam", did you mean/],
    ['request.size == "a"', /^column 17: expected INT64 as the right operand of ==, got STRING$/],
    ['request.size | true', /^column 16: expected INT64 as the alternative, got BOOL$/],
    ['request.path["a"]', /expected STRING_MAP as what is indexed, got STRING/],
    ['request.headers == request.headers', /values of type STRING_MAP cannot be compared/],
    ['source.ip < source.ip', /values of type IP_ADDRESS have no order/],
    ['request.size / 2', /operator \/ is not defined for INT64 and INT64/],
    ['ip("10.1.12")', /^column 1: expected an IP address, got "10.1.12"$/],
    ['timestamp("2015-02-31T00:00:00Z")', /expected a timestamp/],
    ['dnsName("-a")', /expected a DNS name/],
    ['email("a")', /expected an e-mail address/],
    ['uri(":a")', /expected a URI/],
    ['ip(2)', /^column 1: expected ip\(STRING\), got ip\(INT64\)$/],
    ['startsWith("a", "b")', /expected STRING\.startsWith\(STRING\), got startsWith\(STRING, STRING\)/],
    ['tolower("a")', /unknown function "tolower", did you mean/],
    ['"(".matches("a")', /expected a regular expression/],
    [`"${'a{1000}'.repeat(3)}".matches("a")`, /expected a/],
    ['a().b', /expected a method|unknown function/],
    ["'aaa'", /expected one character in single quotes/],
    ['"a', /expected the end of the string/],
    ['"\\q"', /unknown escape sequence/],
    ['9223372036854775808', /range of INT64/],
    ['0x10', /expected a decimal number/],
    ['@23', /unexpected "@"/],
    ['size == 2 ? 1 : 2', /expected an operator or the end/],
    ['has(source.name)', /unknown function "has"/],
    ['a'.repeat(5000), /at most 4096 characters/],
    [`${'('.repeat(40)}1${')'.repeat(40)}`, /at most 32 levels of nesting/],
    ['!'.repeat(40), /at most 32 levels/],
    [`1${'+1'.repeat(300)}`, /at most 512 operators and operands/],
  ]);
});

describe('CEL', () => {
  table('CEL', [
    ['source.name == "front" ? 1 : 2', 1n],
    ['source.name', '', NONE],
    ['request.size + 1', 1n, NONE],
    ['has(source.name)', false, NONE],
    ['has(request.headers.missing) || has(source.labels.app)', true],
    ['source.labels.app', 'front'],
    ['"app" in source.labels && !("b" in source.labels)', true],
    ['source.name in ["back", "front"]', true],
    ['pick(source.name, "unknown")', 'unknown', NONE],
    ['size', 0n],
    ["r'\\d' + 'b' + '''c\n'''", '\\dbc\n'],
    ['0x10 - -2 * 3 % 4', 18n],
    ['-request.size', -200n],
    ['7 / 2', 3n],
    ['request.ratio * 4.0', 2],
    ['source.labels["none"] == "a" || true', true],
    ['source.labels["none"] == "a" && false', false],
    ['request.path.matches("^/api") && matches(request.path, "v1$")', true],
    ['request.path.contains("api")', true],
    ['"a😀b".size() == 3 && size("a😀b") == 3', true],
    ['"a😀b".charAt(1) + "a😀b".substring(2) + "abc".substring(1, 2)', '😀bb'],
    ['"a😀ba".indexOf("b") + "a😀ba".lastIndexOf("a") + "x".indexOf("y")', 4n],
    ['" aB ".trim().lowerAscii() + "b".upperAscii()', 'abB'],
    ['int("12") + int(1.9) + int(request.time)', 1_700_000_013n],
    ['double("1.5") + double(1)', 2.5],
    ['string(1) + string(1.5) + string(true) + string(duration("90s"))', '11.5true90s'],
    ['string(request.time)', '2023-11-14T22:13:20.123456789Z'],
    ['request.time + duration("1s") - request.time == duration("1s")', true],
    ['request.time.getFullYear() * 100 + request.time.getMonth()', 202_310n],
    ['request.time.getDate() + request.time.getDayOfWeek() + request.time.getMilliseconds()', 139n],
    ['duration("1h30m").getMinutes()', 90n],
    ['conditional(true, "a", "b")', 'a'],
    ['source.ip == ip("10.0.0.1") && request.user == email("ann@example.com")', true],
  ]);
  refusals('CEL', [
    ['source.name | "a"', /unexpected|expected an operator/],
    ['[1, 2]', /a list can only be the right operand of "in"/],
    ['request.size + 1.5', /operator \+ is not defined for INT64 and DOUBLE/],
    ['has(source)', /expected an attribute with a dot/],
    ['conditionalString(true, "a", "b")', /unknown function/],
    ['source.labels.all(x, true)', /unknown function "all"|unknown attribute/],
    ['duration("1 day")', /expected a duration/],
    ['request.path.matches("(")', /expected a regular expression/],
  ]);
  failures('CEL', [
    ['source.labels["none"] == "a"', /the map has no key "none"/],
    ['1 / size', /division by zero/],
    ['9223372036854775807 + request.size', /range of INT64/],
    ['"abc".substring(request.size)', /index 200 is not in the string/],
  ]);
});

describe('COMPAT: the syntax of attribute expressions, the meaning of CEL', () => {
  table('COMPAT', [
    ['source.name | "unknown"', 'unknown', NONE],
    ['source.name == ""', true, NONE],
    ['request.headers["a"] | "-"', '-', NONE],
    ['size | 5', 0n],
    ['request.size / 3', 66n],
    ['response.duration < "20ms"', true],
    ['request.path.matches("^/api")', true],
  ]);
});

describe('what an expression says of itself', () => {
  const compile = (text: string) => compileExpression(text, { language: 'CEXL', vocabulary: VOCABULARY });

  test('the attributes that it can read', () => {
    assert.deepEqual(compile('source.name == "a" || request.headers["b"] == source.name').reads, [
      'request.headers',
      'source.name',
    ]);
  });

  test('a type that is required is checked', () => {
    assert.throws(() => compileExpression('1', { language: 'CEXL', vocabulary: VOCABULARY, type: 'BOOL' }), {
      message: 'column 1: expected an expression of type BOOL, got INT64',
    });
  });

  test('syntax is checked without a vocabulary', () => {
    checkSyntax('unknown.attribute == 2', 'CEXL');
    assert.throws(() => checkSyntax('a == ', 'CEXL'), { message: /column 6/ });
  });
});

describe('limits of an evaluation', () => {
  const long: Attributes = { get: () => 'a'.repeat(60_000) };

  test('a computed string', () => {
    assert.throws(() => evaluate('CEXL', 'source.name + source.name', long), /more than 65536 characters/);
  });

  test('the work of regular expressions', () => {
    assert.throws(() => evaluate('CEXL', '"(a|b)*c".matches(source.name)', long), /too long for this expression/);
  });

  test('the work of all functions together', () => {
    const text = Array.from({ length: 5 }, () => 'toLower(source.name) == "b"').join(' || ');
    assert.throws(() => evaluate('CEXL', text, long), /too long for this expression/);
  });

  test('an operand without a value inside of many others is read once', () => {
    for (const [operator, name] of [
      ['&&', 'front'],
      ['||', 'back'],
    ]) {
      let text = 'source.labels["absent"] == "a"';
      for (let depth = 0; depth < 30; depth++) text = `source.name == "${name}" ${operator} (${text})`;
      let reads = 0;
      const counting: Attributes = {
        get(attribute) {
          reads++;
          return SOME.get(attribute);
        },
      };
      assert.throws(() => evaluate('CEL', text, counting), /the map has no key "absent"/);
      assert.equal(reads, 31);
    }
  });
});
