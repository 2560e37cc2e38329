/**
 * YAML for code that loads it only when needed: `await import('…/core/yaml.ts')`. In a bundle, a dynamic import of the
 * package itself, which is CommonJS, would have no named exports.
 */
export { parse, stringify } from 'yaml';
