/**
 * Listeners, routes and secrets of proxies that Gateway resources select.
 *
 *   gateway plan ───────────────────────▶ listeners (a chain per TLS server name)
 *   virtual services bound to Gateways ─▶ routes (`http.<port>`, `https.<port>.…`)
 */
export { gatewayListeners, gatewayListenerUnits } from './listeners.ts';
export { gatewayRoutes, gatewayRouteUnits } from './routes.ts';
export { gatewaySecrets, gatewaySecretUnits } from './secret-units.ts';
