/** `test/e2e/gateway-secrets.test.ts`, with the configuration in an API server, which also issues and reviews the tokens. */
import { runFromApiServer } from '../support/from-api-server.ts';

await runFromApiServer('gateway-secrets');
