/** `test/e2e/routing-registry.test.ts`, with the configuration in an API server. */
import { runFromApiServer } from '../support/from-api-server.ts';

await runFromApiServer('routing-registry');
