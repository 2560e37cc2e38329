/** The step `pages` of the set-up: the page application for programs that run from their sources. */
import { join } from 'node:path';
import { bundlePages } from './bundle.ts';

await bundlePages(join(import.meta.dirname, '../../pages/gen'));
