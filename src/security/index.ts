/** Entry point of security: the certificate authority, authentication of callers, key sets of token issuers. */
export { createAuthentication } from './authentication.ts';
export { createAuthority } from './authority/authority.ts';
export { createCertificateAuthenticator } from './certificate-authenticator.ts';
export { type CertificateObserver, createCertificateServices } from './certificate-service.ts';
export { type ClusterSigner, createClusterSigner } from './cluster-certificate/cluster-signer.ts';
export type { Fetch } from './fetch-json.ts';
export { guardedFetch } from './jwks/guarded-fetch.ts';
export { createKeySetResolver } from './jwks/resolver.ts';
export { followLocalIssuer, issueToken } from './local-issuer.ts';
export { followOidcIssuer } from './oidc.ts';
export { followServingCertificate, type ServingCertificateOptions } from './serving-certificate.ts';
export { followBundles, parseBundleEndpoints } from './spiffe-bundles.ts';
export { credentialsOfCall, MeshServerCredentials } from './tls-credentials.ts';
export { createTokenAuthenticator, type TokenIssuer } from './token-authenticator.ts';
export { requestReview } from './token-review/review-request.ts';
export { createTokenReviewer, type TokenReviewer } from './token-review/token-reviewer.ts';
export { readRoots, TrustBundles } from './trust.ts';
export type { Authentication, Authenticator, Authority, Caller } from './types.ts';
