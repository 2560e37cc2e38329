/** Findings of analysis for the statuses of objects. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseAllDocuments } from 'yaml';
import { type Finding, inputOf } from '../../analysis/index.ts';
import { DEFAULT_SETTINGS } from '../../model/testing/settings.ts';
import { defaultMeshConfig, defaultMeshNetworks, parseResource } from '../../resources/index.ts';
import { SteppedClock } from '../testing/simulated-mesh.ts';
import { MeshFindings } from './mesh-findings.ts';
import { isForReaders, validationMessage } from './validation-messages.ts';

const finding = (changes: Partial<Finding>): Finding => ({
  code: 'IST0101',
  level: 'Warning',
  name: 'ReferencedResourceNotFound',
  message: 'not found',
  resource: { kind: 'VirtualService', namespace: 'shop', name: 'web' },
  origin: { source: 'kubernetes' },
  documentation: 'docs/reference/messages.md#ist0101',
  ...changes,
});

test('a finding has the form that Istio gives it', () => {
  assert.deepEqual(validationMessage(finding({})), {
    type: { name: 'ReferencedResourceNotFound', code: 'IST0101' },
    level: 'WARNING',
    documentationUrl: 'docs/reference/messages.md#ist0101',
    message: 'not found',
  });
});

test('a status tells nothing about other namespaces, except in the root namespace', () => {
  assert.ok(isForReaders(finding({}), 'root'));
  assert.ok(isForReaders(finding({ reveals: ['shop'] }), 'root'));
  assert.ok(!isForReaders(finding({ reveals: ['shop', 'bank'] }), 'root'));
  assert.ok(isForReaders(finding({ reveals: ['bank'] }), 'shop'));
});

const ROUTE = `
apiVersion: networking.mesh.io/v1alpha3
kind: VirtualService
metadata: { name: web, namespace: shop }
spec: { hosts: [web], http: [{ route: [{ destination: { host: backend } }] }] }
`;
const BACKEND = `
apiVersion: v1
kind: Service
metadata: { name: backend, namespace: shop }
spec: { ports: [{ name: http, port: 80 }] }
`;

const inputWith = (text: string) =>
  inputOf({
    resources: parseAllDocuments(text).flatMap((document) => {
      const origin = { source: 'kubernetes', uid: `uid-${document.getIn(['metadata', 'name'])}` };
      const parsed = parseResource(document.toJS(), origin, () => undefined);
      return 'resource' in parsed ? [parsed.resource] : [];
    }),
    problems: [],
    manifests: [],
    settings: DEFAULT_SETTINGS,
    mesh: defaultMeshConfig(),
    networks: defaultMeshNetworks(),
    annotationRules: new Map(),
    now: 0,
  });

test('the mesh is analyzed again after changes, and only documents with other findings are reported', () => {
  const clock = new SteppedClock();
  const changed: (readonly string[])[] = [];
  let text = ROUTE;
  const log = { debug: () => {}, info: () => {}, warn: () => {}, error: assert.fail };
  const onChanged = (keys: readonly string[]): void => void changed.push(keys);
  const findings = new MeshFindings({ clock, input: () => inputWith(text), log, onChanged });
  assert.equal(findings.of('uid-web'), undefined);
  findings.changed();
  clock.advance(60_000);
  assert.deepEqual(
    findings.of('uid-web')?.map(({ type }) => type.code),
    ['IST0101'],
  );
  assert.deepEqual(changed, [['VirtualService/shop/web']]);
  findings.changed();
  clock.advance(60_000);
  assert.equal(changed.length, 1);
  text = `${ROUTE}---${BACKEND}`;
  findings.changed();
  clock.advance(60_000);
  assert.deepEqual(findings.of('uid-web'), []);
  assert.deepEqual(changed, [['VirtualService/shop/web'], ['VirtualService/shop/web']]);
});
