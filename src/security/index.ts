/** The door of the security room. */
export {
  type AuthorityObserver,
  type AuthorityOptions,
  type AuthoritySettings,
  createAuthority,
} from './authority/authority.ts';
