import { describe, expect, test } from "vitest";
import { MAX_URI_LENGTH, RedirectRules, redirectOrigin, withParameters } from "./redirects.ts";

const rules = new RedirectRules(
  "/auth/callback",
  ["https://console.example"],
  ["https://apps.example:*/done?from=login", "com.example.app://done", "https://fixed.example/back"],
);

describe("a redirect address", () => {
  test.each([
    "openziti://auth/callback",
    ...["127.0.0.1", "localhost", "[::1]"].flatMap((host) =>
      ["http", "https"].flatMap((scheme) =>
        ["1", "80", "8080", "65535"].map((port) => `${scheme}://${host}:${port}/auth/callback`),
      ),
    ),
    "https://console.example/auth/callback",
    "https://apps.example:8443/done?from=login",
    "com.example.app://done",
    "https://fixed.example/back",
  ])("is taken: %s", (uri) => {
    expect(rules.has(uri)).toBe(true);
    expect(rules.require("redirect_uri", uri)).toBe(uri);
  });

  test.each([
    "",
    "/auth/callback",
    "//localhost:8080/auth/callback",
    "localhost:8080/auth/callback",
    // Ports
    "http://localhost/auth/callback",
    "http://localhost:/auth/callback",
    "http://localhost:0/auth/callback",
    "http://localhost:080/auth/callback",
    "http://localhost:65536/auth/callback",
    "http://localhost:99999/auth/callback",
    "http://localhost:+80/auth/callback",
    "http://localhost:8e3/auth/callback",
    "http://localhost:*/auth/callback",
    "http://localhost:80:80/auth/callback",
    "http://localhost:８０/auth/callback",
    "https://apps.example/done?from=login",
    "https://apps.example:*/done?from=login",
    "https://console.example:8443/auth/callback",
    "https://fixed.example:443/back",
    // Hosts
    "http://localhost.evil:80/auth/callback",
    "http://localhost.:80/auth/callback",
    "http://evil.localhost:80/auth/callback",
    "http://LOCALHOST:80/auth/callback",
    "HTTP://localhost:80/auth/callback",
    "http://127.0.0.2:80/auth/callback",
    "http://127.1:80/auth/callback",
    "http://2130706433:80/auth/callback",
    "http://0x7f000001:80/auth/callback",
    "http://0.0.0.0:80/auth/callback",
    "http://[::]:80/auth/callback",
    "http://[0:0:0:0:0:0:0:1]:80/auth/callback",
    "http://[::ffff:127.0.0.1]:80/auth/callback",
    "http://localhost%2eevil:80/auth/callback",
    "http://localhost%00:80/auth/callback",
    "http://ⓛocalhost:80/auth/callback",
    "https://console.example.evil/auth/callback",
    "https://evil/https://console.example/auth/callback",
    // User info
    "http://localhost:80@evil/auth/callback",
    "http://localhost:pass@evil:80/auth/callback",
    "http://user@localhost:80/auth/callback",
    "http://localhost:80%40evil/auth/callback",
    "http://localhost:80\\@evil/auth/callback",
    "https://console.example@evil/auth/callback",
    // Paths
    "http://localhost:80/auth/callback/",
    "http://localhost:80/auth//callback",
    "http://localhost:80/auth/callback/../evil",
    "http://localhost:80/evil/../auth/callback",
    "http://localhost:80/%61uth/callback",
    "http://localhost:80/auth/callback%2f",
    "http://localhost:80/auth/callback;x",
    "http://localhost:80/AUTH/callback",
    "http://localhost:80/auth/callback?x=1",
    "http://localhost:80/auth/callback?",
    "http://localhost:80/auth/callback#",
    "http://localhost:80/auth/callback#x",
    "http://localhost:80/evil#/auth/callback",
    "http://localhost:80/evil?/auth/callback",
    "http://localhost:80/x/auth/callback",
    "http://localhost:80 /auth/callback",
    " http://localhost:80/auth/callback",
    "http://localhost:80/auth/callback ",
    "http://localhost:80/auth/callback\n",
    "http://localhost:80\t/auth/callback",
    "http://localhost:80\r\nx:/auth/callback",
    "http:\\\\localhost:80\\auth\\callback",
    "https://fixed.example/back?x=1",
    "https://apps.example:8443/done",
    // Schemes
    "javascript:alert(1)",
    "data:text/html,x",
    "ftp://localhost:80/auth/callback",
    "openziti://auth/callback/x",
    "openziti://auth.evil/callback",
    "openziti:auth/callback",
    "openziti2://auth/callback",
    "com.example.app://done2",
  ])("is refused: %j", (uri) => {
    expect(rules.has(uri)).toBe(false);
    expect(() => rules.require("redirect_uri", uri)).toThrow(/redirect_uri is not registered/);
  });

  test("is refused when it is longer than its limit", () => {
    const fits = `https://long.example/${"a".repeat(MAX_URI_LENGTH - 21)}`;
    const long = new RedirectRules("/auth/callback", [], [fits, `${fits}a`]);
    expect(fits).toHaveLength(MAX_URI_LENGTH);
    expect(long.has(fits)).toBe(true);
    expect(long.has(`${fits}a`)).toBe(false);
  });

  test("after a logout has its own path", () => {
    const logout = new RedirectRules("/auth/logout", [], []);
    expect(logout.has("openziti://auth/logout")).toBe(true);
    expect(logout.has("https://localhost:1/auth/logout")).toBe(true);
    expect(logout.has("openziti://auth/callback")).toBe(false);
  });
});

test.each([
  ["http://localhost:8080/auth/callback", "http://localhost:8080"],
  ["https://[::1]:1/auth/callback", "https://[::1]:1"],
  ["openziti://auth/callback", "openziti:"],
])("the origin of %s is %s", (uri, origin) => {
  expect(redirectOrigin(uri)).toBe(origin);
});

test("parameters are added in their order, encoded, to an address that may have some", () => {
  const added = { code: "a.b-c_d", state: "x y&é=", empty: "", missing: undefined };
  expect(withParameters("http://h:1/p", added)).toBe("http://h:1/p?code=a.b-c_d&state=x%20y%26%C3%A9%3D");
  expect(withParameters("http://h:1/p?a=1", { error: "e" })).toBe("http://h:1/p?a=1&error=e");
  expect(withParameters("openziti://auth/logout", { state: undefined })).toBe("openziti://auth/logout");
});
