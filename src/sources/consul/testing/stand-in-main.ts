/**
 * A stand-in for Consul in a process of its own: `node stand-in-main.ts PORT INDEX`. It has no services until a test
 * registers some, and prints `ready` when it listens.
 */
import { StandInRegistry } from './stand-in-registry.ts';
import { serveStandIn } from './stand-in-server.ts';

const [, , port = '8500', index = '10'] = process.argv;
await serveStandIn(new StandInRegistry('dc1', Number(index)), Number(port));
process.stdout.write('ready\n');
