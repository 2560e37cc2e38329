/**
 * Validates the kinds of the policy component as far as one document shows. `src/policy/config` checks the rest: types
 * of expressions, and references to other documents.
 */
import { isIP } from 'node:net';
import { CtlError } from '../../core/errors.ts';
import { checkSyntax } from '../../expressions/index.ts';
import { readRegex } from '../../regex/index.ts';
import type {
  AttributeManifestSpec,
  PolicyAdapterSpec,
  PolicyHandlerSpec,
  PolicyHeaderOperation,
  PolicyInstanceSpec,
  PolicyRuleSpec,
  PolicyTemplateSpec,
} from '../schema/policy.ts';
import type { AdapterParams } from '../schema/policy-params.ts';
import { adapterParams, type ReadParams, templateParams } from './policy-params.ts';
import type { ValidationErrors } from './validation-errors.ts';
import { checkDuration, isCidr, isDomain } from './values.ts';

/** Limits of one document; those of real meshes are far smaller. */
const MAX_ATTRIBUTES = 1000;
export const MAX_ACTIONS = 64;
const MAX_INSTANCES = 64;
const MAX_HEADERS = 64;
const MAX_VALUES = 16;
const MAX_ENTRIES = 10_000;
/** Patterns of a list, which are compared one by one, and the characters of one. */
const MAX_PATTERNS = 500;
const MAX_PATTERN_CHARACTERS = 1000;
/** Characters of a descriptor: in base64, 256 KiB. */
const MAX_DESCRIPTOR = 349_528;

/** Words with dots. */
const ATTRIBUTE = /^[a-z][\w-]*(?:\.[a-zA-Z_][\w-]*)*$/i;
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;
const HEADER_NAME = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
/** Names that Envoy derives from the request and that no header may replace. */
const RESERVED_HEADERS: ReadonlySet<string> = new Set(['host', 'content-length', 'transfer-encoding', 'connection']);

export function validateAttributeManifest({ attributes = {} }: AttributeManifestSpec, errors: ValidationErrors): void {
  const names = Object.keys(attributes);
  if (names.length > MAX_ATTRIBUTES) {
    errors.add(['attributes'], `expected at most ${MAX_ATTRIBUTES} attributes, got ${names.length}`);
  }
  for (const name of names) {
    if (name.length > 253 || !ATTRIBUTE.test(name)) {
      errors.add(['attributes', name.slice(0, 80)], 'expected a name of words with dots, such as request.headers');
    }
  }
}

export function validatePolicyTemplate({ descriptor }: PolicyTemplateSpec, errors: ValidationErrors): void {
  checkDescriptor(errors.at('descriptor'), descriptor);
}

export function validatePolicyAdapter(spec: PolicyAdapterSpec, errors: ValidationErrors): void {
  const { templates = [], config, sessionBased = false } = spec;
  if (sessionBased) errors.add(['sessionBased'], 'adapters with sessions are not supported: expected false');
  if (templates.length === 0) errors.add(['templates'], 'expected at least one template');
  if (templates.length > MAX_INSTANCES) errors.add(['templates'], `expected at most ${MAX_INSTANCES} templates`);
  if (config !== undefined) checkDescriptor(errors.at('config'), config);
}

function checkDescriptor(errors: ValidationErrors, descriptor: string): void {
  if (descriptor.length > MAX_DESCRIPTOR) {
    errors.add([], `expected at most ${MAX_DESCRIPTOR} characters, got ${descriptor.length}`);
  } else if (!BASE64.test(descriptor)) {
    errors.add([], 'expected a FileDescriptorSet in base64');
  }
}

export function validatePolicyInstance(spec: PolicyInstanceSpec, errors: ValidationErrors): void {
  const { compiledTemplate, template, params } = spec;
  if ((compiledTemplate === undefined) === (template === undefined)) {
    errors.add([], 'expected either compiledTemplate or template');
  } else if (compiledTemplate !== undefined) {
    reportParams(templateParams(compiledTemplate, params), errors.at('params'));
  }
}

function reportParams<T>(read: ReadParams<T>, errors: ValidationErrors): T | undefined {
  if ('params' in read) return read.params;
  for (const { path, message } of read.errors) errors.add(path, message);
  return undefined;
}

