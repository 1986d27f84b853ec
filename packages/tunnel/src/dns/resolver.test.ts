import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { silentLogger } from "@sallyport/wire";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { AddressPool } from "./names.ts";
import { openResolver, parseResolver } from "./resolver.ts";

describe("the resolver setting", () => {
  test.each([
    ["udp://127.0.0.1:53", { kind: "server", host: "127.0.0.1", port: 53 }],
    ["udp://127.0.0.2", { kind: "server", host: "127.0.0.2", port: 53 }],
    ["udp://[::1]:5353", { kind: "server", host: "::1", port: 5353 }],
    [
      "udp://127.0.0.1:53?upstream=192.0.2.1",
      { kind: "server", host: "127.0.0.1", port: 53, upstream: { host: "192.0.2.1", port: 53 } },
    ],
    [
      "udp://127.0.0.1:53?upstream=2001:db8::1",
      { kind: "server", host: "127.0.0.1", port: 53, upstream: { host: "2001:db8::1", port: 53 } },
    ],
    [
      "udp://127.0.0.1:53?upstream=[2001:db8::1]:5353",
      { kind: "server", host: "127.0.0.1", port: 53, upstream: { host: "2001:db8::1", port: 5353 } },
    ],
    ["file:///etc/hosts", { kind: "hosts file", path: "/etc/hosts" }],
    ["/etc/hosts", { kind: "hosts file", path: "/etc/hosts" }],
  ])("%s", (text, setting) => expect(parseResolver(text)).toEqual(setting));

  test.each([
    ["tcp://127.0.0.1:53", /scheme tcp is not known/],
    ["udp://localhost:53", /"localhost" is no IP address/],
    ["nonsense", /no URL/],
    ["udp://127.0.0.1?upstream=dns.example", /upstream "dns.example" is no IP address/],
    ["udp://127.0.0.1?upstream=127.0.0.1:53", /name server itself/],
  ])("%s is refused", (text, why) => expect(() => parseResolver(text)).toThrow(why));
});

describe("resolvers", () => {
  let folder: string;
  const errors: string[] = [];
  const log = { ...silentLogger, error: (_: object, text: string) => void errors.push(text) };
  const open = async (text: string) => await openResolver(text, { pool: new AddressPool("100.64.0.1/10"), log });

  beforeEach(() => {
    errors.length = 0;
    folder = mkdtempSync(join(tmpdir(), "sallyport-hosts-"));
  });
  afterEach(() => rmSync(folder, { recursive: true }));

  test("a hosts file gets a line for each name, once, and loses none", async () => {
    const file = join(folder, "hosts");
    writeFileSync(file, "127.0.0.1 localhost");
    const resolver = await open(file);
    expect([resolver.kind, resolver.add("web.ziti", "s1"), resolver.add("Web.ziti", "s2")]).toEqual([
      "hosts file",
      "100.64.0.2",
      "100.64.0.2",
    ]);
    resolver.removeOwner("s1");
    expect(readFileSync(file, "utf8")).toBe("127.0.0.1 localhost\n100.64.0.2\tweb.ziti\t# NetFoundry\n");
    expect(() => resolver.addWildcard("*.ziti", "s1", async () => {})).toThrow(/needs our name server/);
    expect(resolver.nameOf("100.64.0.2")).toBe(undefined);
    const again = await open(`file://${file}`);
    again.add("web.ziti", "s1");
    expect(readFileSync(file, "utf8").match(/web\.ziti/g)).toHaveLength(1);
  });

  test.each(["gopher://x", "udp://192.0.2.77:53", "/nowhere/hosts"])(
    "%s cannot be had: that is said, and the tunneler goes on without names",
    async (text) => {
      const resolver = await open(text);
      expect(resolver.kind).toBe("none");
      expect(errors).toEqual([expect.stringMatching(/^names of services will not be resolved: .*(expected|cannot)/)]);
      expect(resolver.add("web", "s1")).toBe("100.64.0.2");
      await resolver.close();
    },
  );
});
