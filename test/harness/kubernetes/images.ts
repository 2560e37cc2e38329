/** Images of the simulated kubelet: programs of the harness, by the names that tests and samples use. */
import { join } from 'node:path';
import type { Image } from './kubelet.ts';

const ECHO = join(import.meta.dirname, '../echo-main.ts');

/** Answers HTTP on its first declared port with the name of its Pod. */
const echo: Image = ({ podName, ports: [port = 8080] }) => [
  process.execPath,
  ECHO,
  'http',
  podName,
  '0.0.0.0',
  String(port),
];

export const IMAGES = { echo } as const satisfies Readonly<Record<string, Image>>;
