/** Answers `/inject`: the Pods that are created get their sidecar by a patch. */
import { CtlError, oneLineOf } from '../../core/errors.ts';
import { isObject } from '../../core/objects.ts';
import type {
  AdmissionAnswer,
  AdmissionRequest,
  InjectionParameters,
  Injector,
  JsonPatchOperation,
  ProxyConfigDocuments,
} from '../types.ts';

export interface Injecting {
  readonly injector: Injector;
  readonly proxyConfigs: ProxyConfigDocuments | undefined;
  readonly diff: (from: unknown, to: unknown) => readonly JsonPatchOperation[];
}

function skipped(reason: string): AdmissionAnswer {
  return { allowed: true, outcome: 'skipped', reason };
}

/** A refusal for a mistake of the Pod's author; for an internal error, the caller gets one line without details. */
function refused(error: unknown): AdmissionAnswer {
  const message = oneLineOf(error);
  const wrong = error instanceof CtlError && error.code !== 'internal';
  const refusal = wrong
    ? { code: 400, reason: 'BadRequest', message: `sidecar injection: ${message}` }
    : { code: 500, reason: 'InternalError', message: `sidecar injection failed: ${message}` };
  return { allowed: false, refusal, outcome: 'injection-failed' };
}

export function answerInjection(
  { kind, operation, subResource, namespace, object }: AdmissionRequest,
  parameters: InjectionParameters,
  { injector, proxyConfigs, diff }: Injecting,
): AdmissionAnswer {
  if (kind.group !== '' || kind.kind !== 'Pod') return skipped('only Pods are injected');
  if (operation !== 'CREATE' || subResource !== '') return skipped('sidecars are injected only when a Pod is created');
  if (!isObject(object))
    return refused(new CtlError('invalid_argument', 'expected an object', { field: 'request.object' }));
  try {
    const pod = { ...object };
    const injected = injector.inject(pod, namespace, parameters, proxyConfigs);
    if (injected.kind === 'skipped') return skipped(injected.reason);
    const { pod: changed, warnings } = injected;
    return { allowed: true, patch: diff(object, changed), warnings, outcome: 'injected' };
  } catch (error) {
    return refused(error);
  }
}
