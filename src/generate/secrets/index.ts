/**
 * Certificates in Secrets: those that servers and clusters of gateways name, whether they are available, and their SDS
 * resources.
 */
export {
  type ClientCredential,
  clientCredentials,
  clientSecretUnits,
  gatewayKeyPair,
  isClientSecret,
  MISSING_KEY_PAIR,
  namingSecrets,
  readCredential,
} from './client-credentials.ts';
export { namesSecrets, type RequestedSecret, type ServerCredentials, serverCredentials } from './credentials.ts';
export { adsSecret, changedCredentials, encodeSecret } from './secrets.ts';
