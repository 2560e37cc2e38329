/**
 * YAML for code that loads it only when there is some: `await import('…/core/yaml.ts')`. In a bundle with the package
 * inside, a dynamic import of the package itself, which is CommonJS, would give no names.
 */
export { parse, stringify } from 'yaml';
