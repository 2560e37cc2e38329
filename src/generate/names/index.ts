/** The names that a proxy's DNS server answers. */
export { nameTable, nameTableUnits } from './name-table.ts';
