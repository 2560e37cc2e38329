/**
 * Certificates in Secrets: what the servers of gateways and the clusters of gateways name, whether it is there, and its
 * SDS resources.
 */
export {
  type ClientCredential,
  clientCredentials,
  clientSecretUnits,
  isClientSecret,
  namingSecrets,
  readCredential,
} from './client-credentials.ts';
export { namesSecrets, type ServerCredentials, serverCredentials } from './credentials.ts';
export { adsSecret, changedCredentials, encodeSecret } from './secrets.ts';
