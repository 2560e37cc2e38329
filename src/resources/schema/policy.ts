/**
 * The kinds of the policy component: attributes, templates and adapters outside, handlers, instances, rules. The
 * parameters of handlers and instances have the schemas of `policy-params.ts`.
 */
import { z } from 'zod';
import { VALUE_TYPES } from '../../expressions/index.ts';
import { duration } from './common.ts';
import { secret } from './secret.ts';

/** Adapters that are part of the program. */
export const ADAPTERS = ['denier', 'listchecker', 'memquota', 'prometheus', 'redisquota', 'stdio'] as const;
/** Templates that are part of the program. */
export const TEMPLATES = ['checknothing', 'listentry', 'logentry', 'metric', 'quota'] as const;

const params = z.record(z.string(), z.json());

export const attributeManifest = z.strictObject({
  revision: z.string().optional(),
  name: z.string().optional(),
  attributes: z
    .record(z.string(), z.strictObject({ description: z.string().optional(), valueType: z.enum(VALUE_TYPES) }))
    .optional(),
});
export type AttributeManifestSpec = z.output<typeof attributeManifest>;

export const policyTemplate = z.strictObject({ descriptor: z.string() });
export type PolicyTemplateSpec = z.output<typeof policyTemplate>;

export const policyAdapter = z.strictObject({
  name: z.string().optional(),
  description: z.string().optional(),
  templates: z.array(z.string()).optional(),
  config: z.string().optional(),
  sessionBased: z.boolean().optional(),
});
export type PolicyAdapterSpec = z.output<typeof policyAdapter>;

const oauth = z.strictObject({
  clientId: z.string(),
  /** The path of a file with the secret; it is not shown, because users write the secret itself by mistake. */
  clientSecret: secret('value', z.string()),
  tokenUrl: secret('url', z.string()),
  scopes: z.array(z.string()).optional(),
  endpointParams: secret('value', z.record(z.string(), z.string())).optional(),
});

const tls = z.strictObject({
  caCertificates: z.string().optional(),
  serverName: z.string().optional(),
  tokenPath: z.string().optional(),
  oauth: oauth.optional(),
  authHeader: z.enum(['PLAIN', 'BEARER']).optional(),
  customHeader: z.string().optional(),
});

const mutual = z.strictObject({
  privateKey: z.string().optional(),
  clientCertificate: z.string().optional(),
  caCertificates: z.string().optional(),
  serverName: z.string().optional(),
});

const connection = z.strictObject({
  address: z.string(),
  timeout: duration.optional(),
  authentication: z.strictObject({ tls: tls.optional(), mutual: mutual.optional() }).optional(),
});

export const policyHandler = z.strictObject({
  name: z.string().optional(),
  compiledAdapter: z.enum(ADAPTERS).optional(),
  adapter: z.string().optional(),
  /** Of adapters outside, they may contain credentials. */
  params: secret('value', params).optional(),
  connection: connection.optional(),
});
export type PolicyHandlerSpec = z.output<typeof policyHandler>;

export const policyInstance = z.strictObject({
  name: z.string().optional(),
  compiledTemplate: z.enum(TEMPLATES).optional(),
  template: z.string().optional(),
  params: params.optional(),
});
export type PolicyInstanceSpec = z.output<typeof policyInstance>;

const action = z.strictObject({
  handler: z.string(),
  instances: z.array(z.string()).optional(),
  name: z.string().optional(),
});

const headerOperation = z.strictObject({
  name: z.string(),
  values: z.array(z.string()).optional(),
  operation: z.enum(['REPLACE', 'REMOVE', 'APPEND']).optional(),
});
export type PolicyHeaderOperation = z.output<typeof headerOperation>;

export const policyRule = z.strictObject({
  match: z.string().optional(),
  actions: z.array(action).optional(),
  requestHeaderOperations: z.array(headerOperation).optional(),
  responseHeaderOperations: z.array(headerOperation).optional(),
});
export type PolicyRuleSpec = z.output<typeof policyRule>;
