/**
 * An application as a process in a network namespace: `node application-main.ts NAME PORT [URL-IT-CALLS]`.
 */
import { createServer } from 'node:http';
import { application } from './applications.ts';

const [name = 'application', port = '', calls] = process.argv.slice(2);
createServer(application(name, calls)).listen(Number(port), '0.0.0.0', () => process.stdout.write('ready\n'));
process.once('SIGTERM', () => process.exit(0));
