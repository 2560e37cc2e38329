/** `test/e2e/nack.test.ts`, with the configuration in an API server. */
import { runFromApiServer } from '../support/from-api-server.ts';

await runFromApiServer('nack');
