/** Entry point of security: the certificate authority, authentication of callers, key sets of token issuers. */
export { createAuthentication } from './authentication.ts';
export { type AuthorityOptions, createAuthority } from './authority/authority.ts';
export {
  createSecretStore,
  ROOT_CERT_KEY,
  ROOT_CONFIG_MAP,
} from './authority/store-secret.ts';
export { createCertificateAuthenticator } from './certificate-authenticator.ts';
export { type CertificateObserver, createCertificateServices } from './certificate-service.ts';
export { type ClusterSigner, createClusterSigner } from './cluster-certificate/cluster-signer.ts';
export type { Fetch } from './fetch-json.ts';
export { guardedAddress, guardedFetch } from './jwks/guarded-fetch.ts';
export { createKeySetResolver } from './jwks/resolver.ts';
export { followLocalIssuer, issueToken } from './local-issuer.ts';
export { followOidcIssuer } from './oidc.ts';
export { shownBy } from './peer-certificates.ts';
export { followServingCertificate, type ServingCertificateOptions } from './serving-certificate.ts';
export { followBundles, parseBundleEndpoints } from './spiffe-bundles.ts';
export { credentialsOfCall, MeshServerCredentials } from './tls-credentials.ts';
export { createTokenAuthenticator, type TokenIssuer } from './token-authenticator.ts';
export { createClusterReviews } from './token-review/cluster-reviews.ts';
export { OtherClusters } from './token-review/other-clusters.ts';
export { createTokenReviewer, type TokenReviewer, type TokenReviewerOptions } from './token-review/token-reviewer.ts';
export { readRoots, TrustBundles } from './trust.ts';
export type { Authentication, Authenticator, Authority, Caller } from './types.ts';
