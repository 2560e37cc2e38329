/** Checks that no secret of a message is shown. The fields to test are read from the messages themselves. */
import assert from 'node:assert/strict';
import { describe, it, test } from 'node:test';
import protobuf from 'protobufjs';
import { allDescriptors } from './descriptors.ts';
import { redactProtoJson, toProtoJson, toShownJson } from './index.ts';
import { fieldRedaction } from './sensitive.ts';

const SENTINEL = 'Sup3rS3cret';
const SAMPLES = [SENTINEL, `https://user:${SENTINEL}@host`, JSON.stringify({ keys: [{ kty: 'oct', k: SENTINEL }] })];
const root = allDescriptors();

function* messages(namespace: protobuf.NamespaceBase): Generator<protobuf.Type> {
  for (const nested of namespace.nestedArray) {
    if (nested instanceof protobuf.Type) yield nested;
    if (nested instanceof protobuf.Namespace) yield* messages(nested);
  }
}

/** A message for an `Any` with a secret in it. */
function anyOf(text: string): object {
  const value = root
    .lookupType('google.protobuf.Struct')
    .encode({ fields: { plain: { stringValue: text } } })
    .finish();
  return { typeUrl: 'type.googleapis.com/google.protobuf.Struct', value };
}

function valueFor({ resolvedType, type }: protobuf.Field, text: string): unknown {
  if (resolvedType?.fullName === '.google.protobuf.Any') return anyOf(text);
  if (resolvedType instanceof protobuf.Type && resolvedType.fields.inlineString === undefined) {
    const texts = resolvedType.fieldsArray.filter((field) => field.type === 'string');
    return Object.fromEntries(texts.map(({ name }) => [name, text]));
  }
  if (resolvedType !== null) return { inlineString: text };
  return type === 'bytes' ? Buffer.from(text) : text;
}

function holding(field: protobuf.Field, text: string): object {
  const value = valueFor(field, text);
  return { [field.name]: field.repeated ? [value] : field.map ? { any: value } : value };
}

/** As text, with lazy lists read. */
function printed(value: unknown): string {
  const spread = (inner: unknown): unknown =>
    inner !== null && typeof inner === 'object' && Symbol.iterator in inner ? [...(inner as Iterable<unknown>)] : inner;
  return JSON.stringify(value, (_key, inner) => spread(inner));
}

/** The same, with the decoded text of base64 beside it. */
function readable(value: unknown): string {
  return printed(value).replace(
    /"([A-Za-z0-9+/]+=*)"/g,
    (whole, base64) => whole + Buffer.from(base64, 'base64').toString(),
  );
}

const types = new Map([...messages(root)].map((type) => [type.fullName, type]));

describe('a secret of a message is not shown', () => {
  for (const type of types.values()) {
    for (const field of type.fieldsArray) {
      const redaction = fieldRedaction(field);
      if (redaction === undefined) continue;
      it(field.fullName.slice(1), () => {
        for (const sample of SAMPLES.filter((text) => !redaction(text).includes(SENTINEL))) {
          const name = type.fullName.slice(1);
          const bytes = type.encode(holding(field, sample)).finish();
          assert.match(readable(toProtoJson(name, bytes)), new RegExp(SENTINEL));
          const shown = readable(toShownJson(name, bytes));
          assert.doesNotMatch(shown, new RegExp(SENTINEL));
          assert.match(shown, /\[redacted\]/);
        }
      });
    }
  }
});

const shown = (name: string, message: object): unknown =>
  JSON.parse(printed(toShownJson(name, root.lookupType(name).encode(message).finish())));

test('values are hidden by the name beside them', () => {
  const route = 'envoy.config.route.v3.Route';
  const header = (key: string, value: string) => ({ header: { key, value } });
  assert.deepEqual(
    shown(route, {
      requestHeadersToAdd: [header('authorization', SENTINEL), header('x-version', 'v2')],
      match: {
        prefix: '/',
        headers: [{ name: 'cookie', stringMatch: { exact: SENTINEL } }],
        queryParameters: [{ name: 'access_token', stringMatch: { exact: SENTINEL } }],
      },
      metadata: {
        filterMetadata: { any: { fields: { password: { stringValue: SENTINEL }, n: { stringValue: 'x' } } } },
      },
    }),
    {
      match: {
        prefix: '/',
        headers: [{ name: 'cookie', string_match: { exact: '[redacted]' } }],
        query_parameters: [{ name: 'access_token', string_match: { exact: '[redacted]' } }],
      },
      metadata: { filter_metadata: { any: { n: 'x', password: '[redacted]' } } },
      request_headers_to_add: [
        { header: { key: 'authorization', value: '[redacted]' } },
        { header: { key: 'x-version', value: 'v2' } },
      ],
    },
  );
});

test('certificates, and the location of a key, are shown', () => {
  const name = 'envoy.extensions.transport_sockets.tls.v3.Secret';
  const tlsCertificate = { certificateChain: { inlineString: 'PEM' }, privateKey: { filename: '/etc/key.pem' } };
  assert.deepEqual(shown(name, { name: 'a', tlsCertificate }), {
    name: 'a',
    tls_certificate: { certificate_chain: { inline_string: 'PEM' }, private_key: { filename: '/etc/key.pem' } },
  });
});

test('a message that is not compiled is not shown', () => {
  const typedConfig = { typeUrl: 'type.googleapis.com/not.compiled', value: Buffer.from(SENTINEL) };
  assert.deepEqual(shown('envoy.config.core.v3.TypedExtensionConfig', { name: 'a', typedConfig }), {
    name: 'a',
    typed_config: { '@type': 'type.googleapis.com/not.compiled', value: '[redacted]' },
  });
});

test('a plugin configuration in one string is not shown', () => {
  for (const name of ['StringValue', 'BytesValue']) {
    const type = root.lookupType(`google.protobuf.${name}`);
    const typedConfig = {
      typeUrl: `type.googleapis.com/google.protobuf.${name}`,
      value: type.encode({ value: name === 'StringValue' ? SENTINEL : Buffer.from(SENTINEL) }).finish(),
    };
    const config = { '@type': typedConfig.typeUrl, value: '[redacted]' };
    const message = 'envoy.config.core.v3.TypedExtensionConfig';
    assert.deepEqual(shown(message, { name: 'a', typedConfig }), { name: 'a', typed_config: config });
    const written = { name: 'a', typedConfig: { ...config, value: SENTINEL } };
    assert.deepEqual(redactProtoJson(message, written), { name: 'a', typedConfig: config });
  }
});

test('long lists are generated while they are read', () => {
  const list = Array.from({ length: 20 }, (_, index) => ({ name: `h${index}`, domains: ['*'] }));
  const name = 'envoy.config.route.v3.RouteConfiguration';
  const { virtual_hosts: hosts } = toShownJson(name, root.lookupType(name).encode({ virtualHosts: list }).finish()) as {
    virtual_hosts: Iterable<{ name: string }>;
  };
  assert.ok(!Array.isArray(hosts));
  assert.deepEqual(
    [...hosts].map((host) => host.name),
    list.map((host) => host.name),
  );
});
