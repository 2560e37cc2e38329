/** Entry point of the security token service (--stsPort). */
export { type StsServer, startStsServer } from './server.ts';
