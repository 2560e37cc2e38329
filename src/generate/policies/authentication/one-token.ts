/**
 * Refuses requests with more than one token in a token location. Envoy reads the first parameter or cookie of a name,
 * and finds a scheme (`Bearer `) anywhere in a header, if it is spelled as in the rule. Applications that receive the
 * token (or trust what the mesh lets through) may read the last one, split parameters at `;` as well, or read `bearer`
 * as `Bearer` (RFC 9110 section 11.1). A valid token could therefore hide one that was not verified. Requests in which
 * such a location remains after jwt_authn, which removes what must not be forwarded, are refused.
 */

import type { TokenRule } from './rules.ts';
import { locationsOfRule } from './token-locations.ts';

/** A Lua function `ambiguous(headers)`: whether some token location may contain a token that Envoy has not verified. */
export function ambiguityScript(rules: readonly TokenRule[]): string {
  const locations = rules.map(({ rule }) => locationsOfRule(rule));
  const schemes = new Map<string, Set<string>>();
  for (const { name, prefix = '' } of locations.flatMap(({ fromHeaders }) => fromHeaders)) {
    if (prefix === '') continue;
    const header = name.toLowerCase();
    schemes.set(header, (schemes.get(header) ?? new Set()).add(prefix));
  }
  const headers = [...schemes].map(([name, prefixes]) => `[${quoted(name)}]={${[...prefixes].map(quoted).join(',')}}`);
  const names = (found: readonly string[]) => [...new Set(found)].map((name) => `[${quoted(name)}]=true`).join(',');
  return `local schemes = {${headers.join(',')}}
local parameters = {${names(locations.flatMap(({ fromParams }) => fromParams))}}
local cookies = {${names(locations.flatMap(({ fromCookies }) => fromCookies))}}
${FUNCTIONS}`;
}

/** A user's string as a Lua literal: every byte that is not a letter or digit is written as its number. */
function quoted(text: string): string {
  const bytes = [...new TextEncoder().encode(text)].map((byte) => {
    const letter = String.fromCharCode(byte);
    return /[0-9A-Za-z]/.test(letter) ? letter : `\\${String(byte).padStart(3, '0')}`;
  });
  return `"${bytes.join('')}"`;
}

/** Applications in PHP read `a.b` and `a b` as `a_b`, and, like others, `a[]` as a list of the name `a`. */
const FUNCTIONS = `local function contains(value, prefixes)
  local lower = value:lower()
  for _, prefix in ipairs(prefixes) do
    if lower:find(prefix:lower(), 1, true) then return true end
  end
  return false
end
local function begins(value, prefixes)
  for _, prefix in ipairs(prefixes) do
    if value:sub(1, #prefix) == prefix and value:find("^ *[%w_.=-]* *$", #prefix + 1) then return true end
  end
  return false
end
local function decoded(text)
  local spaced = text:gsub("+", " ")
  return (spaced:gsub("%%(%x%x)", function(digits) return string.char(tonumber(digits, 16)) end))
end
local function ambiguous(headers)
  for name, prefixes in pairs(schemes) do
    local value = headers:get(name)
    if value ~= nil and contains(value, prefixes) and not begins(value, prefixes) then return true end
  end
  local seen = {}
  local query = next(parameters) and (headers:get(":path") or ""):match("%?([^#]*)")
  for separator, pair in ("&" .. (query or "")):gmatch("([&;])([^&;]*)") do
    local name = decoded(pair:match("^[^=]*"))
    if parameters[name] then
      if separator == ";" or seen[name] then return true end
      seen[name] = true
    elseif parameters[(name:match("^ *([^%[]*)"):gsub("[. ]", "_"))] then
      return true
    end
  end
  seen = {}
  for index = 1, next(cookies) and headers:getNumValues("cookie") or 0 do
    for name in headers:getAtIndex("cookie", index - 1):gmatch("%s*([^=;]-)%s*=[^;]*") do
      if cookies[name] and seen[name] then return true end
      seen[name] = true
    end
  end
  return false
end
`;
