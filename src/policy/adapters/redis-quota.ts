/**
 * redisquota: counts uses in Redis, for many replicas of the control plane together. A script decides and counts in one
 * step, with the time of Redis, so that neither concurrent calls nor clocks of replicas matter.
 */
import { CtlError } from '../../core/errors.ts';
import type { RedisQuota, RedisQuotaParams } from '../types.ts';
import { type Limit, limitFor } from './quota-keys.ts';
import { RedisClient } from './redis-client.ts';
import { type AdapterHost, CODE, OK, type RunningHandler } from './types.ts';

/** Before each key, so that the keys are recognised in a database that others use as well. */
const PREFIX = 'mesh-quota:';

/** Buckets of one rolling window: each is a field of a hash that the script reads. */
const MAX_BUCKETS = 1_000;

/** KEYS: the counter. ARGV: maximum, milliseconds of the window; 0 is for ever. Returns 1 where a unit was taken. */
const FIXED = `
local used = tonumber(redis.call('GET', KEYS[1]) or '0')
if used + 1 > tonumber(ARGV[1]) then return 0 end
redis.call('INCR', KEYS[1])
if used == 0 and tonumber(ARGV[2]) > 0 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 1`;

/** KEYS: a hash, bucket → uses. ARGV: maximum, milliseconds of the window, milliseconds of a bucket. */
const ROLLING = `
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local bucket = math.floor(now / tonumber(ARGV[3]))
local first = math.floor((now - tonumber(ARGV[2])) / tonumber(ARGV[3])) + 1
local used = 0
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  if tonumber(all[i]) < first then redis.call('HDEL', KEYS[1], all[i]) else used = used + tonumber(all[i + 1]) end
end
if used + 1 > tonumber(ARGV[1]) then return 0 end
redis.call('HINCRBY', KEYS[1], tostring(bucket), 1)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1`;

/** Throws CtlError `invalid_argument` for an address or windows that are not usable. */
export function openRedisQuota(id: string, params: RedisQuotaParams, host: AdapterHost): RunningHandler {
  for (const quota of params.quotas) checkBuckets(quota);
  const { redisServerUrl: address, connectionPoolSize: connections } = params;
  const client = new RedisClient({ address, connections, host });
  return {
    daemons: 0,
    get workers() {
      return client.pending;
    },
    async quota(built) {
      const limit = limitFor(params.quotas, built);
      if ((await client.command(...scriptFor(id, limit))) === 1) return { status: OK };
      return { status: { code: CODE.RESOURCE_EXHAUSTED, message: `quota ${limit.quota.name} is exhausted` } };
    },
    close: () => client.close(),
  };
}

/** The handler is part of the key: others, of any namespace, may limit the same instance in the same database. */
function scriptFor(handler: string, { quota, maxAmount, validDurationMs, key }: Limit<RedisQuota>): string[] {
  const [max, window] = [String(maxAmount), String(Math.ceil(validDurationMs))];
  const counter = `${handler}:${key}`;
  if (quota.rateLimitAlgorithm === 'FIXED_WINDOW')
    return ['EVAL', FIXED, '1', `${PREFIX}fixed:${counter}`, max, window];
  const bucket = String(Math.ceil(quota.bucketDurationMs));
  return ['EVAL', ROLLING, '1', `${PREFIX}rolling:${counter}`, max, window, bucket];
}

function checkBuckets({ name, rateLimitAlgorithm, bucketDurationMs, validDurationMs, overrides }: RedisQuota): void {
  if (rateLimitAlgorithm === 'FIXED_WINDOW') return;
  const longest = Math.max(validDurationMs, ...overrides.map((each) => each.validDurationMs));
  if (bucketDurationMs > 0 && longest / bucketDurationMs <= MAX_BUCKETS) return;
  const message = `quota ${name}: a window has more than ${MAX_BUCKETS} buckets of bucketDuration`;
  throw new CtlError('invalid_argument', message);
}
