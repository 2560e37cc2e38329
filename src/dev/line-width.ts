/**
 * Part of the lint stage: no line of code has more than 120 columns. The formatter breaks statements, but neither
 * strings nor comments.
 */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const MAX_COLUMNS = 120;

const SOURCES = ['src/**/*.{ts,mjs}', 'workers/**/*.ts', 'proto/*.ts', 'bench/**/*.{ts,mjs}', 'test/**/*.{ts,mjs}'];

/** Tables of documents, one document on each line. */
const TABLES = ['test/golden-harness/random-mesh-*.ts'];

/** Files whose long lines are still to be broken. */
const UNFINISHED: readonly string[] = [
  'bench/benches/memory.ts',
  'bench/report/report.ts',
  'bench/report/svg.ts',
  'bench/report/table.ts',
  'bench/world/documents.ts',
  'src/agent/bootstrap/stats.ts',
  'src/agent/envoy/listener-refusals.test.ts',
  'src/agent/envoy/supervisor.test.ts',
  'src/agent/health/readiness.test.ts',
  'src/agent/health/readiness.ts',
  'src/agent/identity/ca-client.ts',
  'src/agent/identity/file-secrets.test.ts',
  'src/agent/identity/identity.test.ts',
  'src/agent/identity/index.ts',
  'src/agent/identity/rotation.test.ts',
  'src/agent/identity/sds.test.ts',
  'src/agent/iptables/options.ts',
  'src/agent/iptables/validate.ts',
  'src/agent/metrics/metrics.test.ts',
  'src/agent/settings/watch-addresses.ts',
  'src/core/redact.ts',
  'src/dev/crds/rules.ts',
  'src/dev/docs/reference.ts',
  'src/generate/endpoints/encode.test.ts',
  'src/generate/filters/access-log.ts',
  'src/generate/listeners/inbound.test.ts',
  'src/generate/listeners/outbound.test.ts',
  'src/generate/plans/gateway-servers.ts',
  'src/generate/plans/inbound-plan.ts',
  'src/generate/routes/outbound.test.ts',
  'src/generate/secrets/credentials.ts',
  'src/generate/touched-units.test.ts',
  'src/model/ownership.test.ts',
  'src/model/scopes.test.ts',
  'src/model/service-record.test.ts',
  'src/model/services.test.ts',
  'src/push/bundles/encode-resource.ts',
  'src/push/engine/engine-secrets.test.ts',
  'src/push/engine/engine.test.ts',
  'src/push/engine/view-table.ts',
  'src/push/jobs/pool-generator.test.ts',
  'src/push/proxies/proxy-views.test.ts',
  'src/resources/inline-keys.ts',
  'src/resources/parse.test.ts',
  'src/resources/parse.ts',
  'src/resources/substitute.test.ts',
  'src/resources/unknown-fields.test.ts',
  'src/resources/validate/gateway.ts',
  'src/resources/validate/http-route.ts',
  'src/resources/validate/security.ts',
  'src/security/authority/authority.test.ts',
  'src/security/authority/authority.ts',
  'src/security/authority/directory-lock.ts',
  'src/security/authority/plugged.test.ts',
  'src/security/authority/signing-pool.ts',
  'src/security/jwks/resolver.ts',
  'src/sources/directory/directory.test.ts',
  'src/sources/directory/documents.test.ts',
  'src/sources/directory/ledger.test.ts',
  'src/sources/directory/plain-yaml.test.ts',
  'src/sources/directory/plain-yaml.ts',
  'src/sources/sources.test.ts',
  'src/store/debounce.test.ts',
  'src/store/last-good.test.ts',
  'src/store/last-good.ts',
  'src/store/refused-policies.test.ts',
  'src/store/refused-policies.ts',
  'src/store/several-sources.property.test.ts',
  'src/store/several-sources.test.ts',
  'src/store/store.test.ts',
  'test/e2e/authorization.test.ts',
  'test/e2e/debug.test.ts',
  'test/e2e/dual-stack.test.ts',
  'test/e2e/gateway-mesh.test.ts',
  'test/e2e/gateway-tls.test.ts',
  'test/e2e/h2spec.test.ts',
  'test/e2e/idle-connections.test.ts',
  'test/e2e/path-confusion.test.ts',
  'test/e2e/peer-auth.test.ts',
  'test/e2e/policy-refused.test.ts',
  'test/e2e/redirect.test.ts',
  'test/e2e/support/documents.ts',
  'test/e2e/support/paths-forms.ts',
  'test/eventually.test.ts',
  'test/h2spec/build.ts',
];

/** One message for each line that is too long, `file:line: …`, in the order of files and lines. */
export function wideLines(repository: string): string[] {
  const exclude = [...TABLES, ...UNFINISHED];
  return globSync(SOURCES, { cwd: repository, exclude })
    .sort()
    .flatMap((file) =>
      readFileSync(join(repository, file), 'utf8')
        .split('\n')
        .flatMap((line, index) => {
          const columns = [...line].length;
          return columns > MAX_COLUMNS ? [`${file}:${index + 1}: ${columns} columns, at most ${MAX_COLUMNS}`] : [];
        }),
    );
}
