import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { parse } from "yaml";
import { setKeys } from "./file-keys.ts";

const TEXT = `# Of the network.
v: 1

edge:
  enrollment:
    # How long tokens are good.
    # identity: 3h
  oidc:
    # enabled: true

listeners:
  - binding: edge # for applications
    address: tls:0.0.0.0:3022
`;

it("keys are set where a file has them empty or not at all, and its comments stay", async () => {
  const folder = mkdtempSync(join(tmpdir(), "sallyport-keys-"));
  try {
    const file = join(folder, "a.yml");
    writeFileSync(file, TEXT);
    const keys = [
      [["edge", "enrollment", "sharedHosts"], ["net.example.org"]],
      [["listeners", 0, "address"], "tls:127.0.0.1:3022"],
      [["api", "bind"], "127.0.0.1:1280"],
    ] as const;
    await setKeys(file, keys);
    const text = readFileSync(file, "utf8");
    expect(parse(text)).toEqual({
      v: 1,
      edge: { enrollment: { sharedHosts: ["net.example.org"] }, oidc: null },
      listeners: [{ binding: "edge", address: "tls:127.0.0.1:3022" }],
      api: { bind: "127.0.0.1:1280" },
    });
    for (const [comment] of TEXT.matchAll(/#.*/g)) expect(text).toContain(comment);
    const { mtimeMs, ino } = statSync(file);
    await setKeys(file, keys);
    expect(statSync(file)).toMatchObject({ mtimeMs, ino });
  } finally {
    rmSync(folder, { recursive: true });
  }
});
