import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { LOG_LEVELS, LOG_SCOPES, type ProgramName } from './scopes.ts';
import { loggingScopes, parseScopeLevels, parseScopeList } from './spec.ts';

const PROGRAMS: readonly ProgramName[] = ['ctl-agent', 'ctl-discovery'];

describe('scope levels', () => {
  test('every scope of each program is accepted with every level', () => {
    for (const program of PROGRAMS) {
      for (const level of LOG_LEVELS) {
        for (const scope of LOG_SCOPES[program]) {
          const levels = parseScopeLevels(`${scope}:${level}`, program);
          assert.deepEqual(new Set(levels.values()), new Set([level]));
          assert.equal(levels.size, scope === 'all' ? loggingScopes(program).length : 1);
        }
      }
    }
  });

  test('a level alone is that of the default scope', () => {
    assert.deepEqual([...parseScopeLevels('debug', 'ctl-discovery')], [['default', 'debug']]);
  });

  test('a later pair overrides an earlier one', () => {
    const levels = parseScopeLevels('all:warn, ads:debug', 'ctl-discovery');
    assert.equal(levels.get('ads'), 'debug');
    assert.equal(levels.get('model'), 'warn');
    assert.equal(parseScopeLevels('ads:debug,all:warn', 'ctl-discovery').get('ads'), 'warn');
  });

  test('an empty text has no pairs', () => assert.equal(parseScopeLevels(' , ', 'ctl-agent').size, 0));

  for (const [text, message] of [
    ['nosuchscope:info', /unknown log scope "nosuchscope"/],
    ['default:nosuchlevel', /unknown log level "nosuchlevel"/],
    ['default:info,nosuchscope:debug', /unknown log scope "nosuchscope"/],
    ['ads:', /unknown log level ""/],
    [':info', /unknown log scope ""/],
    ['ads', /unknown log level "ads"/],
    ['ads:debug:info', /unknown log level "debug:info"/],
    ['ads:DEBUG', /unknown log level "DEBUG"/],
  ] as const) {
    test(`${text} is refused with an error that names it`, () =>
      assert.throws(() => parseScopeLevels(text, 'ctl-discovery'), message));
  }

  test('a scope of the other program is refused', () => {
    assert.throws(() => parseScopeLevels('sds:info', 'ctl-discovery'), /unknown log scope "sds"/);
    assert.throws(() => parseScopeLevels('pkica:info', 'ctl-agent'), /unknown log scope "pkica"/);
  });
});

test('a list of scopes has names or all', () => {
  assert.deepEqual([...parseScopeList('ads,model', 'ctl-agent')], ['ads', 'model']);
  assert.equal(parseScopeList('all', 'ctl-agent').size, loggingScopes('ctl-agent').length);
  assert.throws(() => parseScopeList('ads,nosuchscope', 'ctl-agent'), /unknown log scope "nosuchscope"/);
});
