/**
 * The modules of the program and which way imports may go (docs/architecture.md shows the same as a picture):
 * `module-graph.test.ts` checks the import statements against it.
 */

/** Folders and files of `src`, the lowest first. Each may import from those before it, never from those after it. */
export const MODULES = [
  'paths',
  'node-options',
  'core',
  'regex',
  'expressions',
  'asn1',
  'logging',
  'settings',
  'protobuf',
  'grpc',
  'http',
  'dns',
  'kubernetes',
  'observe',
  'resources',
  'mcp',
  'sources',
  'store',
  'translators',
  'model',
  'policy',
  'analysis',
  'generate',
  'push',
  'security',
  'xds',
  'preview',
  'debug',
  'introspection',
  'object-status',
  'gateway-controller',
  'mesh-status',
  'webhooks',
  'workload-files',
  'discovery',
  'agent',
  'cli',
  'ctl-agent',
  'ctl-discovery',
  'ctl-jwt',
];

/** The same for the parts of large modules, by folder. */
export const PARTS: Readonly<Record<string, readonly string[]>> = {
  'src/grpc/': [
    'types',
    'buffers',
    'limits',
    'handshakes',
    'frames',
    'hpack',
    'headers',
    'messages',
    'compression',
    'streams',
    'client',
    'connection',
    'unary',
    'listening',
    'server',
    'index',
  ],
  // `views` and `types` are what generation takes and gives; those after `gateways` put it together.
  'src/generate/': [
    'indexes',
    'reads',
    'views',
    'types',
    'common',
    'domains',
    'filters',
    'policies',
    'secrets',
    'listener-plans',
    'endpoints',
    'names',
    'clusters',
    'listeners',
    'routes',
    'gateways',
    'grpc',
    'patches',
    'changed-facts',
    'touched-units',
    'generate',
    'index',
  ],
  'src/model/': [
    'types',
    'common',
    'policies',
    'workloads',
    'services',
    'addresses',
    'endpoints',
    'rules',
    'registry',
    'scopes',
    'host-index',
    'mesh',
    'snapshot',
    'model',
    'index',
  ],
  // `thread` runs in the policy thread, with all of those before it; `protocol` is for both sides.
  'src/policy/': ['types', 'config', 'language', 'attributes', 'adapters', 'runtime', 'protocol', 'thread', 'index'],
  'src/analysis/': ['types', 'messages', 'mesh', 'analyzers', 'analyze', 'documents', 'shown', 'index'],
  // Documents become listeners, backends of routes, then routes; all of them have statuses.
  'src/translators/gateway-api/': [
    'status-types',
    'documents',
    'precedence',
    'features',
    'conditions',
    'references',
    'revisions',
    'listeners',
    'backends',
    'routes',
    'statuses',
    'unserved-targets',
    'translator',
    'index',
  ],
  'src/push/': [
    'push',
    'demand-status',
    'types',
    'bundles',
    'earlier',
    'previews',
    'protocol',
    'reads',
    'proxies',
    'jobs',
    'views',
    'canary',
    'sessions',
    'engine',
    'index',
  ],
  // `admission` runs in a worker; `server`, on the main thread, imports no handler.
  'src/webhooks/': [
    'types',
    'tasks',
    'json-patch',
    'injection',
    'manifests',
    'validation',
    'admission',
    'server',
    'configurations',
    'index',
  ],
  // Each part is built from those before it; `program` builds them in this order.
  'src/discovery/': [
    'process',
    'config',
    'clusters',
    'registration',
    'pipeline',
    'controllers',
    'identity',
    'serving',
    'webhooks',
    'policy',
    'program',
    'index',
  ],
  // The protocol knows neither how requests are read nor who serves it.
  'src/xds/': ['protocol', 'on-demand', 'saved-hosts', 'request', 'server', 'index'],
};

/**
 * Files that are entry points besides a module's `index.ts`:
 * - `core` is a set of small, independent helpers without a common subject, so each file is an entry point.
 * - `cli` has one for each program, so that none holds another's code.
 * - `protobuf/wire` needs no generated code, and is used where that is not loaded.
 * - `protobuf/agent` has the agent's messages alone, for its memory.
 * - `protobuf/documents` has the mesh's documents, which few programs need.
 * - `agent/iptables` runs without the rest of the agent.
 * - `webhooks/manifests` is injection without a server; `discovery/config/webhook-settings` has the same settings for
 *   both, `discovery/config/model-settings` those of the model for `analyze`.
 * - `webhooks/injection` is loaded only where Pods are injected.
 */
export const MORE_ENTRY_POINTS: readonly RegExp[] = [
  /^src\/core\/(fairness\/|network\/|process\/|tls\/)?[^/]+\.ts$/,
  /^src\/cli\/(agent|discovery|jwt)\.ts$/,
  /^src\/protobuf\/wire\/index\.ts$/,
  /^src\/protobuf\/(agent|documents)\/index\.ts$/,
  /^src\/agent\/iptables\/index\.ts$/,
  /^src\/webhooks\/manifests\/index\.ts$/,
  /^src\/discovery\/config\/(model|webhook)-settings\.ts$/,
  /^src\/webhooks\/injection\/index\.ts$/,
];

/** Thread entry points are part of the modules whose code they run in a worker. */
export const THREADS: Readonly<Record<string, string>> = {
  'workers/admit.ts': 'src/webhooks/',
  'workers/generate.ts': 'src/push/',
  'workers/policy.ts': 'src/discovery/',
  'workers/protocol.ts': 'src/push/',
  'workers/sign.ts': 'src/security/',
};
