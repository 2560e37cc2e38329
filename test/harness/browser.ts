/** A headless Chromium, for tests of pages. */
import { existsSync } from 'node:fs';
import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { AxeResults, RunOptions } from 'axe-core';
import { type BrowserContext, chromium, type Page } from 'playwright-core';
import type { Owner } from './owner.ts';

const REPOSITORY = join(import.meta.dirname, '../..');

/** Where Debian's package has it; the set-up installs it. */
const PROGRAM = '/usr/bin/chromium-headless-shell';

/** Why there is no browser; undefined when there is one. */
export function browserUnavailable(): string | undefined {
  return existsSync(PROGRAM) ? undefined : `needs ${PROGRAM} (the Debian package chromium-headless-shell)`;
}

/** Pictures of pages, for people to look at; the folder is not committed. */
const SCREENSHOTS = join(REPOSITORY, 'var/screenshots');

export interface Browser {
  readonly page: Page;
  readonly context: BrowserContext;
  /** What pages reported as errors so far: in the console, uncaught, or blocked by their content security policy. */
  readonly errors: readonly string[];
  /** Violations of accessibility rules on the page as it is now, one line each. */
  violations(): Promise<readonly string[]>;
  /** @param whole with what is below the window; default true */
  screenshot(name: string, whole?: boolean): Promise<void>;
}

/** Starts the browser with one page; it ends with its owner. */
export async function startBrowser(owner: Owner, baseURL: string): Promise<Browser> {
  const browser = await chromium.launch({ executablePath: PROGRAM, args: ['--no-sandbox', '--disable-gpu'] });
  owner.after(() => browser.close());
  const context = await browser.newContext({ baseURL, viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  const errors: string[] = [];
  page.on('console', (message) => {
    if (message.type() === 'error') errors.push(`${message.text()} (${message.location().url})`);
  });
  page.on('pageerror', (error) => errors.push(error.message));
  const axe = await readFile(join(REPOSITORY, 'node_modules/axe-core/axe.min.js'), 'utf8');
  return {
    page,
    context,
    errors,
    async violations() {
      await page.evaluate(axe);
      const options: RunOptions = { resultTypes: ['violations'] };
      const script = `axe.run(document, ${JSON.stringify(options)})`;
      const { violations } = (await page.evaluate(script)) as AxeResults;
      return violations.flatMap(({ id, help, nodes }) => nodes.map(({ html }) => `${id}: ${help}: ${html}`));
    },
    async screenshot(name, whole = true) {
      await mkdir(SCREENSHOTS, { recursive: true });
      await page.screenshot({ path: join(SCREENSHOTS, `${name}.png`), fullPage: whole });
    },
  };
}
