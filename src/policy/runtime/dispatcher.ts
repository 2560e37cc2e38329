/**
 * Decides about one request, and hands one record to handlers. All checks of the rules that match have to agree, then
 * all quotas have to grant a unit. What cannot be evaluated or asked denies the request.
 */
import { CtlError, oneLineOf } from '../../core/errors.ts';
import { type Attributes, isOfRequests, type Value } from '../../expressions/index.ts';
import { type Built, type CallContext, type CheckResult, CODE, OK, type QuotaResult } from '../adapters/types.ts';
import type { Action, Handler, HeaderOperation, Instance, Rule, Status } from '../types.ts';
import type { HandlerSet } from './handler-table.ts';
import type { RuntimeMeter } from './stats.ts';

/** A change of a header with its values. */
export interface HeaderChange {
  readonly name: string;
  readonly operation: HeaderOperation['operation'];
  readonly values: readonly string[];
}

export interface Decision {
  /** Code 0 allows. */
  readonly status: Status;
  /** The handler that denies. */
  readonly handler?: string;
  readonly requestHeaders: readonly HeaderChange[];
  readonly responseHeaders: readonly HeaderChange[];
}

/** Why something could not be decided, for the log. The client learns only that it could not. */
export type ProblemLog = (kind: 'expression' | 'adapter', about: string, reason: string) => void;

export interface DispatchInputs {
  readonly handlers: Pick<HandlerSet, 'get' | 'failureOf'>;
  readonly meter: Pick<RuntimeMeter, 'request' | 'dispatched'>;
  readonly problem: ProblemLog;
  /** Monotonic ms. */
  readonly monotonic: () => number;
}

/** An instance for a handler, of a rule that matches. */
interface Destination {
  readonly action: Action;
  readonly built: Built;
}

const HEADER_VALUE = /^[\t\x20-\x7e\x80-\uffff]*$/;
const MAX_HEADER_CHARACTERS = 8_192;

const UNDECIDED: Status = { code: CODE.UNAVAILABLE, message: 'the policy cannot be evaluated' };

function denied(status: Status, handler?: string): Decision {
  return { status, ...(handler !== undefined && { handler }), requestHeaders: [], responseHeaders: [] };
}

/** Thrown when a rule cannot be evaluated; logged already. */
const UNEVALUABLE = Symbol('unevaluable');

/** What a decision is about. Connections have no headers, and no attributes of requests. */
export type Subject = 'request' | 'connection';

export function decide(
  { rules, subject }: { readonly rules: readonly Rule[]; readonly subject: Subject },
  attributes: Attributes,
  call: CallContext,
  inputs: DispatchInputs,
): Decision | Promise<Decision> {
  let matching: readonly Rule[];
  let destinations: readonly Destination[];
  try {
    const decides = subject === 'request' ? decidesSomething : decidesAboutConnections;
    matching = rules.filter((rule) => decides(rule) && matches(rule, attributes, inputs));
    for (const { id, broken } of matching) {
      if (broken === undefined) continue;
      inputs.problem('expression', `rule ${id}`, `it refuses requests: ${broken}`);
      throw UNEVALUABLE;
    }
    destinations = matching.flatMap((rule) => destinationsOf(rule, subject, attributes, inputs));
  } catch (error) {
    if (error !== UNEVALUABLE) throw error;
    inputs.meter.request(0, 0);
    return denied(UNDECIDED);
  }
  inputs.meter.request(new Set(destinations.map(({ action }) => action.handler.id)).size, destinations.length);
  const checks = destinations.filter(({ built }) => built.instance.variety !== 'QUOTA');
  const quotas = destinations.filter(({ built }) => built.instance.variety === 'QUOTA');
  const results = checks.map((destination) => dispatch(destination, call, inputs, 'check'));
  const then = (settled: readonly CheckResult[]): Decision | Promise<Decision> => {
    const refusal = settled.findIndex(({ status }) => status.code !== 0);
    if (refusal >= 0) return denied(settled[refusal]?.status ?? UNDECIDED, checks[refusal]?.action.handler.id);
    const operating = subject === 'request' ? matching : [];
    const headers = () => withHeaders(operating, checks, settled, attributes, inputs);
    return quotas.length === 0 ? headers() : takeQuotas(quotas, call, inputs).then((no) => no ?? headers());
  };
  const isSync = (all: readonly unknown[]): all is readonly CheckResult[] => !all.some((it) => it instanceof Promise);
  return isSync(results) ? then(results) : Promise.all(results).then(then);
}

