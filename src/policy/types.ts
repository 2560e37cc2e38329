/** What the policy component is configured with: the documents, and what is compiled from them. */
import type { Attributes, Expression, Language, Value, ValueType } from '../expressions/index.ts';
import type { PolicyKind, ResourceOrigin } from '../resources/index.ts';

/** A document in force. `spec` has passed the schema of its kind. */
export interface PolicyDocument {
  readonly kind: PolicyKind;
  readonly namespace: string;
  readonly name: string;
  readonly annotations: Readonly<Record<string, string>>;
  readonly spec: unknown;
  readonly origin: ResourceOrigin;
  /** Set if it replaces a refused document of which no good version is known. */
  readonly substitute?: true;
}

export interface PolicyOptions {
  /** From `MESH_LANG`; undefined: each document's annotation `policy.mesh.io/lang` selects, by default CEXL. */
  readonly language: Language | undefined;
  /** The namespace whose rules apply to the traffic of all namespaces. */
  readonly configNamespace: string;
}

/** A part of a document that has no effect. */
export interface PolicyProblem {
  readonly kind: PolicyKind;
  readonly namespace: string;
  readonly name: string;
  readonly origin: ResourceOrigin;
  /** Path of the field, such as `spec.actions[0].handler`. */
  readonly field: string;
  /** What was expected, one line. */
  readonly message: string;
  /** Other namespaces of whose documents the problem tells, such as whether one exists. */
  readonly reveals?: readonly string[];
}

/** Canonical codes of gRPC (google.rpc.Status). */
export interface Status {
  readonly code: number;
  readonly message: string;
}

export interface DenierParams {
  readonly status: Status;
  readonly validDurationMs: number;
  readonly validUseCount: number;
}

export interface ListParams {
  /** Absent: `overrides` is the whole list. */
  readonly providerUrl?: string;
  readonly refreshIntervalMs: number;
  readonly ttlMs: number;
  readonly cachingIntervalMs: number;
  readonly cachingUseCount: number;
  readonly overrides: readonly string[];
  readonly entryType: 'STRINGS' | 'CASE_INSENSITIVE_STRINGS' | 'IP_ADDRESSES' | 'REGEX';
  /** Whether entries are refused, rather than allowed. */
  readonly blacklist: boolean;
}

/** The first override whose dimensions all equal those of the instance, as strings, takes precedence. */
export interface QuotaOverride {
  readonly dimensions: ReadonlyMap<string, string>;
  readonly maxAmount: number;
  /** 0: what is allocated stays allocated until it is released. */
  readonly validDurationMs: number;
}

export interface MemoryQuota {
  /** The ID of the instance that the quota is for. */
  readonly name: string;
  readonly maxAmount: number;
  readonly validDurationMs: number;
  readonly overrides: readonly QuotaOverride[];
}

export interface MemoryQuotaParams {
  readonly quotas: readonly MemoryQuota[];
  readonly minDeduplicationDurationMs: number;
}

export interface RedisQuota extends MemoryQuota {
  /** Only for `ROLLING_WINDOW`: less than `validDurationMs`. */
  readonly bucketDurationMs: number;
  readonly rateLimitAlgorithm: 'FIXED_WINDOW' | 'ROLLING_WINDOW';
}

export interface RedisQuotaParams {
  readonly quotas: readonly RedisQuota[];
  /** `host:port`. */
  readonly redisServerUrl: string;
  readonly connectionPoolSize: number;
}

export type StdioLevel = 'INFO' | 'WARNING' | 'ERROR';

export interface StdioParams {
  readonly logStream: 'STDOUT' | 'STDERR';
  /** From severities of log entries to levels; a severity that is missing is INFO. */
  readonly severityLevels: ReadonlyMap<string, StdioLevel>;
  readonly metricLevel: StdioLevel;
  readonly outputLevel: StdioLevel;
  readonly outputAsJson: boolean;
}

