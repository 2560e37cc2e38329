/** A real OAuth server (oidc-provider) whose token endpoint exchanges JWTs of a test key (RFC 8693). */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { generateKeyPair, jwtVerify, SignJWT } from 'jose';
import { errors, Provider } from 'oidc-provider';
import { JWT_TYPE, TOKEN_EXCHANGE_GRANT } from '../../credentials/index.ts';

/** The client that the agent is; the secret has characters that HTTP Basic authentication of OAuth encodes. */
export const TEST_CLIENT = { id: 'mesh-agent', secret: 's3cr+t /%' };

export interface OAuthServer {
  readonly tokenEndpoint: string;
  /** Exchanges that were granted. */
  readonly granted: () => number;
  /** Signs a workload's token. */
  subjectToken(subject: string, seconds?: number): Promise<string>;
  /** Whether an access token is one of the server's, and for whom it was exchanged. */
  subjectOf(accessToken: string): Promise<string | undefined>;
  close(): Promise<void>;
}

export async function startOAuthServer(): Promise<OAuthServer> {
  const { privateKey, publicKey } = await generateKeyPair('ES256');
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const provider = new Provider(issuer, {
    clients: [
      {
        client_id: TEST_CLIENT.id,
        client_secret: TEST_CLIENT.secret,
        grant_types: [TOKEN_EXCHANGE_GRANT],
        redirect_uris: [],
        response_types: [],
        scope: 'read write',
      },
    ],
    scopes: ['read', 'write'],
    features: { devInteractions: { enabled: false } },
    ttl: { ClientCredentials: 3600 },
  });
  const subjects = new Map<string, string>();
  let granted = 0;
  const parameters = ['audience', 'resource', 'scope', 'requested_token_type', 'subject_token', 'subject_token_type'];
  provider.registerGrantType(
    TOKEN_EXCHANGE_GRANT,
    async (context) => {
      const { client } = context.oidc;
      const params: Readonly<Record<string, unknown>> = context.oidc.params ?? {};
      if (client === undefined) throw new errors.InvalidClient('no client');
      if (params.subject_token_type !== JWT_TYPE) throw new errors.InvalidRequest('a JWT is expected');
      if (params.audience === 'nowhere') throw new errors.InvalidTarget('no such audience');
      const subject = await jwtVerify(String(params.subject_token), publicKey).catch(() => undefined);
      if (subject === undefined) throw new errors.InvalidGrant(`not accepted: ${String(params.subject_token)}`);
      const wanted = typeof params.scope === 'string' ? params.scope : 'read';
      if (wanted.split(' ').some((name) => name !== 'read' && name !== 'write'))
        throw new errors.InvalidScope('unknown scope', wanted);
      const token = new provider.ClientCredentials({ client, scope: wanted });
      const value = await token.save();
      subjects.set(value, subject.payload.sub ?? '');
      granted++;
      context.body = {
        access_token: value,
        issued_token_type: 'urn:ietf:params:oauth:token-type:access_token',
        token_type: 'Bearer',
        expires_in: token.expiration,
        scope: wanted,
      };
    },
    parameters,
  );
  server.on('request', provider.callback());
  return {
    tokenEndpoint: `${issuer}/token`,
    granted: () => granted,
    subjectToken: (subject, seconds = 600) =>
      new SignJWT({})
        .setProtectedHeader({ alg: 'ES256' })
        .setSubject(subject)
        .setExpirationTime(Math.floor(Date.now() / 1000) + seconds)
        .sign(privateKey),
    async subjectOf(accessToken) {
      const found = await provider.ClientCredentials.find(accessToken);
      return found === undefined ? undefined : subjects.get(accessToken);
    },
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}
