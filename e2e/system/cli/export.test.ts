import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import { Cli } from "../../network/cli.ts";
import { type Network, startNetwork } from "../../network/network.ts";
import { makeScratch, removeScratch } from "../../network/scratch.ts";

const folder = makeScratch("cli-export");
let cli: Cli;
const networks: Network[] = [];

async function network(name: string): Promise<void> {
  const made = await startNetwork(join(folder, name));
  networks.push(made);
  await cli.login(made, name);
}

beforeAll(async () => {
  cli = await Cli.packed(folder);
  await network("first");
  await network("second");
}, 180_000);

afterAll(async () => {
  for (const each of networks) await each.stop();
  removeScratch(folder);
});

const on = (name: string, input: string, ...args: string[]) => cli.runWith({ input }, ...args, "-n", name);
const exported = async (name: string, ...args: string[]) => {
  const { code, output, errors } = await on(name, "", "export", "--network-ref", "main", ...args);
  expect(code).toBe(0);
  return { output, errors };
};

const POSTURE_CHECKS: readonly (readonly string[])[] = [
  ["os", "--operating-systems", "[{type: Linux, versions: ['>=5.0.0']}, {type: iOS}]"],
  ["domain", "--domains", "b.example,a.example"],
  ["mac", "--mac-addresses", "00:1b:44:11:3a:b7"],
  ["mfa", "--timeout-seconds", "60", "--prompt-on-wake"],
  ["process", "--process-os-type", "Linux", "--process-path", "/bin/x"],
  ["process-multi", "--semantic", "AllOf", "--processes", "[{osType: Linux, path: /bin/x}, {osType: macOS, path: /y}]"],
];

describe("sallyport export", () => {
  beforeAll(async () => {
    const create = (...args: string[]) => cli.done("create", ...args, "-n", "first");
    await create(
      "config",
      "My Config",
      "--config-type-id",
      "host.v1",
      "--data",
      "{protocol: tcp, address: 'no', port: 80}",
    );
    await create(
      "service",
      "my-service",
      "--configs",
      "My Config",
      "--role-attributes",
      "b,a",
      "--no-encryption-required",
    );
    await create("service", "My Service", "--terminator-strategy", "sticky", "--max-idle-time-millis", "5000");
    await create("auth-policy", "strict", "--primary-cert-allowed", "--secondary-require-totp");
    for (const [type = "", ...fields] of POSTURE_CHECKS)
      await create(
        "posture-check",
        type,
        "--type-id",
        type.replace("-", "_"),
        "--role-attributes",
        "device",
        ...fields,
      );
    await create("identity", "plain", "--tags", "a=yes,b=0644", "--enrollment-ott");
    const hosting = ["--service-hosting-costs", "my-service=5", "--service-hosting-precedences", "my-service=required"];
    await create(
      "identity",
      "Full One",
      "--type",
      "Device",
      "--auth-policy-id",
      "strict",
      "--app-data",
      "level=2",
      ...hosting,
    );
    await create("identity", "outside", "--external-id", "me@example", "--is-admin");
    await create("edge-router", "eu-0", "--cost", "7", "--is-tunneler-enabled");
    await create("edge-router", "eu-1", "--cost", "7", "--is-tunneler-enabled");
    await create("edge-router", "us-0", "--disabled");
    const roles = ["--identity-roles", "@plain,@eu-0,@eu-1,#clients", "--posture-check-roles", "@mfa,#device"];
    await create("sp", "dial", "--type", "Dial", "--service-roles", "@my-service,@My Service", ...roles);
    await create("erp", "routers", "--edge-router-roles", "@us-0,#all-of-us", "--identity-roles", "@plain,@eu-0");
    await create(
      "serp",
      "services",
      "--edge-router-roles",
      "#all",
      "--service-roles",
      "@my-service",
      "--semantic",
      "AllOf",
    );
    await cli.done(
      "api",
      "POST",
      `/identities/${await id("identity", "plain")}/disable`,
      "--data",
      '{"durationMinutes":0}',
      "-n",
      "first",
    );
  }, 120_000);

  const id = async (kind: string, name: string) =>
    (await cli.done("get", kind, name, "-o", "jsonpath=$.id", "-n", "first")).trim();

  it("prints what apply finds as it is, and names what no resource can say", async () => {
    const { output, errors } = await exported("first");
    expect(errors).toBe(
      ["r1", "r2"]
        .map(
          (name) =>
            `warning: left out: edge router ${name}: the routers of an EdgeRouter are called NAME-0, NAME-1 and so on\n`,
        )
        .join(""),
    );
    expect(await on("first", output, "diff", "-f", "-")).toEqual({ code: 0, output: "", errors: "" });
    const applied = await on("first", output, "apply", "-f", "-");
    expect(applied).toMatchObject({ code: 0, output: "" });
    expect(applied.errors).toMatch(/^19 as declared, but of another owner/);
    for (const secret of ["jwt", "admin", "password"]) expect(output).not.toContain(`${secret}:`);
  });

  it("prints the same of another network that it was applied to", async () => {
    const { output } = await exported("first");
    const applied = await on("second", output, "apply", "-f", "-");
    // A router's id is its own in each network.
    const erp = /sallyport: EdgeRouterPolicy\/routers: .*\n/;
    expect(applied.errors.replace(erp, "")).toMatch(/^\d+ created\n/);
    const withoutIds = (text: string) =>
      parseAllDocuments(text)
        .map((each) => each.toJS())
        .filter(({ metadata }) => metadata.name !== "routers");
    expect(withoutIds((await exported("second")).output)).toEqual(withoutIds(output));
  });

  it("takes kinds by every word for them, and refers to what it leaves out by name where that says it all", async () => {
    const { output } = await exported("first", "sp", "OverlayService");
    const policy = parseAllDocuments(output)
      .map((each) => each.toJS())
      .find(({ kind }) => kind === "ServicePolicy");
    expect(policy.spec).toMatchObject({
      identityRefs: [{ name: "plain" }],
      identityRoles: ["#clients"],
      serviceRefs: [{ name: "my-service" }, { name: "my-service-2" }],
    });
    expect(await on("first", output, "diff", "-f", "-")).toMatchObject({ code: 0, output: "" });
    expect((await on("first", "", "export", "servces")).errors).toContain(
      "'servces' cannot be exported: did you mean 'services'?",
    );
    expect((await on("first", "", "export", "--network-ref", "A B")).code).toBe(2);
  });

  it("keeps labels and deletion policies, and prints those of a selector only", async () => {
    const team = { labels: { team: "red" } };
    const document = {
      apiVersion: "sallyport.dev/v1alpha1",
      kind: "OverlayService",
      metadata: { name: "red", ...team },
    };
    const input = JSON.stringify({ ...document, spec: { deletionPolicy: "Orphan" } });
    await on("second", input, "apply", "-f", "-");
    const { output } = await exported("second", "-l", "team=red");
    expect(parseAllDocuments(output).map((each) => each.toJS())).toEqual([
      { ...document, spec: { networkRef: { name: "main" }, deletionPolicy: "Orphan" } },
    ]);
  });
});
