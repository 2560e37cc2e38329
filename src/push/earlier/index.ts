/** What proxies should have had some minutes ago. */
export { type ContentHolder, EarlierContents } from './earlier-contents.ts';
