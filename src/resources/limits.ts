/**
 * Limits of documents. The configuration that is generated for a document costs memory and time of the control plane
 * and of every Envoy that gets it, so documents that far exceed the needs of real meshes are refused. Operators can
 * raise the limits, all by one factor (CTL_DOCUMENT_LIMIT_FACTOR).
 */

/** The limits without a factor, with what they count. */
const LIMITS = {
  labels: [1000, 'labels'],
  annotations: [10_000, 'annotations'],
  configPatches: [2000, 'patches'],
  egressListeners: [1000, 'egress listeners'],
  ingressListeners: [1000, 'ingress listeners'],
  egressHosts: [10_000, 'hosts of egress listeners'],
  subsets: [1000, 'subsets'],
  portSettings: [1000, 'ports with settings'],
  virtualServiceHosts: [1000, 'hosts'],
  routes: [5000, 'routes'],
  matches: [10_000, 'matches of routes'],
  destinations: [10_000, 'destinations of routes'],
  /** Each host of a VirtualService has its own copies of the routes. */
  hostRoutes: [100_000, 'hosts times matches'],
  servers: [1000, 'servers'],
  serverHosts: [10_000, 'hosts of servers'],
  /** Each host is a separate service. */
  serviceHosts: [1000, 'hosts'],
  serviceAddresses: [10_000, 'addresses'],
  /** Each of these services has its own copies of addresses and endpoints. */
  hostAddresses: [20_000, 'hosts times addresses'],
  hostEndpoints: [20_000, 'hosts times ports times endpoints'],
  rules: [5000, 'rules'],
  jwtRules: [500, 'JWT rules'],
  regexes: [10_000, 'regular expressions'],
  /** Each Envoy keeps the compiled programs, in which a step takes 16 bytes. */
  regexSteps: [1_000_000, 'steps of regular expressions'],
  versionRegexes: [100, 'different regular expressions for proxy versions'],
} as const satisfies Readonly<Record<string, readonly [limit: number, counted: string]>>;

export type DocumentLimit = keyof typeof LIMITS;

export interface DocumentLimits extends Readonly<Record<DocumentLimit, number>> {
  /**
   * Whether VirtualServices may delegate (CTL_ENABLE_VIRTUAL_SERVICE_DELEGATE); if not, this is reported to their
   * authors.
   */
  readonly servesDelegates: boolean;
  /** The namespace of documents for the whole mesh; undefined: not known. */
  readonly rootNamespace: string | undefined;
}

/** The program's settings about documents. */
export interface DocumentSettings {
  /** The factor of all limits. */
  readonly factor: number;
  readonly servesDelegates?: boolean;
  readonly rootNamespace?: string;
}

/** The limits with a factor. */
export function documentLimits(factor: number, servesDelegates = true, rootNamespace?: string): DocumentLimits {
  const entries = Object.entries(LIMITS).map(([name, [limit]]) => [name, Math.max(1, Math.floor(limit * factor))]);
  return { ...(Object.fromEntries(entries) as Record<DocumentLimit, number>), servesDelegates, rootNamespace };
}

export const DEFAULT_LIMITS = documentLimits(1);

/** The message for a document that exceeds a limit; without a count if counting stopped at the limit. */
export function beyondLimit(name: DocumentLimit, limit: number, count?: number): string {
  const [, counted] = LIMITS[name];
  const got = count === undefined ? ' in one document' : `, got ${count}`;
  return `expected at most ${limit} ${counted}${got}; operators can raise limits (CTL_DOCUMENT_LIMIT_FACTOR)`;
}