export interface PrometheusMetric {
  /** The complete name: prefix and name, with characters that Prometheus does not accept replaced by `_`. */
  readonly name: string;
  /** The ID of the instance whose values are shown. */
  readonly instanceName: string;
  readonly description: string;
  readonly kind: 'GAUGE' | 'COUNTER' | 'DISTRIBUTION';
  /** Upper bounds of the buckets, ascending; only for `DISTRIBUTION`. */
  readonly buckets: readonly number[];
  /** Dimensions of the instance that are labels. */
  readonly labelNames: readonly string[];
}

export interface PrometheusParams {
  readonly metrics: readonly PrometheusMetric[];
  /** After how long without an update a time series is removed; absent: never. */
  readonly expiryMs?: number;
  readonly expiryCheckIntervalMs?: number;
}

/** How an adapter outside is reached and authenticated. Paths name files of the program. */
export interface Connection {
  /** `host:port`. */
  readonly address: string;
  readonly timeoutMs?: number;
  readonly authentication?: TlsAuthentication | MutualAuthentication;
}

export interface TlsAuthentication {
  readonly type: 'tls';
  /** Absent: the certificates of the system. */
  readonly caCertificates?: string;
  readonly serverName?: string;
  readonly token?: {
    /** The path of a file with the token, or where it is requested. */
    readonly from: string | ClientCredentials;
    /** Metadata key of the token, lower case. */
    readonly header: string;
    readonly prefix: '' | 'Bearer ';
  };
}

/** A client of an OAuth server, which gets tokens for itself (RFC 6749 section 4.4). */
export interface ClientCredentials {
  readonly clientId: string;
  /** The path of a file. */
  readonly clientSecret: string;
  readonly tokenUrl: string;
  readonly scopes: readonly string[];
  /** Further parameters of the request. */
  readonly endpointParams: Readonly<Record<string, string>>;
}

export interface MutualAuthentication {
  readonly type: 'mutual';
  readonly privateKey: string;
  readonly clientCertificate: string;
  readonly caCertificates?: string;
  readonly serverName?: string;
}

/** Configuration of an adapter outside: its type and encoded message, for `google.protobuf.Any`. */
export interface RemoteParams {
  /** The ID of the `adapter` document. */
  readonly adapter: string;
  readonly typeUrl: string;
  readonly value: Uint8Array;
}

interface HandlerBase {
  /** `name.namespace`. */
  readonly id: string;
  readonly namespace: string;
  /** Equal fingerprints: the handler of the configuration before can be reused. */
  readonly fingerprint: string;
}

export type Handler = HandlerBase &
  (
    | { readonly adapter: 'denier'; readonly params: DenierParams }
    | { readonly adapter: 'listchecker'; readonly params: ListParams }
    | { readonly adapter: 'memquota'; readonly params: MemoryQuotaParams }
    | { readonly adapter: 'redisquota'; readonly params: RedisQuotaParams }
    | { readonly adapter: 'stdio'; readonly params: StdioParams }
    | { readonly adapter: 'prometheus'; readonly params: PrometheusParams }
    | { readonly adapter: 'remote'; readonly params: RemoteParams; readonly connection: Connection }
  );

/** What an instance is computed for. */
export type Variety = 'CHECK' | 'REPORT' | 'QUOTA' | 'CHECK_WITH_OUTPUT';

/** The value of an instance for one request or record, by template. */
export type InstanceValue =
  | { readonly template: 'checknothing' }
  | { readonly template: 'listentry'; readonly value: Value }
  | { readonly template: 'quota'; readonly dimensions: ReadonlyMap<string, Value> }
  | {
      readonly template: 'logentry';
      readonly variables: ReadonlyMap<string, Value>;
      /** Absent: the time of the record. */
      readonly timestamp?: Value;
      readonly severity: string;
    }
  | { readonly template: 'metric'; readonly value: bigint | number; readonly dimensions: ReadonlyMap<string, Value> }
  /** Of a `template` document: the encoded `InstanceMsg`. */
  | { readonly template: 'dynamic'; readonly message: Uint8Array };

