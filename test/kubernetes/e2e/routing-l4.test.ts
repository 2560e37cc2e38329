/** `test/e2e/routing-l4.test.ts`, with the configuration in an API server. */
import { runFromApiServer } from '../support/from-api-server.ts';

await runFromApiServer('routing-l4');