export function validatePolicyHandler(spec: PolicyHandlerSpec, errors: ValidationErrors): void {
  const { compiledAdapter, adapter, connection } = spec;
  // Istio's own examples name a compiled adapter in both fields.
  if (compiledAdapter === undefined && adapter === undefined) {
    errors.add([], 'expected either compiledAdapter or adapter');
  } else if (compiledAdapter === undefined) {
    if (connection === undefined) errors.add(['connection'], 'required for an adapter outside, expected its address');
  } else if (connection !== undefined) {
    errors.add(['connection'], `no effect: the adapter ${compiledAdapter} is part of the program`);
  }
  if (connection !== undefined) validateConnection(connection, errors.at('connection'));
  if (compiledAdapter !== undefined) validateParams(compiledAdapter, spec.params, errors.at('params'));
}

function validateConnection(
  { address, timeout, authentication }: NonNullable<PolicyHandlerSpec['connection']>,
  errors: ValidationErrors,
): void {
  if (!isHostPort(address)) errors.add(['address'], 'expected HOST:PORT');
  checkDuration(errors.at('timeout'), timeout);
  const { tls, mutual } = authentication ?? {};
  const given = [tls, mutual].filter((each) => each !== undefined).length;
  if (authentication !== undefined && given !== 1) {
    errors.add(['authentication'], 'expected exactly one of tls and mutual');
  }
  const hasToken = tls?.tokenPath !== undefined || tls?.oauth !== undefined;
  if (!hasToken && (tls?.authHeader !== undefined || tls?.customHeader !== undefined)) {
    errors.add(['authentication', 'tls', 'tokenPath'], 'required for a header with a token');
  }
  if (tls?.tokenPath !== undefined && tls.oauth !== undefined) {
    errors.add(['authentication', 'tls'], 'expected at most one of tokenPath and oauth');
  }
  if (tls?.oauth !== undefined) validateOAuth(tls.oauth, errors.at('authentication', 'tls', 'oauth'));
  if (tls?.authHeader !== undefined && tls.customHeader !== undefined) {
    errors.add(['authentication', 'tls'], 'expected at most one of authHeader and customHeader');
  }
  if (tls?.customHeader !== undefined && !HEADER_NAME.test(tls.customHeader)) {
    errors.add(['authentication', 'tls', 'customHeader'], 'expected the name of a header');
  }
}

type Tls = NonNullable<NonNullable<NonNullable<PolicyHandlerSpec['connection']>['authentication']>['tls']>;

/** Parameters of a token request that have fields of their own. */
const OAUTH_FIELDS = new Set(['grant_type', 'client_id', 'client_secret', 'scope']);
/** A scope of RFC 6749 section 3.3. */
const SCOPE = /^[\x21\x23-\x5b\x5d-\x7e]+$/;

