import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { TestAuthority } from "@sallyport/wire/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type IdentityFile, loadIdentityFile } from "./identity-file.ts";

let folder: string;
let pem: { cert: string; key: string; ca: string };
const ztAPI = "https://controller.example:1280/edge/client/v1";

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "identity-file-"));
  const authority = await TestAuthority.create();
  const { certPem, keyPem } = await authority.identity("app-1");
  pem = { cert: certPem, key: keyPem, ca: authority.certPem };
  await writeFile(join(folder, "app.cert"), pem.cert);
  await writeFile(join(folder, "app.key"), pem.key);
  await writeFile(join(folder, "ca.pem"), pem.ca);
});

afterAll(() => rm(folder, { recursive: true }));

async function fileOf(content: unknown): Promise<string> {
  const path = join(folder, "identity.json");
  await writeFile(path, typeof content === "string" ? content : JSON.stringify(content));
  return path;
}

describe("an identity file", () => {
  it("may hold PEM text with a prefix or bare, and names of files beside it, absolute, or as URLs", async () => {
    const forms: IdentityFile["id"][] = [
      { cert: `pem:${pem.cert}`, key: `pem:${pem.key}`, ca: `pem:${pem.ca}` },
      pem,
      { cert: "app.cert", key: "./app.key", ca: join(folder, "ca.pem") },
      { cert: "file://app.cert", key: pathToFileURL(join(folder, "app.key")).href, ca: "file:ca.pem" },
    ];
    for (const id of forms) {
      const loaded = await loadIdentityFile(await fileOf({ ztAPI, id }));
      expect(loaded.identity.id).toBe("app-1");
      expect(loaded.identity.anchors).toHaveLength(1);
      expect(loaded.controllerUrls).toEqual(["https://controller.example:1280"]);
    }
  });

  it("may name several controllers, leave the path off, and hold keys that we do not know", async () => {
    const id = { ...pem, ca: null };
    const file = {
      ztAPI: null,
      ztAPIs: ["https://other.example:1280", "https://third.example:1280/edge/client/v1"],
      configTypes: ["all"],
      enableHa: true,
      more: 1,
    };
    const loaded = await loadIdentityFile(await fileOf({ ...file, id }));
    expect(loaded.controllerUrls).toEqual(["https://other.example:1280", "https://third.example:1280"]);
    expect(loaded.configTypes).toEqual(["all"]);
  });

  it.each([
    ["not JSON", "no JSON {", "identity.json"],
    ["no id", { ztAPI }, "id (an object with cert and key)"],
    ["no address", { id: { cert: "app.cert", key: "app.key" } }, "ztAPI"],
    ["an address that is none", { ztAPI: "controller:1280x", id: { cert: "app.cert", key: "app.key" } }, "ztAPI"],
    ["an address without TLS", { ztAPI: "http://c:80", id: { cert: "app.cert", key: "app.key" } }, "https"],
    ["a file that is not there", { ztAPI, id: { cert: "gone.cert", key: "app.key" } }, "gone.cert"],
    ["a key that is none", { ztAPI, id: { cert: "app.cert", key: "app.cert" } }, "key: "],
    ["a hardware key", { ztAPI, id: { cert: "app.cert", key: "pkcs11:x" } }, "pkcs11"],
  ])("with %s is refused in words that say where and what to do", async (_what, content, words) => {
    const failure = loadIdentityFile(await fileOf(content));
    await expect(failure).rejects.toMatchObject({ name: "IdentityFileError", code: "IDENTITY_FILE_INVALID" });
    await expect(failure).rejects.toThrow(words);
    await expect(failure).rejects.toThrow("identity.json: ");
    await expect(failure).rejects.toThrow("enroll again");
  });

  it("that is not there is refused by its name", async () => {
    await expect(loadIdentityFile(join(folder, "nobody.json"))).rejects.toThrow(/nobody\.json.*ENOENT/);
  });

  it("may be given as its content", async () => {
    expect((await loadIdentityFile({ ztAPI, id: pem })).identity.id).toBe("app-1");
  });
});
