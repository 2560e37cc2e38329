/**
 * The inner end of the relay, run in a namespace: `node relay-main.ts ADDRESS PORT UNIX-SOCKET`. Prints `ready` when it
 * listens.
 */
import { createRelay } from './relay.ts';

const [address = '', port = '', path = ''] = process.argv.slice(2);
createRelay({ path }).listen(Number(port), address, () => process.stdout.write('ready\n'));
process.once('SIGTERM', () => process.exit(0));
