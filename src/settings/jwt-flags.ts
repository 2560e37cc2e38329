/** The flags of ctl-jwt. */

import type { FlagTable } from './flag-table.ts';

/** The default of the claims `iss` and `sub`. */
const DEFAULT_ISSUER = 'testing@secure.mesh.io';

export const jwtFlags = {
  alg: {
    type: 'string',
    default: '',
    meaning:
      'Signature algorithm: RS256 to RS512 or PS256 to PS512 for an RSA key; ES256, ES384 or ES512 for the curve ' +
      'of an EC key; EdDSA for an Ed25519 key. By default that of the key, RS256 for RSA.',
  },
  aud: {
    type: 'stringSlice',
    default: [],
    meaning:
      'Audience of the token; several, separated by commas or given repeatedly, are written as a list. None by ' +
      'default.',
  },
  claims: {
    type: 'stringArray',
    default: [],
    meaning:
      'Further claims: name:value,name:value with strings as values, or a JSON object for values of any kind; may be ' +
      'given repeatedly. A claim given here overrides the other flags.',
  },
  expire: {
    type: 'int',
    default: 3600,
    unit: 'seconds',
    meaning: 'Seconds from now until the token expires; with a negative number it has expired already.',
  },
  iss: { type: 'string', default: DEFAULT_ISSUER, meaning: 'Issuer of the token.' },
  jwks: {
    type: 'bool',
    default: false,
    meaning:
      'Print the JSON Web Key Set with the public key, for jwks or jwksUri of a RequestAuthentication; no token.',
  },
  kid: {
    type: 'string',
    default: '',
    meaning: 'Name of the key in the token and in the key set; by default its thumbprint (RFC 7638).',
  },
  nested: {
    type: 'stringArray',
    default: [],
    meaning:
      'Claims inside the claim "nested", written as for --claims: --nested group:admin gives ' +
      '{"nested":{"group":"admin"}}, which a policy names request.auth.claims[nested][group].',
  },
  sub: { type: 'string', default: '', meaning: 'Subject of the token; by default the issuer.' },
} as const satisfies FlagTable;
