import { mkdtemp, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { TestAuthority } from "@sallyport/wire/testing";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { MAX_TOKEN_FILE_CHARACTERS } from "../login/external-login.ts";
import { readJoinedIdentity } from "../login/joined-identity.ts";
import { sessionFileOf } from "../login/session-file.ts";
import type { User } from "../login/terminal.ts";
import { enrollCommand, isEnrolled, type JoinCommand, joinCommand } from "./identity-files.ts";

const IDENTITY = { ztAPI: "https://ctrl.example:1280", id: { key: "secret" } };
let folder: string;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "enroll-"));
  await writeFile(join(folder, "me.jwt"), "token\n");
});

afterEach(() => rm(folder, { recursive: true }));

test("the identity file is its owner's only, and holds nothing of the room that was kept for it", async () => {
  const output = join(folder, "me.json");
  await enrollCommand(join(folder, "me.jwt"), output, async () => IDENTITY);
  expect(await readFile(output, "utf8")).toBe(`${JSON.stringify(IDENTITY, null, 2)}\n`);
  expect((await stat(output)).mode & 0o777).toBe(0o600);
});

test("the key is written into the file that was made, not into another one that took its name meanwhile", async () => {
  const output = join(folder, "me.json");
  await enrollCommand(join(folder, "me.jwt"), output, async () => {
    await rename(output, join(folder, "away.json"));
    await writeFile(output, "readable by all");
    return IDENTITY;
  });
  expect(await readFile(output, "utf8")).toBe("readable by all");
  expect(JSON.parse(await readFile(join(folder, "away.json"), "utf8"))).toEqual(IDENTITY);
});

test("an identity that is there is known again, also after an enrollment that was killed", async () => {
  const output = join(folder, "me.json");
  expect(await isEnrolled(output)).toBe(false);
  await enrollCommand(join(folder, "me.jwt"), output, async () => {
    const left = await readFile(output);
    await writeFile(join(folder, "killed.json"), left);
    return IDENTITY;
  });
  expect(await isEnrolled(output)).toBe(true);
  expect(JSON.parse(await readFile(output, "utf8"))).toEqual(IDENTITY);
  expect(await isEnrolled(join(folder, "killed.json"))).toBe(false);
  await enrollCommand(join(folder, "me.jwt"), join(folder, "killed.json"), async () => IDENTITY);
  await expect(isEnrolled(folder)).rejects.toThrow("cannot be read");
});

describe("joining a network", () => {
  const nobody: User = { isThere: false, tell() {}, ask: () => Promise.reject(new Error("nobody is there")) };
  const { signal } = new AbortController();
  let ca: string;
  let command: JoinCommand;

  beforeEach(async () => {
    ca = (await TestAuthority.create()).certPem;
    await writeFile(join(folder, "ca.pem"), ca);
    command = {
      ...{ name: "join", controller: "https://ctrl.example:1280", caFile: join(folder, "ca.pem") },
      ...{ isDevice: false, toCertificate: false, ifNeeded: false, verbose: false, output: join(folder, "me.json") },
    };
  });

  test("writes an identity without a key, for its owner only, and asks nobody", async () => {
    await joinCommand({ ...command, signer: "idp", isDevice: true }, nobody, signal);
    const { output, controller } = command;
    expect((await stat(output)).mode & 0o777).toBe(0o600);
    expect(await readJoinedIdentity(output)).toEqual({ controller, ca, login: { signer: "idp", device: true } });
    const written = JSON.parse(await readFile(output, "utf8"));
    expect([written.ztAPI, written.id]).toEqual([`${controller}/edge/client/v1`, { ca: `pem:${ca}` }]);
    expect(await isEnrolled(output)).toBe(true);
  });

  test("names its token file so that it is found from every folder", async () => {
    await joinCommand({ ...command, tokenFile: "token" }, nobody, signal);
    expect((await readJoinedIdentity(command.output))?.login).toEqual({ tokenFile: join(process.cwd(), "token") });
  });

  test("keeps no session of a former identity with this name", async () => {
    await writeFile(sessionFileOf(command.output), "of somebody else");
    await joinCommand(command, nobody, signal);
    await expect(stat(sessionFileOf(command.output))).rejects.toThrow("ENOENT");
  });

  test("overwrites nothing, and asks nobody to log in for a file that cannot be made", async () => {
    await writeFile(command.output, "precious");
    await expect(joinCommand(command, nobody, signal)).rejects.toThrow("name another one with -o");
    const enrolling = joinCommand({ ...command, toCertificate: true }, nobody, signal);
    await expect(enrolling).rejects.toThrow("name another one with -o");
    expect(await readFile(command.output, "utf8")).toBe("precious");
  });

  test("needs the network's authorities", async () => {
    await writeFile(join(folder, "ca.pem"), "none");
    await expect(joinCommand(command, nobody, signal)).rejects.toThrow("ca.pem of --ca cannot be used");
    const missing = joinCommand({ ...command, caFile: join(folder, "none.pem") }, nobody, signal);
    await expect(missing).rejects.toThrow("none.pem of --ca cannot be used");
  });

  test.each([
    ["cannot be read", undefined],
    ["is empty", " \n"],
    ["expected one token", "one two"],
    ["expected one token", "a".repeat(MAX_TOKEN_FILE_CHARACTERS + 1)],
  ])("a token file that %s is told, and leaves no identity file", async (problem, text) => {
    const tokenFile = join(folder, "token");
    if (text !== undefined) await writeFile(tokenFile, text);
    const enrolling = joinCommand({ ...command, tokenFile, toCertificate: true }, nobody, signal);
    await expect(enrolling).rejects.toMatchObject({
      code: "EXTERNAL_LOGIN_FAILED",
      message: expect.stringContaining(problem),
    });
    await expect(stat(command.output)).rejects.toThrow("ENOENT");
  });

  test.each([
    ["an identity with a key", { ztAPI: "https://c", id: { ca: "pem:x", cert: "pem:x", key: "pem:x" } }],
    ["one without authorities", { ztAPI: "https://c", id: {} }],
    ["one of another protocol", { ztAPI: "http://c", id: { ca: "pem:x" } }],
    ["no identity", []],
  ])("%s is no joined one", async (_what, content) => {
    await writeFile(command.output, JSON.stringify(content));
    expect(await readJoinedIdentity(command.output)).toBeUndefined();
  });
});
