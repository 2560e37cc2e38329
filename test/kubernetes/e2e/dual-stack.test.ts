/** `test/e2e/dual-stack.test.ts`, with the configuration in an API server. */
import { runFromApiServer } from '../support/from-api-server.ts';

await runFromApiServer('dual-stack');