/** Rules that only record need not be evaluated for a decision. */
function decidesSomething({ broken, actions, requestHeaders, responseHeaders }: Rule): boolean {
  return (
    broken !== undefined ||
    requestHeaders.length + responseHeaders.length > 0 ||
    actions.some(({ instances }) => instances.some(({ variety }) => variety !== 'REPORT'))
  );
}

function decidesAboutConnections({ broken, matchesConnections, actions }: Rule): boolean {
  const isAsked = broken !== undefined || actions.some(({ instances }) => instances.some(isOfConnections));
  return matchesConnections && isAsked;
}

/** Whether an instance decides, and can be made of a connection. */
function isOfConnections({ variety, reads }: Instance): boolean {
  return variety !== 'REPORT' && !reads.some(isOfRequests);
}

function matches({ id, match }: Rule, attributes: Attributes, { problem }: DispatchInputs): boolean {
  if (match === undefined) return true;
  try {
    return match.evaluate(attributes) === true;
  } catch (error) {
    problem('expression', `match of rule ${id}`, oneLineOf(error));
    throw UNEVALUABLE;
  }
}

function destinationsOf(rule: Rule, subject: Subject, attributes: Attributes, inputs: DispatchInputs): Destination[] {
  const isDispatched = subject === 'request' ? ({ variety }: Instance) => variety !== 'REPORT' : isOfConnections;
  return rule.actions.flatMap((action) =>
    action.instances.filter(isDispatched).map((instance) => ({ action, built: build(instance, attributes, inputs) })),
  );
}

function build(instance: Instance, attributes: Attributes, { problem }: DispatchInputs): Built {
  try {
    return { instance, value: instance.build(attributes) };
  } catch (error) {
    problem('expression', `instance ${instance.id}`, oneLineOf(error));
    throw UNEVALUABLE;
  }
}

type Call = 'check' | 'quota';
type ResultOf<C extends Call> = C extends 'check' ? CheckResult : QuotaResult;

/** Calls a handler; a handler that fails denies. */
function dispatch<C extends Call>(
  { action, built }: Destination,
  call: CallContext,
  { handlers, meter, problem, monotonic }: DispatchInputs,
  kind: C,
): ResultOf<C> | Promise<ResultOf<C>> {
  const { id, adapter } = action.handler;
  const started = monotonic();
  const measured = (failed: boolean): void =>
    meter.dispatched({ adapter, failed, seconds: (monotonic() - started) / 1000 });
  const succeeded = <R>(result: R): R => {
    measured(false);
    return result;
  };
  const failed = (error: unknown): ResultOf<C> => {
    measured(true);
    problem('adapter', `handler ${id}`, oneLineOf(error));
    return { status: UNDECIDED, validDurationMs: 0, validUseCount: 0 } as CheckResult as ResultOf<C>;
  };
  try {
    const running = handlers.get(id);
    if (running === undefined) throw new CtlError('unavailable', handlers.failureOf(id) ?? 'it does not run');
    const method = running[kind]?.bind(running) as
      | ((built: Built, call: CallContext) => ResultOf<C> | Promise<ResultOf<C>>)
      | undefined;
    if (method === undefined) throw new CtlError('unimplemented', `it does not take ${built.instance.id}`);
    const result = method(built, call);
    return result instanceof Promise ? result.then(succeeded, failed) : succeeded(result);
  } catch (error) {
    return failed(error);
  }
}

/** The first refusal; undefined when every quota grants. Later ones are not taken after a refusal. */
async function takeQuotas(
  quotas: readonly Destination[],
  call: CallContext,
  inputs: DispatchInputs,
): Promise<Decision | undefined> {
  for (const destination of quotas) {
    const { status } = await dispatch(destination, call, inputs, 'quota');
    if (status.code !== 0) return denied(status, destination.action.handler.id);
  }
  return undefined;
}

