/**
 * Door of gateways: listeners and routes of proxies that Gateway resources select.
 *
 *   Gateway servers ──merge per port──▶ plan ──▶ listeners (a chain per TLS server name)
 *   virtual services bound to them ─────────────▶ routes (`http.<port>`, `https.<port>.…`)
 */
export { namesSecrets } from '../secrets/credentials.ts';
export { secretsBehind } from '../secrets/secrets.ts';
export { gatewayListeners, gatewayListenerUnits } from './listeners.ts';
export { gatewayRoutes, gatewayRouteUnits } from './routes.ts';
export { gatewaySecrets, gatewaySecretUnits, missingByPort } from './secret-units.ts';
