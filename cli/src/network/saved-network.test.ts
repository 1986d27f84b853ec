import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { controllerUrl, networkNameOf } from "./controller-url.ts";
import { NetworkStore, type SavedNetwork } from "./saved-network.ts";

const NETWORK: SavedNetwork = {
  controller: "https://ctrl.example:1280",
  ca: "PEM",
  login: { method: "password", username: "admin" },
  session: { token: "secret", identity: "Admin" },
};

describe("saved networks", () => {
  let home: string;
  let store: NetworkStore;
  beforeEach(() => {
    home = mkdtempSync(join(tmpdir(), "sallyport-cli-"));
    store = new NetworkStore({ HOME: home });
  });
  afterEach(() => rmSync(home, { recursive: true, force: true }));

  it("come back as they were, in files that only their owner reads", async () => {
    await store.write("one", NETWORK);
    expect(await store.read("one")).toEqual(NETWORK);
    expect(statSync(store.fileOf("one")).mode & 0o777).toBe(0o600);
    expect(statSync(join(home, ".config", "sallyport")).mode & 0o777).toBe(0o700);
    expect(readdirSync(join(home, ".config", "sallyport", "networks"))).toEqual(["one.json"]);
  });

  it("are replaced as a whole by many writers at once", async () => {
    const writers = Array.from({ length: 50 }, (_, n) =>
      store.write("one", { ...NETWORK, session: { token: String(n).repeat(5_000), identity: "x" } }),
    );
    let reads = 0;
    const reader = (async () => {
      while (reads++ < 50)
        await store.read("one").catch((error: Error) => expect(error.message).toContain("no network"));
    })();
    await Promise.all([...writers, reader]);
    expect((await store.read("one")).session?.token).toMatch(/^(\d+?)\1*$/);
    expect(readdirSync(join(home, ".config", "sallyport", "networks"))).toEqual(["one.json"]);
  });

  it("are chosen by option, environment and use, in this order", async () => {
    await store.write("one", NETWORK);
    await store.use("one");
    expect(await store.chosen(undefined)).toBe("one");
    expect(await new NetworkStore({ HOME: home, SALLYPORT_NETWORK: "two" }).chosen(undefined)).toBe("two");
    expect(await new NetworkStore({ HOME: home, SALLYPORT_NETWORK: "two" }).chosen("three")).toBe("three");
    await store.remove("one");
    await expect(store.chosen(undefined)).rejects.toThrow("no network is chosen");
  });

  it.each([
    "",
    "[]",
    "null",
    "{",
    '{"controller":"http://x","login":{"method":"password","username":"a"}}',
    '{"controller":"https://x","login":{"method":"magic"}}',
  ])("say so when the file holds %j", async (content) => {
    await store.write("one", NETWORK);
    writeFileSync(store.fileOf("one"), content);
    await expect(store.read("one")).rejects.toThrow("holds no login that can be used: log in again");
    expect(readFileSync(store.fileOf("one"), "utf8")).toBe(content);
  });

  it("offer the nearest name, and refuse names that are paths", async () => {
    await store.write("production", NETWORK);
    await expect(store.read("prodution")).rejects.toThrow("did you mean 'production'?");
    for (const name of ["../x", "a/b", "", ".hidden", "x".repeat(64)])
      await expect(store.write(name, NETWORK)).rejects.toThrow("cannot be the name of a network");
  });

  it("end with an error in folders that cannot be made", async () => {
    for (const folder of ["/proc/1/sallyport/deep", "/dev/null/sallyport"]) {
      const broken = new NetworkStore({ SALLYPORT_CONFIG_DIR: folder });
      await expect(broken.write("one", NETWORK)).rejects.toThrow(/^cannot (write|make the folder) \//);
    }
    await expect(new NetworkStore({}).names()).rejects.toThrow("HOME is not set");
  });

  it("notice files that others can read", async () => {
    await store.write("one", NETWORK);
    expect(await store.isForeign("one")).toBe(false);
    chmodSync(store.fileOf("one"), 0o644);
    expect(await store.isForeign("one")).toBe(true);
  });
});

describe("addresses of controllers", () => {
  it.each([
    ["https://ctrl.example:1280", "https://ctrl.example:1280", "ctrl.example"],
    ["https://ctrl.example:1280/edge/management/v1", "https://ctrl.example:1280", "ctrl.example"],
    ["ctrl.example", "https://ctrl.example:1280", "ctrl.example"],
    ["ctrl.example:443", "https://ctrl.example", "ctrl.example"],
    ["https://ctrl.example", "https://ctrl.example", "ctrl.example"],
    ["localhost:6262", "https://localhost:6262", "localhost-6262"],
    ["[::1]:1280", "https://[::1]:1280", "1"],
  ])("%s is %s, called %s", (text, url, name) => {
    expect([controllerUrl(text), networkNameOf(url)]).toEqual([url, name]);
  });

  it.each(["http://ctrl.example", "ftp://x", "https://", "a b", "https://user:pass@host"])("refuse %j", (text) => {
    expect(() => controllerUrl(text)).toThrow("is no address of a controller");
  });
});
