/** Adapters outside: `adapter` documents, handlers that use them, instances of `template` documents. */
import { CtlError } from '../../../core/errors.ts';
import {
  type CompileOptions,
  compileExpression,
  type Expression,
  type Vocabulary,
} from '../../../expressions/index.ts';
import { fieldPath } from '../../../resources/index.ts';
import type { Connection, Handler, Instance, RemoteParams, Variety } from '../../types.ts';
import type { Compilation, TypedDocument } from '../compilation.ts';
import { fingerprint } from '../fingerprint.ts';
import type { CompiledHandler } from '../handlers.ts';
import type { CompiledInstance } from '../instances.ts';
import { idOf, instanceId } from '../references.ts';
import { type Descriptors, readDescriptors } from './descriptors.ts';
import { compileMessage, ParamsError } from './encoder.ts';
import { stringField } from './messages.ts';
import { type CompiledTemplate, compileTemplate } from './template.ts';

const TEMPLATE_KINDS: ReadonlySet<string> = new Set(['template']);
const ADAPTER_KINDS: ReadonlySet<string> = new Set(['adapter']);
/** Field `name` of messages of instances, as Istio's generator of templates numbers it. */
const INSTANCE_NAME = 72_295_727;

export interface CompiledAdapter {
  readonly id: string;
  /** IDs of its templates. */
  readonly templates: ReadonlySet<string>;
  /** Of its parameters; undefined: it has none. */
  readonly params: { readonly descriptors: Descriptors; readonly message: string } | undefined;
}

type Documents<K extends 'adapter' | 'template'> = ReadonlyMap<
  string,
  K extends 'adapter' ? CompiledAdapter : CompiledTemplate
>;

/** Runs a step of compilation; undefined, with a problem of the document, if it throws. */
function attempt<T>(
  compilation: Compilation,
  document: TypedDocument<'adapter' | 'handler' | 'instance' | 'template'>,
  field: string,
  step: () => T,
): T | undefined {
  try {
    return step();
  } catch (error) {
    if (!(error instanceof CtlError)) throw error;
    const path = error instanceof ParamsError ? fieldPath([...field.split('.'), ...error.path]) : field;
    compilation.problems.add(document, path, error.message);
    return undefined;
  }
}

export function* templatesOf(compilation: Compilation): Generator<undefined, Documents<'template'>> {
  const found = new Map<string, CompiledTemplate>();
  for (const document of compilation.documents('template')) {
    yield undefined;
    const compiled = attempt(compilation, document, 'spec.descriptor', () =>
      compileTemplate(idOf(document), document.spec.descriptor),
    );
    if (compiled !== undefined) found.set(idOf(document), compiled);
  }
  return found;
}

export function* adaptersOf(
  compilation: Compilation,
  templates: Documents<'template'>,
): Generator<undefined, Documents<'adapter'>> {
  const found = new Map<string, CompiledAdapter>();
  for (const document of compilation.documents('adapter')) {
    yield undefined;
    const compiled = compileAdapter(compilation, document, templates);
    if (compiled !== undefined) found.set(compiled.id, compiled);
  }
  return found;
}

function compileAdapter(
  compilation: Compilation,
  document: TypedDocument<'adapter'>,
  templates: Documents<'template'>,
): CompiledAdapter | undefined {
  const { templates: names = [], config = '' } = document.spec;
  const params = config === '' ? undefined : attempt(compilation, document, 'spec.config', () => paramsOf(config));
  const supported = names.map((name, index) => {
    const template = compilation.find(name, document.namespace, TEMPLATE_KINDS, templates);
    if (template === undefined) {
      const message = `template ${JSON.stringify(name)} does not exist or is wrong`;
      compilation.problems.add(document, `spec.templates[${index}]`, message);
    }
    return template?.template.id;
  });
  const ids = supported.filter((id) => id !== undefined);
  if (ids.length < names.length || (config !== '' && params === undefined)) return undefined;
  return { id: idOf(document), templates: new Set(ids), params };
}

/** The message `Params` of an adapter's configuration. */
function paramsOf(config: string): NonNullable<CompiledAdapter['params']> {
  const descriptors = readDescriptors(config);
  const message = descriptors.files.flatMap(({ messages }) => messages).findLast((name) => name.endsWith('.Params'));
  if (message === undefined) throw new CtlError('invalid_argument', 'expected a message Params');
  return { descriptors, message };
}

function compiledText(path: ParamsError['path'], text: string, options: CompileOptions): Expression {
  try {
    return compileExpression(text, options);
  } catch (error) {
    throw error instanceof CtlError ? new ParamsError(path, error.message) : error;
  }
}

const NO_ATTRIBUTES = { get: (): undefined => undefined };

