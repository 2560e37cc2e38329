/** The introspection facility: pages for operators, and what they show as JSON. */
export { type IntrospectionServer, introspectionListener, startIntrospection } from './server.ts';
