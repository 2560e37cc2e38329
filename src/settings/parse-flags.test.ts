import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { CtlError } from '../core/errors.ts';
import * as fc from '../core/testing/properties.ts';
import type { FlagTable } from './flag-table.ts';
import { findSubcommand, parseFlags } from './parse-flags.ts';

const TABLE = {
  name: { type: 'string', short: 'n', default: 'x', meaning: '' },
  output: { type: 'string', default: '', values: ['yaml', 'json'], meaning: '' },
  quiet: { type: 'bool', short: 'q', default: false, meaning: '' },
  short: { type: 'bool', short: 's', default: true, meaning: '' },
  count: { type: 'int', default: 1, min: 0, meaning: '' },
  port: { type: 'uint16', default: 80, meaning: '' },
  wait: { type: 'duration', default: '1s', min: 0, meaning: '' },
  items: { type: 'stringSlice', default: ['a'], values: ['a', 'b', 'c'], meaning: '' },
  target: { type: 'stringArray', default: ['stdout'], meaning: '' },
} as const satisfies FlagTable;

const ACCEPTED: readonly (readonly [string, readonly string[], Record<string, unknown>, readonly string[]])[] = [
  ['a value after a space', ['--name', 'v'], { name: 'v' }, []],
  ['a value after an equals sign', ['--name=v=w'], { name: 'v=w' }, []],
  ['an empty value', ['--name='], { name: '' }, []],
  ['a value that looks like a flag', ['--name', '--quiet'], { name: '--quiet' }, []],
  ['a bool alone', ['--quiet'], { quiet: true }, []],
  ['a bool turned off', ['--short=false'], { short: false }, []],
  ['a bool does not take the next argument', ['--quiet', 'false'], { quiet: true }, ['false']],
  ['a short form with a space', ['-n', 'v'], { name: 'v' }, []],
  ['a short form with its value attached', ['-nv'], { name: 'v' }, []],
  ['a short form with an equals sign', ['-n=v'], { name: 'v' }, []],
  ['bool letters together, then one with a value', ['-qsnv'], { quiet: true, short: true, name: 'v' }, []],
  ['a bool letter turned off', ['-s=false'], { short: false }, []],
  ['the last of several', ['--count', '1', '--count', '2'], { count: 2 }, []],
  ['a signed number', ['--count', '+7'], { count: 7 }, []],
  ['a duration as milliseconds', ['--wait', '1m30s'], { wait: 90_000 }, []],
  ['a slice of items, growing', ['--items', 'a, b', '--items=c'], { items: ['a', 'b', 'c'] }, []],
  ['an array, commas kept', ['--target', 'a,b', '--target', 'c'], { target: ['a,b', 'c'] }, []],
  ['the default value although it is not listed', ['--output='], { output: '' }, []],
  ['arguments between flags', ['GET', '--quiet', '/x'], { quiet: true }, ['GET', '/x']],
  ['everything after two dashes as arguments', ['--', '--quiet', '-x'], {}, ['--quiet', '-x']],
  ['a lone dash as an argument', ['-'], {}, ['-']],
];

describe('accepts', () => {
  for (const [what, args, given, positionals] of ACCEPTED) {
    test(what, () => {
      const parsed = parseFlags(args, TABLE);
      assert.deepEqual(Object.fromEntries(parsed.given), given);
      assert.deepEqual(parsed.positionals, positionals);
      assert.equal(parsed.help, false);
    });
  }
});

const REFUSED: readonly (readonly [string, readonly string[], RegExp])[] = [
  ['an unknown flag', ['--nosuch'], /unknown flag --nosuch$/],
  ['an unknown flag with a value', ['--nosuch=1'], /unknown flag --nosuch$/],
  ['an unknown letter', ['-Z'], /unknown flag -Z$/],
  ['an unknown letter among others', ['-qZ'], /unknown flag -Z$/],
  ['names that every object has', ['--constructor', 'x'], /unknown flag --constructor$/],
  ['the start of a name', ['--nam', 'v'], /unknown flag --nam, did you mean --name\?$/],
  ['a name in another case', ['--NAME', 'v'], /unknown flag --NAME, did you mean --name\?$/],
  ['a flag without its value', ['--name'], /flag --name needs a value/],
  ['a letter without its value', ['-n'], /flag -n needs a value/],
  ['a bool that is neither', ['--quiet=maybe'], /"maybe" for flag --quiet/],
  ['a fraction', ['--count', '1.5'], /"1.5" for flag --count: not a whole number/],
  ['a number below the least', ['--count=-1'], /"-1" for flag --count: less than 0/],
  ['a port above 65535', ['--port', '70000'], /"70000" for flag --port: more than 65535/],
  ['a negative port', ['--port=-1'], /"-1" for flag --port: less than 0/],
  ['NaN for a duration', ['--wait', 'NaN'], /"NaN" for flag --wait: not a duration/],
  ['a negative duration where it has no sense', ['--wait=-1s'], /less than 0s$/],
  ['a value not listed', ['--output', 'xml'], /"xml" is not one of yaml, json/],
  ['an item not listed', ['--items', 'a,z'], /"z" is not one of a, b, c/],
];

describe('refuses with one line that names the argument', () => {
  for (const [what, args, message] of REFUSED) {
    test(what, () => {
      assert.throws(
        () => parseFlags(args, TABLE),
        (error: unknown) => error instanceof CtlError && message.test(error.oneLine()),
      );
    });
  }
});

test('arguments after --help are not parsed', () => {
  assert.equal(parseFlags(['--quiet', '--help', '--nosuch'], TABLE).help, true);
  assert.equal(parseFlags(['-qh'], TABLE).help, true);
});

test('the subcommand is the first argument that is neither a flag nor the value of one', () => {
  assert.equal(findSubcommand(['run', '--name', 'x'], TABLE), 0);
  assert.equal(findSubcommand(['--name', 'x', 'run'], TABLE), 2);
  assert.equal(findSubcommand(['--name=x', '-q', '-nv', 'run'], TABLE), 3);
  assert.equal(findSubcommand(['-n', 'x'], TABLE), -1);
  assert.equal(findSubcommand(['--', 'run'], TABLE), -1);
});

test('any arguments give flags or an error of one line', () => {
  const argument = fc.oneof(fc.string(), fc.constantFrom('--name', '-n', '-q', '--', '--wait=1s', '--items=a', '-s=0'));
  fc.assert(
    fc.property(fc.array(argument), (args) => {
      try {
        parseFlags(args, TABLE);
      } catch (error) {
        assert.ok(error instanceof CtlError && !/[\r\n]/.test(error.oneLine()), String(error));
      }
    }),
  );
});