export function compileRemoteHandler(
  compilation: Compilation,
  document: TypedDocument<'handler'>,
  adapters: Documents<'adapter'>,
): CompiledHandler | undefined {
  const { adapter: reference = '', params, connection } = document.spec;
  const adapter = compilation.find(reference, document.namespace, ADAPTER_KINDS, adapters);
  if (adapter === undefined) {
    compilation.problems.add(
      document,
      'spec.adapter',
      `adapter ${JSON.stringify(reference)} does not exist or is wrong`,
    );
    return undefined;
  }
  const encoded = attempt(compilation, document, 'spec.params', () => remoteParams(adapter, params));
  const connected = connection === undefined ? undefined : connectionOf(compilation, document, connection);
  if (encoded === undefined || connected === undefined) return undefined;
  const typed = { adapter: 'remote', params: encoded, connection: connected } as const;
  const { namespace } = document;
  const handler: Handler = { id: idOf(document), namespace, fingerprint: fingerprint(typed), ...typed };
  return { handler, templates: adapter.templates };
}

function remoteParams({ id, params }: CompiledAdapter, written: unknown): RemoteParams {
  if (params === undefined) {
    if (written !== undefined) throw new CtlError('invalid_argument', `no effect: adapter ${id} has no parameters`);
    return { adapter: id, typeUrl: '', value: new Uint8Array() };
  }
  const encode = compileMessage(params.descriptors, params.message, written ?? {});
  const typeUrl = `type.googleapis.com/${params.message.slice(1)}`;
  return { adapter: id, typeUrl, value: encode(NO_ATTRIBUTES) };
}

type Written = NonNullable<TypedDocument<'handler'>['spec']['connection']>;

/** Files of the program, and its identity, are for handlers of the configuration namespace only. */
function connectionOf(
  compilation: Compilation,
  document: TypedDocument<'handler'>,
  { address, timeout, authentication }: Written,
): Connection | undefined {
  const { configNamespace } = compilation.options;
  const { tls, mutual } = authentication ?? {};
  const files = [tls?.caCertificates, tls?.tokenPath, tls?.oauth, mutual].some((each) => each !== undefined);
  if (files && document.namespace !== configNamespace) {
    const message = `only handlers of namespace ${configNamespace} may name files of the program`;
    compilation.problems.add(document, 'spec.connection.authentication', message);
    return undefined;
  }
  const base = { address, ...(timeout === undefined ? {} : { timeoutMs: timeout }) };
  if (tls !== undefined) return { ...base, authentication: tlsOf(tls) };
  if (mutual === undefined) return base;
  const { privateKey = '', clientCertificate = '', caCertificates, serverName } = mutual;
  return {
    ...base,
    authentication: {
      type: 'mutual',
      privateKey,
      clientCertificate,
      ...(caCertificates === undefined ? {} : { caCertificates }),
      ...(serverName === undefined ? {} : { serverName }),
    },
  };
}

function tlsOf(
  tls: NonNullable<NonNullable<Written['authentication']>['tls']>,
): NonNullable<Connection['authentication']> {
  const { caCertificates, serverName, tokenPath, oauth, authHeader, customHeader } = tls;
  const { scopes = [], endpointParams = {} } = oauth ?? {};
  const from = oauth === undefined ? tokenPath : { ...oauth, scopes, endpointParams };
  const header = customHeader?.toLowerCase() ?? 'authorization';
  const prefix = customHeader === undefined && authHeader !== 'PLAIN' ? 'Bearer ' : '';
  return {
    type: 'tls',
    ...(caCertificates === undefined ? {} : { caCertificates }),
    ...(serverName === undefined ? {} : { serverName }),
    ...(from === undefined ? {} : { token: { from, header, prefix } }),
  };
}

/** What an instance is for; undefined if its template does not exist or is wrong. */
export function remoteVariety(
  compilation: Compilation,
  { spec, namespace }: TypedDocument<'instance'>,
  templates: Documents<'template'>,
): Variety | undefined {
  return compilation.find(spec.template ?? '', namespace, TEMPLATE_KINDS, templates)?.template.variety;
}

export function compileRemoteInstance(
  compilation: Compilation,
  document: TypedDocument<'instance'>,
  { vocabulary, templates }: { readonly vocabulary: Vocabulary; readonly templates: Documents<'template'> },
): CompiledInstance | undefined {
  const { template: reference = '', params } = document.spec;
  const language = compilation.languageOf(document);
  if (language === undefined) return undefined;
  const found = compilation.find(reference, document.namespace, TEMPLATE_KINDS, templates);
  if (found === undefined) {
    const message = `template ${JSON.stringify(reference)} does not exist or is wrong`;
    compilation.problems.add(document, 'spec.template', message);
    return undefined;
  }
  const { template, descriptors, instanceMessage } = found;
  const reads = new Set<string>();
  const encode = attempt(compilation, document, 'spec.params', () =>
    compileMessage(descriptors, instanceMessage, params ?? {}, (path, text) => {
      const expression = compiledText(path, text, { vocabulary, language });
      for (const name of expression.reads) reads.add(name);
      return expression;
    }),
  );
  if (encode === undefined) return undefined;
  const id = instanceId(document);
  const name = stringField(INSTANCE_NAME, id);
  const instance: Instance = {
    id,
    variety: template.variety,
    dynamic: template,
    reads: [...reads].sort(),
    build: (attributes) => ({ template: 'dynamic', message: Buffer.concat([encode(attributes), name]) }),
  };
  return { instance, template: template.id };
}
