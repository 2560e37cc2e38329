/** The port of DNS over TLS in the chart of the control plane. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { parseAllDocuments } from 'yaml';
import { helmUnavailable, renderChart } from '../harness/kubernetes/index.ts';

const PORT = 15_053;

interface Container {
  readonly env: readonly { readonly name: string; readonly value?: string }[];
  readonly ports: readonly { readonly name: string; readonly containerPort: number }[];
}

interface Rendered {
  readonly kind: string;
  readonly spec: {
    readonly template: { readonly spec: { readonly containers: readonly Container[] } };
    readonly ports: readonly { readonly port: number; readonly targetPort: string }[];
    readonly ingress: readonly { readonly ports: readonly { readonly port: number }[] }[];
  };
}

/** Where the rendered objects have the port. */
async function renderedDns(t: TestContext, values: object) {
  const text = await renderChart(t, { chart: 'ctl-discovery', namespace: 'mesh-system', values });
  const objects = parseAllDocuments(text).map((document) => document.toJS() as Rendered | null);
  const specOf = (kind: string) => objects.find((object) => object?.kind === kind)?.spec ?? assert.fail(`no ${kind}`);
  const [container] = specOf('Deployment').template.spec.containers;
  assert.ok(container);
  return {
    variable: container.env.find(({ name }) => name === 'DNS_ADDR')?.value,
    container: container.ports.filter((each) => each.containerPort === PORT).map(({ name }) => name),
    service: specOf('Service').ports.flatMap(({ port, targetPort }) => (port === PORT ? [targetPort] : [])),
    policy: specOf('NetworkPolicy').ingress.some(({ ports }) => ports.some(({ port }) => port === PORT)),
  };
}

test('the chart serves DNS over TLS where it is on', { skip: helmUnavailable() ?? false }, async (t) => {
  const off = { variable: undefined, container: [], service: [], policy: false };
  assert.deepEqual(await renderedDns(t, {}), off);
  const on = { variable: `:${PORT}`, container: ['tls-dns'], service: ['tls-dns'], policy: true };
  assert.deepEqual(await renderedDns(t, { dns: { enabled: true } }), on);
});
