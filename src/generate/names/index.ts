/** The names that a proxy's DNS server answers. */
export { encodedChunks } from './chunks.ts';
export { nameTable, nameTableUnits } from './name-table.ts';
export { namesOf } from './names.ts';
export type { Name } from './service-names.ts';
