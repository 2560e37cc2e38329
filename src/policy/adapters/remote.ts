/** Adapters outside: gRPC servers that `adapter` and `template` documents describe. */
import { CtlError } from '../../core/errors.ts';
import { FairLimiter } from '../../core/fairness/fair-limiter.ts';
import type { DynamicTemplate, Handler, Status } from '../types.ts';
import { RemoteChannel } from './remote-channel.ts';
import { ResultCache } from './result-cache.ts';
import {
  type AdapterHost,
  type Built,
  type CallContext,
  type CheckResult,
  CODE,
  type RunningHandler,
} from './types.ts';

/** Without a timeout of the handler, and the longest one, ms: Envoy waits for the decision. */
const DEFAULT_TIMEOUT_MS = 1_000;
const MAX_TIMEOUT_MS = 5_000;
/** Calls in progress, of which no caller gets all. */
const MAX_CALLS = 2_000;
/** How often results whose time is over are dropped, ms. */
const SWEEP_MS = 10_000;
/** Of the message of a status: the body of a denied request has no more. */
const MAX_MESSAGE_CHARACTERS = 1_000;

type RemoteHandler = Extract<Handler, { readonly adapter: 'remote' }>;

/**
 * Throws CtlError `permission_denied` for a handler outside of the configuration namespace that names files: the
 * program would send its own tokens, or prove its own identity, to an address that a tenant has chosen.
 */
export function openRemote(
  handler: RemoteHandler,
  host: AdapterHost,
  { configNamespace, results }: { readonly configNamespace: string; readonly results: FairLimiter },
): RunningHandler {
  const { connection, params, id } = handler;
  if (handler.namespace !== configNamespace && namesFiles(connection.authentication))
    throw new CtlError('permission_denied', `only handlers of ${configNamespace} may name files of this program`);
  const channel = new RemoteChannel(connection, host);
  const cache = new ResultCache(results);
  const stopSweep = host.every(SWEEP_MS, () => cache.sweep(host.monotonic()));
  const limiter = new FairLimiter(MAX_CALLS);
  const timeoutMs = Math.min(MAX_TIMEOUT_MS, Math.max(1, connection.timeoutMs ?? DEFAULT_TIMEOUT_MS));
  const call = async (
    template: DynamicTemplate,
    instances: readonly Uint8Array[],
    context: CallContext,
    quota?: { readonly name: string; readonly amount: bigint; readonly bestEffort: boolean },
  ): Promise<Buffer> => {
    const leave = limiter.enter(context.caller);
    if (leave === undefined)
      throw new CtlError('resource_exhausted', `too many calls of handler ${id} are in progress`);
    try {
      const request = { instances, params, deduplicationId: context.id, ...(quota !== undefined && { quota }) };
      return await channel.call(template.method, template.encodeRequest(request), timeoutMs);
    } finally {
      leave();
    }
  };
  return {
    daemons: 0,
    get workers() {
      return limiter.size;
    },
    check(built, context) {
      const { template, message } = dynamic(built);
      // With equal bytes, the instance may get another template, or its template another method or output.
      const key = `${built.instance.id} ${template.fingerprint} ${Buffer.from(message).toString('latin1')}`;
      const known = cache.use(context.caller, key, host.monotonic());
      if (known !== undefined) return known;
      return call(template, [message], context).then((response): CheckResult => {
        const decoded = template.decodeCheck(response);
        const result = { ...decoded, status: shortened(decoded.status) };
        cache.keep(context.caller, key, result, { now: host.monotonic(), bytes: response.length });
        return result;
      });
    },
    async quota(built, context) {
      const { template, message } = dynamic(built);
      const name = built.instance.id;
      const response = await call(template, [message], context, { name, amount: 1n, bestEffort: false });
      const granted = template.decodeQuota(response).get(name);
      if (granted === undefined) throw new CtlError('unavailable', `the adapter returned no quota ${name}`);
      if (granted.status.code !== 0 || granted.grantedAmount >= 1) return { status: shortened(granted.status) };
      return { status: { code: CODE.RESOURCE_EXHAUSTED, message: `quota ${name} is exhausted` } };
    },
    async report(entries, context) {
      const [first] = entries;
      if (first === undefined) return;
      const { template } = dynamic(first);
      await call(
        template,
        entries.map((built) => dynamic(built).message),
        context,
      );
    },
    close() {
      stopSweep();
      cache.clear();
      return channel.close();
    },
  };
}

function shortened({ code, message }: Status): Status {
  return { code, message: message.slice(0, MAX_MESSAGE_CHARACTERS) };
}

function dynamic({ instance, value }: Built): { readonly template: DynamicTemplate; readonly message: Uint8Array } {
  if (value.template !== 'dynamic' || instance.dynamic === undefined)
    throw new CtlError('internal', `instance ${instance.id} has no template document`);
  return { template: instance.dynamic, message: value.message };
}

function namesFiles(authentication: RemoteHandler['connection']['authentication']): boolean {
  if (authentication === undefined) return false;
  if (authentication.type === 'mutual' || authentication.caCertificates !== undefined) return true;
  return authentication.token !== undefined;
}
