import { describe, expect, test } from "vitest";
import { proxyOf } from "./proxy-environment.ts";

const PROXY = { host: "proxy.example", port: 3128 };
const env = { HTTPS_PROXY: "http://proxy.example:3128" };
const of = (url: string, more: Record<string, string> = {}) => proxyOf(new URL(url), { ...env, ...more });

describe("the proxy of the environment", () => {
  test.each<[string, Record<string, string>, object | undefined]>([
    ["https://ctrl.example", env, PROXY],
    ["https://ctrl.example", { https_proxy: "proxy.example:3128" }, PROXY],
    ["https://ctrl.example", {}, undefined],
    ["http://ctrl.example", env, undefined],
    ["http://ctrl.example", { HTTP_PROXY: "http://proxy.example" }, { host: "proxy.example", port: 80 }],
    [
      "https://ctrl.example",
      { HTTPS_PROXY: "http://me:p%40ss@[2001:db8::1]:8080/" },
      { host: "2001:db8::1", port: 8080, username: "me", password: "p@ss" },
    ],
    ["https://localhost:1280", env, undefined],
    ["https://127.0.0.2", env, undefined],
    ["https://[::1]:6443", env, undefined],
  ])("of %s by %j", (url, given, expected) => expect(proxyOf(new URL(url), given)).toEqual(expected));

  test.each(["https://p.example:3128", "socks5://p.example", "http://", "http://a b"])("is refused as %s", (text) => {
    expect(() => of("https://ctrl.example", { HTTPS_PROXY: text })).toThrow(/^HTTPS_PROXY: expected a proxy as http:/);
  });
});

// biome-ignore format: a table
test.each<[string, string, boolean]>([
  ["*", "https://ctrl.example", true],
  ["ctrl.example", "https://ctrl.example", true],
  ["example", "https://ctrl.example", true],
  ["rl.example", "https://ctrl.example", false],
  [".example", "https://ctrl.example", true],
  ["*.example", "https://ctrl.example", true],
  [".ctrl.example", "https://ctrl.example", false],
  [" other , CTRL.Example ", "https://ctrl.example", true],
  ["ctrl.example:1280", "https://ctrl.example:1280", true],
  ["ctrl.example:1280", "https://ctrl.example", false],
  ["ctrl.example:443", "https://ctrl.example", true],
  ["10.0.0.0/8", "https://10.96.0.1", true],
  ["10.0.0.0/8", "https://11.0.0.1", false],
  ["10.0.0.0/8", "https://ctrl.example", false],
  ["10.0.0.0/99", "https://10.96.0.1", false],
  ["10.96.0.1", "https://10.96.0.1:6443", true],
  ["96.0.1", "https://10.96.0.1", false],
  ["2001:db8::/32", "https://[2001:db8::7]", true],
  ["2001:db8::7", "https://[2001:db8::7]", true],
  ["[2001:db8::7]:443", "https://[2001:db8::7]", true],
  ["[2001:db8::7]:1", "https://[2001:db8::7]", false],
  ["", "https://ctrl.example", false],
])("NO_PROXY %j excepts %s: %s", (NO_PROXY, url, expected) => {
  expect(of(url, { NO_PROXY }) === undefined).toBe(expected);
});
