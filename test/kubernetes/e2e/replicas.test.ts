/** `test/e2e/replicas.test.ts`, with the configuration in an API server. */
import { runFromApiServer } from '../support/from-api-server.ts';

await runFromApiServer('replicas');