export interface Instance {
  /** `name.instance.namespace`. */
  readonly id: string;
  readonly variety: Variety;
  /** Of a `template` document; undefined for templates inside. */
  readonly dynamic?: DynamicTemplate;
  /** The attributes that it can read. */
  readonly reads: readonly string[];
  /** Throws EvaluationError. */
  build(attributes: Attributes): InstanceValue;
}

/** A `template` document: how an adapter outside is called with its instances. */
export interface DynamicTemplate {
  /** `name.namespace`. */
  readonly id: string;
  /** Of the document: differs after each change of its name or its descriptor. */
  readonly fingerprint: string;
  readonly variety: Variety;
  /** Types of the fields of its `OutputMsg`, by name; empty for templates without output. */
  readonly output: ReadonlyMap<string, ValueType>;
  /** The gRPC method, such as `/listEntry.HandleListEntryService/HandleListEntry`. */
  readonly method: string;
  /**
   * Encodes a request. Reports carry any number of instances, checks and quotas one.
   * @param deduplicationId of the request, so that an adapter can recognise a repeated call
   */
  encodeRequest(request: {
    readonly instances: readonly Uint8Array[];
    readonly params: RemoteParams;
    readonly deduplicationId: string;
    readonly quota?: { readonly name: string; readonly amount: bigint; readonly bestEffort: boolean };
  }): Uint8Array;
  /** Decodes the response of a check. Throws CtlError `invalid_argument` for bytes that are no such message. */
  decodeCheck(response: Uint8Array): DynamicCheckResult;
  /** Decodes the response of a quota call, by name of the quota. Throws CtlError `invalid_argument`. */
  decodeQuota(response: Uint8Array): ReadonlyMap<string, DynamicQuotaResult>;
}

export interface DynamicCheckResult {
  readonly status: Status;
  readonly validDurationMs: number;
  readonly validUseCount: number;
  /** Fields of the template's `OutputMsg` by name; empty for templates without output. */
  readonly output: ReadonlyMap<string, Value>;
}

export interface DynamicQuotaResult {
  readonly status: Status;
  readonly grantedAmount: number;
  readonly validDurationMs: number;
}

export interface Action {
  /** Under which header operations refer to its output: `name.output.field`. */
  readonly name?: string;
  readonly handler: Handler;
  /** At least one. */
  readonly instances: readonly Instance[];
}

/**
 * A change of a header. The expressions are of type STRING and read attributes and, as `action.output.field`, outputs
 * of the rule's actions.
 */
export interface HeaderOperation {
  /** Lower case. */
  readonly name: string;
  readonly operation: 'REPLACE' | 'REMOVE' | 'APPEND';
  readonly values: readonly Expression[];
}

export interface Rule {
  /** `name.namespace`. */
  readonly id: string;
  /** Whose traffic it applies to; undefined: that of all namespaces. */
  readonly namespace: string | undefined;
  /** Of type BOOL; absent: it always applies. */
  readonly match?: Expression;
  /** Whether it can match TCP connections, which have no attributes of requests. */
  readonly matchesConnections: boolean;
  /** Which part that decides is wrong: the requests to which the rule applies are refused. */
  readonly broken?: string;
  readonly actions: readonly Action[];
  readonly requestHeaders: readonly HeaderOperation[];
  readonly responseHeaders: readonly HeaderOperation[];
}

/** What the gauges `plc_config_*` show. */
export interface PolicyCounts {
  readonly attributes: number;
  readonly adapters: number;
  readonly adapterErrors: number;
  readonly handlers: number;
  readonly handlerErrors: number;
  readonly instances: number;
  readonly instanceErrors: number;
  readonly rules: number;
  readonly ruleErrors: number;
  readonly ruleMatchErrors: number;
  readonly templates: number;
  readonly templateErrors: number;
  /** Actions whose handler does not exist or was refused. */
  readonly unsatisfiedActions: number;
}

/** All documents, compiled: immutable. It has functions, so that it is compiled in the thread that uses it. */
export interface PolicyConfig {
  readonly rules: readonly Rule[];
  /** By ID. */
  readonly handlers: ReadonlyMap<string, Handler>;
  readonly problems: readonly PolicyProblem[];
  readonly counts: PolicyCounts;
}
