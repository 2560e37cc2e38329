/**
 * An echo backend in a process of its own, so that it can live in a network namespace:
 * `node echo-main.ts http|http2|tcp NAME ADDRESS PORT`. Prints `ready` when it listens.
 */
import { http2Echo, httpEcho, tcpEcho } from './echo-server.ts';

const [protocol, name = 'echo', address, port] = process.argv.slice(2);
const make = protocol === 'tcp' ? tcpEcho : protocol === 'http2' ? http2Echo : httpEcho;
const server = make(name);
server.listen(Number(port), address, () => process.stdout.write('ready\n'));
process.once('SIGTERM', () => process.exit(0));
