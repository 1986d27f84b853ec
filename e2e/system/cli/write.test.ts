import { chmodSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Cli } from "../../network/cli.ts";
import { eventually } from "../../network/eventually.ts";
import { type Network, startNetwork } from "../../network/network.ts";
import { makeScratch, removeScratch } from "../../network/scratch.ts";

const folder = makeScratch("cli-write");
let cli: Cli;
let network: Network;

beforeAll(async () => {
  cli = await Cli.packed(folder);
  network = await startNetwork(join(folder, "network"));
  await cli.login(network);
}, 120_000);

afterAll(async () => {
  await network?.stop();
  removeScratch(folder);
});

/** An editor that runs a script on the file, which is `$1`. */
function editor(name: string, script: string): Readonly<Record<string, string>> {
  const path = join(folder, name);
  writeFileSync(path, `#!/bin/sh\n${script}\n`);
  chmodSync(path, 0o755);
  return { EDITOR: path, VISUAL: "", SALLYPORT: `${process.execPath} ${cli.main}` };
}

const edit = (env: Readonly<Record<string, string>>, kind: string, name: string) =>
  cli.runWith({ input: "", env }, "edit", kind, name);

describe("an administrator who changes a network with sallyport", () => {
  it("creates entities with other entities by name", async () => {
    const jwt = await cli.done(
      "create",
      "identity",
      "laptop",
      "--role-attributes",
      "clients",
      "--enrollment-ott",
      "-o",
      "jsonpath=$.enrollment.ott.jwt",
    );
    expect(jwt.split(".")).toHaveLength(3);
    const data = join(folder, "data.yml");
    writeFileSync(data, "protocol: tcp\naddress: localhost\nport: 8080\n");
    await cli.done("create", "config", "web-host", "--config-type-id", "host.v1", "--data", `@${data}`);
    expect(await cli.done("create", "service", "web", "--configs", "web-host", "--tags", "team=red")).toMatch(
      /^created service\/web \(.+\)\n$/,
    );
    await cli.done(
      "create",
      "sp",
      "dial",
      "--type",
      "dial",
      "--service-roles",
      "@web",
      "--identity-roles",
      "@laptop,#clients",
    );
    expect(await cli.done("get", "sp", "dial")).toMatch(/^dial +Dial +AnyOf +#clients,@laptop +@web +-$/m);
    const service = JSON.parse(await cli.done("get", "service", "web", "-o", "json"));
    const policy = JSON.parse(await cli.done("get", "sp", "dial", "-o", "json"));
    expect(policy.serviceRoles).toEqual([`@${service.id}`]);
    expect(service).toMatchObject({ encryptionRequired: true, tags: { team: "red" } });
    expect(await cli.done("describe", "identity", "laptop")).toMatch(/^Services: +web$/m);
  });

  it("creates what has required parts of its own", async () => {
    await cli.done("create", "auth-policy", "strict", "--primary-cert-allowed", "--secondary-require-totp");
    expect(await cli.done("get", "auth-policy", "strict")).toMatch(/^strict +true +false +false +true$/m);
    await cli.done("create", "posture-check", "linux", "--type-id", "os", "--operating-systems", "[{type: Linux}]");
    await cli.done("patch", "posture-check", "linux", "--role-attributes", "all");
    expect(await cli.done("get", "pc", "linux")).toMatch(/^linux +OS +all$/m);
    const password = join(folder, "laptop-password");
    writeFileSync(password, "a-long-password\n");
    await cli.done(
      "create",
      "authenticator",
      "--identity-id",
      "laptop",
      "--method",
      "updb",
      "--username",
      "laptop",
      "--password",
      `@${password}`,
    );
    await cli.done(
      "create",
      "terminator",
      "--service",
      "web",
      "--router",
      "r1",
      "--binding",
      "transport",
      "--address",
      "tcp:localhost:1",
    );
    expect(await cli.done("get", "terminators")).toMatch(/ web +r1 +transport +tcp:localhost:1$/m);
  });

  it("is told what is wrong, and nothing was changed", async () => {
    const refused = async (status: number, message: string, ...args: string[]) =>
      expect(await cli.run(...args)).toMatchObject({
        code: status,
        output: "",
        errors: expect.stringContaining(message),
      });
    await refused(
      3,
      "no service 'wbe': did you mean 'web'?",
      "create",
      "sp",
      "x",
      "--type",
      "Dial",
      "--service-roles",
      "@wbe",
    );
    await refused(2, "a new service-policy needs --type: Dial, Bind", "create", "sp", "x");
    await refused(
      2,
      "--domains is for --type-id DOMAIN, not for MAC",
      "create",
      "pc",
      "x",
      "--type-id",
      "MAC",
      "--domains",
      "a",
    );
    await refused(2, "did you mean --role-attributes?", "create", "service", "x", "--role-atributes", "a");
    await refused(2, "nothing to change: name a field", "patch", "service", "web");
    await refused(1, "name", "create", "service", "web");
    await refused(2, "there is no terminal to ask: add --yes", "delete", "service", "web");
    await refused(3, "no service 'nope'", "delete", "service", "web", "nope", "--yes");
    expect(await cli.done("get", "sp", "-o", "name")).toBe("service-policy/dial\n");
    expect(await cli.done("get", "services", "-o", "name")).toBe("service/web\n");
  });

  it("changes fields and leaves the others", async () => {
    expect(await cli.done("patch", "service", "web", "--role-attributes", "a,b", "--name", "website")).toBe(
      "changed service/web\n",
    );
    const service = JSON.parse(await cli.done("get", "service", "website", "-o", "json"));
    expect(service).toMatchObject({ tags: { team: "red" }, roleAttributes: ["a", "b"] });
    await cli.done("patch", "service", "website", "--tags", "{}", "--name", "web");
    expect(JSON.parse(await cli.done("get", "service", "web", "-o", "json"))).toMatchObject({
      tags: {},
      roleAttributes: ["a", "b"],
      configs: [expect.any(String)],
    });
    for (const [flag, value] of [
      ["--no-traversal", true],
      ["--traversal", false],
    ] as const) {
      await cli.done("patch", "edge-router", "r1", flag);
      expect(await cli.done("get", "edge-router", "r1", "-o", "jsonpath=$.noTraversal")).toBe(`${value}\n`);
    }
  });

  it("edits an entity as text with names", async () => {
    const result = await edit(
      editor("swap", `cp "$1" ${folder}/seen; sed -i 's/type: Dial/type: Bind/; s/"#clients"/"#servers"/' "$1"`),
      "sp",
      "dial",
    );
    expect(result).toEqual({ code: 0, output: "changed service-policy/dial\n", errors: "" });
    expect(readFileSync(join(folder, "seen"), "utf8")).toContain('"@web"');
    expect(await cli.done("get", "sp", "dial")).toMatch(/^dial +Bind +AnyOf +#servers,@laptop +@web +-$/m);
    expect((await edit(editor("look", "true"), "sp", "dial")).output).toBe("did not change service-policy/dial\n");
  });

  it("loses no text that cannot be used", async () => {
    const { code, errors } = await edit(editor("break", `echo "nonsense: 1" >> "$1"`), "sp", "dial");
    expect(code).toBe(1);
    const [, kept = ""] = /has no field 'nonsense'.*your text is in (\S+)/.exec(errors) ?? [];
    expect(readFileSync(kept, "utf8")).toContain("nonsense: 1");
  });

  it("sees the conflict with another administrator, and overwrites nothing", async () => {
    const both = editor(
      "both",
      `$SALLYPORT patch sp dial --semantic AllOf > /dev/null; sed -i 's/type: Bind/type: Dial/; s/semantic: AnyOf/semantic: AnyOf # mine/' "$1"`,
    );
    expect(await edit(both, "sp", "dial")).toMatchObject({ code: 0, errors: "" });
    const merged = JSON.parse(await cli.done("get", "sp", "dial", "-o", "json"));
    expect(merged).toMatchObject({ type: "Dial", semantic: "AllOf" });
    const same = editor(
      "same",
      `$SALLYPORT patch sp dial --identity-roles '#theirs' > /dev/null; sed -i 's/"#servers"/"#mine"/; s/"@laptop"/"#mine-too"/' "$1"`,
    );
    const conflict = await edit(same, "sp", "dial");
    expect(conflict).toMatchObject({ code: 6, output: "" });
    expect(conflict.errors).toContain('is now ["#theirs"], and you want ["#mine","#mine-too"]');
    const [, kept = ""] = /your text is in (\S+)/.exec(conflict.errors) ?? [];
    expect(existsSync(kept)).toBe(true);
    expect(readFileSync(kept, "utf8")).toContain("#mine");
    expect(JSON.parse(await cli.done("get", "sp", "dial", "-o", "json")).identityRoles).toEqual(["#theirs"]);
  });

  it("overwrites nothing when several administrators save at the same moment", async () => {
    await cli.done("create", "service", "shared", "--role-attributes", "first");
    const gate = join(folder, "gate");
    const ready = (mine: string) => join(folder, `ready-${mine}`);
    const names = ["a", "b", "c", "d"];
    const edits = names.map((mine) =>
      edit(
        editor(
          `edit-${mine}`,
          `sed -i 's/first/${mine}/' "$1"; touch '${ready(mine)}'; until [ -e '${gate}' ]; do sleep 0.01; done`,
        ),
        "service",
        "shared",
      ),
    );
    await eventually("all editors are open", () => names.every((mine) => existsSync(ready(mine))));
    writeFileSync(gate, "");
    const results = await Promise.all(edits);
    expect(results.map(({ code }) => code).toSorted()).toEqual([0, 6, 6, 6]);
    const saved = names[results.findIndex(({ code }) => code === 0)];
    expect(JSON.parse(await cli.done("get", "service", "shared", "-o", "json")).roleAttributes).toEqual([saved]);
    await cli.done("delete", "service", "shared", "--yes");
  });

  it("deletes several at once", async () => {
    await cli.done("create", "service", "one");
    await cli.done("create", "service", "two");
    expect(await cli.done("delete", "services", "one", "two", "one", "--yes")).toBe(
      "deleted service/one\ndeleted service/two\n",
    );
    expect(await cli.done("get", "services", "-o", "name")).toBe("service/web\n");
    const held = await cli.run("delete", "config-type", "host.v1", "--yes");
    expect(held).toMatchObject({ code: 1, output: "" });
  });
});
