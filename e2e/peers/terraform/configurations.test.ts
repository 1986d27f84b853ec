import { join } from "node:path";
import { TestAuthority } from "@sallyport/wire/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Network, startNetwork } from "../../network/network.ts";
import { makeScratch, removeScratch } from "../../network/scratch.ts";
import { configurations, isMissing, LEAST, Tofu } from "./tofu.ts";

/** The examples' certificates are none. */
const PLACEHOLDER = /"-----BEGIN CERTIFICATE-----[^"]*"/g;
const RESOURCES = configurations("resources");
const DATA_SOURCES = configurations("data-sources");
/** It asks for `test_certificate_authority`, and the provider's tests make `ziti_certificate_authority`. */
const WRONG = "data-sources/ziti_certificate_authority";

/** In the order in which they stand: data sources ask for what the resources made. */
describe.skipIf(isMissing)("configurations of the peer's Terraform provider", () => {
  let folder = "";
  let network: Network;
  let tofu: Tofu;

  beforeAll(async () => {
    folder = makeScratch("terraform");
    network = await startNetwork(join(folder, "network"));
    tofu = new Tofu(folder, network.port, network.adminPassword);
    for (const { name, text } of [...RESOURCES, LEAST, ...DATA_SOURCES]) {
      const { certPem } = await TestAuthority.create(name);
      tofu.write({ name, text: text.replace(PLACEHOLDER, JSON.stringify(certPem)) });
    }
    // `ziti_identity_ca` refers to it.
    const { certPem } = await TestAuthority.create("Referred to");
    await network.management.createCa({
      body: {
        ...{ name: "test_ca", certPem, identityRoles: [] },
        ...{ isAuthEnabled: true, isAutoCaEnrollmentEnabled: true, isOttCaEnrollmentEnabled: true },
      },
    });
  });

  afterAll(async () => {
    await network?.stop();
    removeScratch(folder);
  });

  async function succeeds(name: string, command: string, ...options: readonly string[]): Promise<string> {
    const { code, output } = await tofu.run(name, command, ...options);
    expect(code, output).toBe(0);
    return output;
  }

  it("the provider has 21 of resources and 18 of data sources", () => {
    expect(RESOURCES).toHaveLength(21);
    expect(DATA_SOURCES).toHaveLength(18);
  });

  it.each([...RESOURCES, LEAST, ...DATA_SOURCES.filter(({ name }) => name !== WRONG)])(
    "$name applies, and the next plan is empty",
    async ({ name }) => {
      await succeeds(name, "apply", "-auto-approve");
      // Code 2: there is something to change.
      expect(await succeeds(name, "plan", "-detailed-exitcode")).toContain("No changes.");
    },
  );

  it(`${WRONG} asks for an authority that none of them makes`, async () => {
    const { code, output } = await tofu.run(WRONG, "apply", "-auto-approve");
    expect(code).toBe(1);
    expect(output).toContain("No items returned from API upon filter execution!");
    expect(output).toContain('filter=name="test_certificate_authority"');
  });

  it.each([LEAST, ...RESOURCES.toReversed()])("$name is taken away", async ({ name }) => {
    expect(await succeeds(name, "destroy", "-auto-approve")).toMatch(/Resources: [1-9]\d* destroyed/);
  });
});
