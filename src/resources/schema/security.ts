/** PeerAuthentication, RequestAuthentication and AuthorizationPolicy. */
import { z } from 'zod';
import { duration, strings, targetRef, workloadSelector } from './common.ts';
import { secret } from './secret.ts';

const mutualTls = z.strictObject({ mode: z.enum(['UNSET', 'DISABLE', 'PERMISSIVE', 'STRICT']).optional() });

const policyTarget = {
  selector: workloadSelector.optional(),
  targetRef: targetRef.optional(),
  targetRefs: z.array(targetRef).optional(),
};

export const peerAuthentication = z.strictObject({
  selector: workloadSelector.optional(),
  mtls: mutualTls.optional(),
  /** By container port, as a string. */
  portLevelMtls: z.record(z.string(), mutualTls).optional(),
});

const jwtRule = z.strictObject({
  issuer: secret('url', z.string()).optional(),
  audiences: strings.optional(),
  jwksUri: secret('url', z.string()).optional(),
  jwks: secret('keySet', z.string()).optional(),
  fromHeaders: z.array(z.strictObject({ name: z.string(), prefix: z.string().optional() })).optional(),
  fromParams: strings.optional(),
  fromCookies: strings.optional(),
  outputPayloadToHeader: z.string().optional(),
  forwardOriginalToken: z.boolean().optional(),
  outputClaimToHeaders: z.array(z.strictObject({ header: z.string(), claim: z.string() })).optional(),
  timeout: duration.optional(),
  spaceDelimitedClaims: strings.optional(),
});

export const requestAuthentication = z.strictObject({ ...policyTarget, jwtRules: z.array(jwtRule).optional() });

const source = z.strictObject({
  principals: strings.optional(),
  notPrincipals: strings.optional(),
  requestPrincipals: strings.optional(),
  notRequestPrincipals: strings.optional(),
  namespaces: strings.optional(),
  notNamespaces: strings.optional(),
  trustDomains: strings.optional(),
  notTrustDomains: strings.optional(),
  serviceAccounts: strings.optional(),
  notServiceAccounts: strings.optional(),
  ipBlocks: strings.optional(),
  notIpBlocks: strings.optional(),
  remoteIpBlocks: strings.optional(),
  notRemoteIpBlocks: strings.optional(),
});

const operation = z.strictObject({
  hosts: strings.optional(),
  notHosts: strings.optional(),
  ports: strings.optional(),
  notPorts: strings.optional(),
  methods: strings.optional(),
  notMethods: strings.optional(),
  paths: strings.optional(),
  notPaths: strings.optional(),
});

const condition = secret(
  'condition',
  z.strictObject({ key: z.string(), values: strings.optional(), notValues: strings.optional() }),
);

const rule = z.strictObject({
  from: z.array(z.strictObject({ source })).optional(),
  to: z.array(z.strictObject({ operation })).optional(),
  when: z.array(condition).optional(),
});

export const authorizationPolicy = z.strictObject({
  ...policyTarget,
  rules: z.array(rule).optional(),
  action: z.enum(['ALLOW', 'DENY', 'AUDIT', 'CUSTOM']).optional(),
  provider: z.strictObject({ name: z.string().optional() }).optional(),
});

/** The fetched keys of a token issuer: see `key-sets.ts`. */
export const jsonWebKeySet = z.strictObject({ jwks: secret('keySet', z.string()) });

export type PeerAuthenticationSpec = z.output<typeof peerAuthentication>;
export type RequestAuthenticationSpec = z.output<typeof requestAuthentication>;
export type JwtRule = z.output<typeof jwtRule>;
export type AuthorizationPolicySpec = z.output<typeof authorizationPolicy>;
export type AuthorizationRule = z.output<typeof rule>;
export type AuthorizationSource = z.output<typeof source>;
export type AuthorizationOperation = z.output<typeof operation>;
export type AuthorizationCondition = z.output<typeof condition>;
