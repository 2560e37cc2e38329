/** The HTTPS server of webhooks, and the pool that answers its requests. Imports no code that decides about reviews. */
export type { CallerRank } from './callers.ts';
export { type AdmissionPool, type AdmissionPoolOptions, createAdmissionPool } from './pool.ts';
export {
  type ServerCertificateSource,
  startWebhookServer,
  type WebhookObserver,
  type WebhookServer,
  type WebhookServerOptions,
} from './server.ts';
