/**
 * `deploy/rbac.yaml`: the account of ctl-discovery and all permissions that its Helm chart can give it, for use without
 * Helm. Its rules are the files that the chart reads, with their comments. All tests with an API server run
 * ctl-discovery under exactly these permissions.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';

const DEPLOY = join(import.meta.dirname, '../../deploy');
const RULES = join(DEPLOY, 'charts/ctl-discovery/rules');

export const RBAC_FILE = join(DEPLOY, 'rbac.yaml');

const HEAD = `\
# The account of ctl-discovery and what it may do, for clusters without Helm: what charts/ctl-discovery creates with all
# options. Made from charts/ctl-discovery/rules by \`UPDATE_RBAC=1 npm test -- unit rbac\`: edit the rules there.
apiVersion: v1
kind: Namespace
metadata:
  name: mesh-system
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: ctl-discovery
  namespace: mesh-system
`;

/** The text of a file of rules without its head, which ends with the first empty line. Empty without rules. */
function rulesOf(file: string): string {
  const text = readFileSync(join(RULES, file), 'utf8');
  return (parse(text) as readonly object[]).length === 0 ? '' : text.slice(text.indexOf('\n\n') + 2);
}

/** A ClusterRole that the program binds accounts of gateways to. */
function gatewayRole(): string {
  return `\
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: ctl-discovery-mesh-system-gateway-secrets
rules:
${indented(rulesOf('gateway-secrets.yaml'))}`;
}

function indented(rules: string): string {
  return rules.replace(/^(?=.)/gm, '  ');
}

function roleAndBinding(kind: 'ClusterRole' | 'Role', files: readonly string[]): string {
  const rules = files.map(rulesOf).join('');
  if (rules === '') return '';
  const namespace = kind === 'Role' ? '  namespace: mesh-system\n' : '';
  return `\
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ${kind}
metadata:
  name: ctl-discovery
${namespace}rules:
${indented(rules)}---
apiVersion: rbac.authorization.k8s.io/v1
kind: ${kind}Binding
metadata:
  name: ctl-discovery
${namespace}roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ${kind}
  name: ctl-discovery
subjects:
  - kind: ServiceAccount
    name: ctl-discovery
    namespace: mesh-system
`;
}

export function rbacText(): string {
  return [
    HEAD,
    roleAndBinding('ClusterRole', [
      'cluster.yaml',
      'cluster-gateway-api.yaml',
      'cluster-gateway-secrets.yaml',
      'cluster-statuses.yaml',
      'cluster-workloads.yaml',
    ]),
    gatewayRole(),
    roleAndBinding('Role', ['namespace.yaml', 'namespace-reports.yaml', 'namespace-clusters.yaml']),
  ].join('');
}
