/**
 * Checks the validity period of a verified token again. Envoy's jwt_authn accepts tokens for at least a second longer
 * than they state, and a second before they are valid (RFC 7519 section 4.1.4: "on or after which" a token must not be
 * accepted); this filter, after it, does not. Of several tokens in one request it checks the one whose claims
 * authorization reads. It also refuses requests with an ambiguous token location (see `one-token.ts`).
 */
import { envoy } from '../../../protobuf/index.ts';
import { hasExtension, LUA_FILTER, typedConfig } from '../../filters/index.ts';
import type { GuardedView, HttpFilter } from '../types.ts';
import { FAILURE, JWT_FILTER, PAYLOAD } from './metadata.ts';
import { ambiguityScript } from './one-token.ts';
import type { TokenRule } from './rules.ts';

const { Lua } = envoy.extensions.filters.http.lua.v3;

/**
 * Reached only by requests that jwt_authn accepts. One rule's rejection of a token that another rule accepts is
 * removed: it must not count as a failure when authorization refuses the request later (see `wrong-audience.ts`).
 */
const SOURCE = `local function refuse(handle, failure)
  handle:respond({[":status"] = "401", ["www-authenticate"] = 'Bearer error="invalid_token"'}, failure)
end
function envoy_on_request(handle)
  local metadata = handle:streamInfo():dynamicMetadata()
  local seen = metadata:get("${JWT_FILTER}")
  if seen ~= nil and seen["${FAILURE}"] ~= nil then metadata:set("${JWT_FILTER}", "${FAILURE}", {}) end
  if ambiguous(handle:headers()) then return refuse(handle, "Jwt is ambiguous: more than one can be read") end
  local claims = seen ~= nil and seen["${PAYLOAD}"] or nil
  if claims == nil then return end
  local now = os.time()
  if claims["exp"] ~= nil and now >= claims["exp"] then return refuse(handle, "Jwt is expired") end
  if claims["nbf"] ~= nil and now < claims["nbf"] then return refuse(handle, "Jwt not yet valid") end
end
`;

/** None for an Envoy without the extension: there, tokens are valid a second longer. */
export function jwtExpiryFilter(view: GuardedView, rules: readonly TokenRule[]): HttpFilter[] {
  if (!hasExtension(view, LUA_FILTER)) return [];
  const source = `${ambiguityScript(rules)}${SOURCE}`;
  return [typedConfig(LUA_FILTER, Lua, { defaultSourceCode: { inlineString: source } })];
}
