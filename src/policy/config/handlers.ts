/** Handlers of the adapters inside. */
import { adapterParams, fieldPath } from '../../resources/index.ts';
import type { Handler } from '../types.ts';
import type { Compilation, TypedDocument } from './compilation.ts';
import { fingerprint } from './fingerprint.ts';
import {
  denierParams,
  listParams,
  memoryQuotaParams,
  prometheusParams,
  redisQuotaParams,
  stdioParams,
} from './params.ts';
import { idOf } from './references.ts';

type Adapter = NonNullable<TypedDocument<'handler'>['spec']['compiledAdapter']>;

/** A handler and the templates whose instances it accepts. */
export interface CompiledHandler {
  readonly handler: Handler;
  readonly templates: ReadonlySet<string>;
}

const SUPPORTED: Readonly<Record<Adapter, ReadonlySet<string>>> = {
  denier: new Set(['checknothing', 'listentry', 'quota']),
  listchecker: new Set(['listentry']),
  memquota: new Set(['quota']),
  prometheus: new Set(['metric']),
  redisquota: new Set(['quota']),
  stdio: new Set(['logentry', 'metric']),
};

/** Undefined, with problems, if the parameters are wrong. */
export function compileHandler(
  compilation: Compilation,
  document: TypedDocument<'handler'>,
): CompiledHandler | undefined {
  const { spec, namespace } = document;
  const adapter = spec.compiledAdapter;
  if (adapter === undefined) return undefined;
  const read = adapterParams(adapter, spec.params);
  if ('errors' in read) {
    for (const { path, message } of read.errors) {
      compilation.problems.add(document, fieldPath(['spec', 'params', ...path]), message);
    }
    return undefined;
  }
  const typed = typedParams(adapter, read.params as never, namespace);
  const base = { id: idOf(document), namespace, fingerprint: fingerprint(typed) };
  return { handler: { ...base, ...typed } as Handler, templates: SUPPORTED[adapter] };
}

type Typed = Pick<Handler, 'adapter' | 'params'>;
type Read<A extends Adapter> = Extract<ReturnType<typeof adapterParams<A>>, { params: unknown }>['params'];

const TYPED: { readonly [A in Adapter]: (params: Read<A>, namespace: string) => Handler['params'] } = {
  denier: denierParams,
  listchecker: listParams,
  memquota: memoryQuotaParams,
  prometheus: prometheusParams,
  redisquota: redisQuotaParams,
  stdio: stdioParams,
};

function typedParams<A extends Adapter>(adapter: A, params: Read<A>, namespace: string): Typed {
  return { adapter, params: TYPED[adapter](params, namespace) };
}
