/** An application that terminates TLS itself, for clients whose proxies originate it. */
import assert from 'node:assert/strict';
import { eventually } from '../../harness/index.ts';
import type { CertificateFiles } from './foreign-certificate.ts';
import type { Workload } from './identity-world.ts';

export const TLS_PORT = 8443;

/** Answers `<name in the client's certificate, or nobody> asks <server name> over <version of TLS>`. */
export async function startTlsApplication(
  at: Workload,
  own: CertificateFiles,
  clients: CertificateFiles,
): Promise<void> {
  const program = `
    const [cert, key, ca, port] = process.argv.slice(1);
    const read = require('node:fs').readFileSync;
    const options = { cert: read(cert), key: read(key), ca: read(ca), requestCert: true, rejectUnauthorized: false };
    require('node:https').createServer(options, ({ socket }, response) => {
      const name = socket.authorized ? socket.getPeerCertificate().subjectaltname : 'nobody';
      response.end(name + ' asks ' + socket.servername + ' over ' + socket.getProtocol());
    }).listen(Number(port), '0.0.0.0', () => console.log('ready'));`;
  const argv = [process.execPath, '-e', program, own.certificate, own.key, clients.certificate, String(TLS_PORT)];
  const child = await at.netns.start('TLS server', argv);
  await eventually(() => assert.match(child.output(), /ready/));
}