/** An allowed request with the header operations of the rules that match. */
function withHeaders(
  rules: readonly Rule[],
  checks: readonly Destination[],
  results: readonly CheckResult[],
  attributes: Attributes,
  { problem }: DispatchInputs,
): Decision {
  const changes: { request: HeaderChange[]; response: HeaderChange[] } = { request: [], response: [] };
  for (const rule of rules) {
    if (rule.requestHeaders.length + rule.responseHeaders.length === 0) continue;
    const scope = withOutputs(rule, checks, results, attributes);
    try {
      changes.request.push(...rule.requestHeaders.map((operation) => changeOf(operation, scope)));
      changes.response.push(...rule.responseHeaders.map((operation) => changeOf(operation, scope)));
    } catch (error) {
      problem('expression', `header operations of rule ${rule.id}`, oneLineOf(error));
      return denied(UNDECIDED);
    }
  }
  return { status: OK, requestHeaders: changes.request, responseHeaders: changes.response };
}

function changeOf({ name, operation, values }: HeaderOperation, scope: Attributes): HeaderChange {
  return { name, operation, values: values.map((value) => headerValue(name, String(value.evaluate(scope)))) };
}

/** The octets of RFC 9110 section 5.5: anything else could begin another header. Throws CtlError. */
function headerValue(name: string, value: string): string {
  if (value.length > MAX_HEADER_CHARACTERS) {
    const length = `${value.length} characters, at most ${MAX_HEADER_CHARACTERS} may be set`;
    const message = `the value of header ${name} has ${length}`;
    throw new CtlError('invalid_argument', message);
  }
  if (HEADER_VALUE.test(value)) return value;
  throw new CtlError('invalid_argument', `the value of header ${name} has characters that no header may have`);
}

/** Attributes, and `action.output.field` of the rule's own actions. */
function withOutputs(
  { actions }: Rule,
  checks: readonly Destination[],
  results: readonly CheckResult[],
  attributes: Attributes,
): Attributes {
  const outputs = new Map<string, Value>();
  for (const [at, { action }] of checks.entries()) {
    if (action.name === undefined || !actions.includes(action)) continue;
    for (const [field, value] of results[at]?.output ?? []) outputs.set(`${action.name}.output.${field}`, value);
  }
  return { get: (name) => outputs.get(name) ?? attributes.get(name) };
}

/** The values of records for one handler and template, which are handed over together. */
export interface ReportBatch {
  readonly handler: Handler;
  readonly built: Built[];
}

/** Adds what the rules that match record of one request or connection. What cannot be evaluated is left out. */
export function collectReports(
  rules: readonly Rule[],
  attributes: Attributes,
  batches: Map<string, ReportBatch>,
  inputs: DispatchInputs,
): void {
  let [destinations, instances] = [new Set<string>(), 0];
  for (const rule of rules) {
    try {
      const recording = rule.actions.filter(({ instances: all }) => all.some(({ variety }) => variety === 'REPORT'));
      if (recording.length === 0 || !matches(rule, attributes, inputs)) continue;
      for (const { handler, instances: all } of recording) {
        for (const instance of all) {
          if (instance.variety !== 'REPORT') continue;
          const built = build(instance, attributes, inputs);
          const key = `${handler.id} ${instance.dynamic?.id ?? ''}`;
          const batch = batches.get(key) ?? { handler, built: [] };
          batches.set(key, batch);
          batch.built.push(built);
          destinations = destinations.add(handler.id);
          instances++;
        }
      }
    } catch (error) {
      if (error !== UNEVALUABLE) throw error;
    }
  }
  inputs.meter.request(destinations.size, instances);
}

/** Hands batches to their handlers; resolves when all have them. */
export async function report(batches: Iterable<ReportBatch>, call: CallContext, inputs: DispatchInputs): Promise<void> {
  const { handlers, meter, problem, monotonic } = inputs;
  const each = async ({ handler, built }: ReportBatch): Promise<void> => {
    const started = monotonic();
    let failed = false;
    try {
      const running = handlers.get(handler.id);
      if (running?.report === undefined)
        throw new CtlError('unavailable', handlers.failureOf(handler.id) ?? 'it takes no records');
      await running.report(built, call);
    } catch (error) {
      failed = true;
      problem('adapter', `handler ${handler.id}`, oneLineOf(error));
    }
    meter.dispatched({ adapter: handler.adapter, failed, seconds: (monotonic() - started) / 1000 });
  };
  await Promise.all([...batches].map(each));
}
