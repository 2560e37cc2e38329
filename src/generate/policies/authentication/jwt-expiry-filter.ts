/**
 * The second look at a good token. Envoy's jwt_authn takes tokens for at least a second more than they say, and a
 * second before they are valid (RFC 7519 section 4.1.4: "on or after which" a token must not be accepted); this filter,
 * behind it, does not. Of several tokens in one request it sees the one whose claims authorization sees. Nor does it
 * take requests in which a place may hold another token (see `one-token.ts`).
 */
import { envoy } from '../../../protobuf/index.ts';
import { hasExtension, LUA_FILTER, typedConfig } from '../../filters/index.ts';
import type { GuardedView, HttpFilter } from '../types.ts';
import { FAILURE, JWT_FILTER, PAYLOAD } from './metadata.ts';
import { ambiguousPlaces } from './one-token.ts';
import type { TokenRule } from './rules.ts';

const { Lua } = envoy.extensions.filters.http.lua.v3;

/**
 * Reached by requests alone that jwt_authn lets pass. What one rule had against a token that another one takes is no
 * failure: it must not be taken for one when authorization refuses the request later (see `wrong-audience.ts`).
 */
const SOURCE = `local function refuse(handle, failure)
  handle:respond({[":status"] = "401", ["www-authenticate"] = 'Bearer error="invalid_token"'}, failure)
end
function envoy_on_request(handle)
  local metadata = handle:streamInfo():dynamicMetadata()
  local seen = metadata:get("${JWT_FILTER}")
  if seen ~= nil and seen["${FAILURE}"] ~= nil then metadata:set("${JWT_FILTER}", "${FAILURE}", {}) end
  if ambiguous(handle:headers()) then return refuse(handle, "Jwt is not the only one in its place") end
  local claims = seen ~= nil and seen["${PAYLOAD}"] or nil
  if claims == nil then return end
  local now = os.time()
  if claims["exp"] ~= nil and now >= claims["exp"] then return refuse(handle, "Jwt is expired") end
  if claims["nbf"] ~= nil and now < claims["nbf"] then return refuse(handle, "Jwt not yet valid") end
end
`;

/** None for an Envoy that cannot: there, tokens live a second longer. */
export function secondLook(view: GuardedView, rules: readonly TokenRule[]): HttpFilter[] {
  if (!hasExtension(view, LUA_FILTER)) return [];
  const source = `${ambiguousPlaces(rules)}${SOURCE}`;
  return [typedConfig(LUA_FILTER, Lua, { defaultSourceCode: { inlineString: source } })];
}