function validateOAuth(
  { clientId, clientSecret, tokenUrl, scopes = [], endpointParams = {} }: NonNullable<Tls['oauth']>,
  errors: ValidationErrors,
): void {
  for (const [field, value] of Object.entries({ clientId, clientSecret }))
    if (value === '') errors.add([field], 'must not be empty');
  const url = URL.parse(tokenUrl);
  const isLocal = /^(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(url?.hostname ?? '');
  if (url?.protocol !== 'https:' && !(url?.protocol === 'http:' && isLocal))
    errors.add(['tokenUrl'], 'expected a URL with https: the secret is sent to it');
  else if (url.username !== '' || url.password !== '' || url.hash !== '')
    errors.add(['tokenUrl'], 'expected a URL without credentials and without a fragment');
  scopes.forEach((scope, index) => {
    if (!SCOPE.test(scope)) errors.add(['scopes', index], 'expected the name of a scope');
  });
  for (const name of Object.keys(endpointParams))
    if (OAUTH_FIELDS.has(name)) errors.add(['endpointParams', name], 'is no further parameter of a token request');
}

function isHostPort(address: string): boolean {
  const [, host = '', port = ''] = /^(.*):(\d{1,5})$/.exec(address) ?? [];
  if (port === '' || Number(port) < 1 || Number(port) > 65_535) return false;
  return host.startsWith('[')
    ? host.endsWith(']') && isIP(host.slice(1, -1)) === 6
    : isDomain(host) || isIP(host) === 4;
}

type Adapter = NonNullable<PolicyHandlerSpec['compiledAdapter']>;

function validateParams(adapter: Adapter, written: unknown, errors: ValidationErrors): void {
  if (adapter === 'listchecker') {
    validateList(reportParams(adapterParams(adapter, written), errors), errors);
  } else if (adapter === 'memquota') {
    validateQuotas(reportParams(adapterParams(adapter, written), errors)?.quotas, errors);
  } else if (adapter === 'redisquota') {
    validateRedis(reportParams(adapterParams(adapter, written), errors), errors);
  } else if (adapter === 'prometheus') {
    validatePrometheus(reportParams(adapterParams(adapter, written), errors), errors);
  } else {
    reportParams(adapterParams(adapter, written), errors);
  }
}

function validateList(params: AdapterParams<'listchecker'> | undefined, errors: ValidationErrors): void {
  if (params === undefined) return;
  const { providerUrl, refreshInterval, ttl, overrides, entryType } = params;
  if (providerUrl !== undefined) {
    const url = URL.parse(providerUrl);
    if (url === null || !/^https?:$/.test(url.protocol) || url.hostname === '') {
      errors.add(['providerUrl'], 'expected a URL of http or https');
    }
    if (refreshInterval < 1000) errors.add(['refreshInterval'], 'expected a duration of at least 1s');
    if (ttl < refreshInterval) errors.add(['ttl'], 'expected a duration of at least refreshInterval');
  }
  const limit = entryType === 'REGEX' ? MAX_PATTERNS : MAX_ENTRIES;
  if (overrides.length > limit) errors.add(['overrides'], `expected at most ${limit} entries`);
  overrides.slice(0, limit).forEach((entry, index) => {
    const problem = entryProblem(entryType, entry);
    if (problem !== undefined) errors.add(['overrides', index], problem);
  });
}

function entryProblem(type: AdapterParams<'listchecker'>['entryType'], entry: string): string | undefined {
  if (type === 'IP_ADDRESSES') {
    return isCidr(entry) ? undefined : 'expected an IP address or one with a prefix length';
  }
  if (type !== 'REGEX') return undefined;
  if (entry.length > MAX_PATTERN_CHARACTERS) return `expected at most ${MAX_PATTERN_CHARACTERS} characters`;
  const read = readRegex(entry, 1000);
  return 'problem' in read ? read.problem : undefined;
}

function validateQuotas(quotas: readonly { readonly name: string }[] = [], errors: ValidationErrors): void {
  const names = new Set<string>();
  quotas.forEach(({ name }, index) => {
    if (name === '') errors.add(['quotas', index, 'name'], 'required, expected the name of an instance');
    if (names.has(name)) errors.add(['quotas', index, 'name'], 'expected one quota for each instance');
    names.add(name);
  });
}

function validateRedis(params: AdapterParams<'redisquota'> | undefined, errors: ValidationErrors): void {
  if (params === undefined) return;
  validateQuotas(params.quotas, errors);
  if (!isHostPort(params.redisServerUrl)) errors.add(['redisServerUrl'], 'expected HOST:PORT');
  params.quotas.forEach(({ rateLimitAlgorithm, bucketDuration, validDuration, overrides }, index) => {
    if (rateLimitAlgorithm === 'ROLLING_WINDOW' && !(bucketDuration > 0 && bucketDuration < validDuration)) {
      errors.add(['quotas', index, 'bucketDuration'], 'expected a duration shorter than validDuration, above 0s');
    }
    overrides.forEach(({ dimensions, maxAmount }, override) => {
      const path = ['quotas', index, 'overrides', override];
      if (Object.keys(dimensions).length === 0) errors.add([...path, 'dimensions'], 'expected at least one dimension');
      if (maxAmount < 1) errors.add([...path, 'maxAmount'], 'expected a number of at least 1');
    });
  });
}

const LABEL = /^[a-zA-Z_]\w*$/;
/** Labels that the page adds. */
const RESERVED_LABELS: ReadonlySet<string> = new Set(['policy_handler', 'le']);

function validatePrometheus(params: AdapterParams<'prometheus'> | undefined, errors: ValidationErrors): void {
  const names = new Set<string>();
  params?.metrics.forEach(({ kind, buckets, labelNames, namespace, name: written, instanceName }, index) => {
    const path = ['metrics', index];
    const name = `${namespace}_${written === '' ? instanceName : written}`.replace(/\W/g, '_');
    if (names.has(name)) errors.add([...path, 'name'], `expected one metric ${name} of the handler`);
    names.add(name);
    const given = Object.values(buckets ?? {}).filter((each) => each !== undefined).length;
    if (kind === 'DISTRIBUTION' && given !== 1) {
      errors.add([...path, 'buckets'], 'expected one of linearBuckets, exponentialBuckets, explicitBuckets');
    }
    const bounds = buckets?.explicitBuckets?.bounds ?? [];
    if (bounds.some((bound, at) => at > 0 && bound <= (bounds[at - 1] ?? Number.NEGATIVE_INFINITY))) {
      errors.add([...path, 'buckets', 'explicitBuckets', 'bounds'], 'expected ascending numbers');
    }
    if (labelNames.length > MAX_INSTANCES)
      errors.add([...path, 'labelNames'], `expected at most ${MAX_INSTANCES} labels`);
    validateLabels(labelNames, errors.at(...path, 'labelNames'));
  });
}

function validateLabels(names: readonly string[], errors: ValidationErrors): void {
  names.forEach((name, index) => {
    if (!LABEL.test(name) || name.startsWith('__')) {
      errors.add([index], 'expected the name of a label: letters, digits and _');
    } else if (RESERVED_LABELS.has(name)) {
      errors.add([index], 'expected another name: each metric has a label of this name');
    } else if (names.indexOf(name) < index) {
      errors.add([index], 'expected each label once');
    }
  });
}

export function validatePolicyRule(spec: PolicyRuleSpec, errors: ValidationErrors): void {
  const { match = '', actions = [], requestHeaderOperations = [], responseHeaderOperations = [] } = spec;
  if (match !== '') checkExpression(errors.at('match'), match);
  if (actions.length + requestHeaderOperations.length + responseHeaderOperations.length === 0) {
    errors.add(['actions'], 'expected at least one action or header operation');
  }
  if (actions.length > MAX_ACTIONS) errors.add(['actions'], `expected at most ${MAX_ACTIONS} actions`);
  const names = new Set<string>();
  actions.forEach(({ instances = [], name = '' }, index) => {
    if (instances.length === 0) errors.add(['actions', index, 'instances'], 'expected at least one instance');
    if (instances.length > MAX_INSTANCES)
      errors.add(['actions', index, 'instances'], `expected at most ${MAX_INSTANCES}`);
    if (name !== '' && (!/^\w+$/.test(name) || names.has(name))) {
      errors.add(['actions', index, 'name'], 'expected a name of letters, digits and _ that no other action has');
    }
    names.add(name);
  });
  validateHeaders(requestHeaderOperations, errors.at('requestHeaderOperations'));
  validateHeaders(responseHeaderOperations, errors.at('responseHeaderOperations'));
  responseHeaderOperations.forEach(({ operation }, index) => {
    if (operation !== 'REMOVE') return;
    const message = 'Envoy removes no header of a response for a decision: expected REPLACE or APPEND';
    errors.add(['responseHeaderOperations', index, 'operation'], message);
  });
}

function validateHeaders(operations: readonly PolicyHeaderOperation[], errors: ValidationErrors): void {
  if (operations.length > MAX_HEADERS) errors.add([], `expected at most ${MAX_HEADERS} header operations`);
  operations.forEach(({ name, values = [], operation = 'REPLACE' }, index) => {
    if (!HEADER_NAME.test(name)) errors.add([index, 'name'], 'expected the name of a header');
    if (RESERVED_HEADERS.has(name.toLowerCase())) errors.add([index, 'name'], 'this header cannot be changed');
    if (values.length > MAX_VALUES) errors.add([index, 'values'], `expected at most ${MAX_VALUES} values`);
    if (operation !== 'REMOVE' && values.length === 0) errors.add([index, 'values'], 'expected at least one value');
    if (operation === 'REMOVE' && values.length > 0) errors.add([index, 'values'], 'REMOVE has none: expected none');
    values.forEach((value, at) => {
      checkExpression(errors.at(index, 'values', at), value);
    });
  });
}

/** Whether the syntax of any language accepts a string. */
export function isExpression(text: string): boolean {
  return syntaxProblem(text, 'CEXL') === undefined || syntaxProblem(text, 'CEL') === undefined;
}

/** The language is a setting of the program or an annotation: a syntax of any language is accepted here. */
function checkExpression(errors: ValidationErrors, text: string): void {
  const [problem, ...others] = (['CEXL', 'CEL'] as const).map((language) => syntaxProblem(text, language));
  if (problem !== undefined && !others.includes(undefined)) errors.add([], problem);
}

function syntaxProblem(text: string, language: 'CEXL' | 'CEL'): string | undefined {
  try {
    checkSyntax(text, language);
    return undefined;
  } catch (error) {
    if (error instanceof CtlError) return error.message;
    throw error;
  }
}
