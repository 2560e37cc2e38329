/** What the status of a Gateway says of Secrets that the control plane may not read, and whether they are served. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ObjectAccess } from '../../resources/index.ts';
import { certificates } from './testing/certificates.ts';
import { documentsOf, setChanges } from './testing/translated.ts';
import { GatewayApiTranslator } from './translator.ts';

const [CERTIFICATE, KEY] = [certificates.certificate, certificates.key].map((text) => JSON.stringify(text));

const gateway = (reference: string) => `
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {name: meshd}
spec: {controllerName: mesh.io/gateway-controller}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: public, namespace: edge, generation: 1}
spec:
  gatewayClassName: meshd
  listeners: [{name: a, port: 443, protocol: HTTPS, tls: {certificateRefs: [${reference}]}}]
---
apiVersion: gateway.networking.k8s.io/v1beta1
kind: ReferenceGrant
metadata: {name: all, namespace: other}
spec:
  from: [{group: gateway.networking.k8s.io, kind: Gateway, namespace: edge}]
  to: [{group: '', kind: Secret}]
`;

const secret = `
apiVersion: v1
kind: Secret
metadata: {name: pair, namespace: edge}
type: kubernetes.io/tls
stringData: {tls.crt: ${CERTIFICATE}, tls.key: ${KEY}}
`;

/** A translator, and what it says of the listener, and how that is served: by which Secrets, or why not. */
function started(reference: string, gatewaysReadSecrets: boolean) {
  const translator = new GatewayApiTranslator({ domain: 'cluster.local', areReadByName: true, gatewaysReadSecrets });
  let tls: { readonly keyPairs?: readonly { readonly name: string }[] | undefined; readonly closed?: string } = {};
  const apply = (changes: Parameters<GatewayApiTranslator['apply']>[0]) => {
    for (const { after } of translator.apply(changes)) {
      if (after?.kind === 'Gateway') tls = after.content.servers?.[0]?.tls as typeof tls;
    }
  };
  apply(setChanges(documentsOf(gateway(reference))));
  return {
    set: (yaml: string) => apply(setChanges(documentsOf(yaml))),
    access(access: ObjectAccess) {
      assert.ok(translator.setAccess('Secret', 'pair', access));
      apply([]);
    },
    state() {
      const [listener] = translator.statuses().get('KubernetesGateway/edge/public')?.status.listeners ?? [];
      const found = listener?.conditions.find(({ type }) => type === 'ResolvedRefs');
      const served = tls.closed === undefined ? tls.keyPairs?.map(({ name }) => name).join() : 'closed';
      return [found?.status, found?.message, served];
    },
  };
}

const FORBIDDEN = 'may not be read: the control plane has no right to list and watch Secrets of this name';
const PENDING = 'Secret edge/pair has not been read yet';
const ABSENT = 'Secret edge/pair does not exist or is not valid';
const RESOLVED = 'all references are resolved';

test('a Secret does not exist only where the control plane can read Secrets of its name', () => {
  const { access, set, state } = started('{name: pair}', false);
  assert.deepEqual(state(), ['False', PENDING, 'closed']);
  access('forbidden');
  assert.deepEqual(state(), ['False', `Secret edge/pair ${FORBIDDEN}`, 'closed']);
  access('read');
  assert.deepEqual(state(), ['False', ABSENT, 'closed']);
  set(secret);
  assert.deepEqual(state(), ['True', RESOLVED, 'pair']);
});

test('a gateway that reads Secrets itself serves one that the control plane does not know', () => {
  const { access, set, state } = started('{name: pair}', true);
  const unknown = 'the gateway reads Secret edge/pair itself; the control plane has not checked the Secret';
  assert.deepEqual(state(), ['True', unknown, 'pair']);
  access('forbidden');
  assert.deepEqual(state(), ['True', unknown, 'pair']);
  access('read');
  assert.deepEqual(state(), ['False', ABSENT, 'closed']);
  set(secret);
  assert.deepEqual(state(), ['True', RESOLVED, 'pair']);
});

test('a gateway never reads Secrets of another namespace itself', () => {
  const { access, state } = started('{name: pair, namespace: other}', true);
  access('forbidden');
  assert.deepEqual(state(), ['False', `Secret other/pair ${FORBIDDEN}`, 'closed']);
});
