import { describe, expect, it } from "vitest";
import { ThirdParty } from "../../../../controller/src/auth/testing/third-party.ts";
import type { Same } from "./same.ts";

const HASH = "ab".repeat(64);
const SIGNER = "cd".repeat(20);

/** Auth policies, token signers, authorities, posture checks, sessions, and logging in and out. */
export function securityCommands(same: () => Same): void {
  describe("auth policies and token signers", () => {
    it("are created, changed, listed and deleted", async () => {
      const cli = same();
      const { certPem } = await ThirdParty.create("Token signer");
      const create = ["create", "ext-jwt-signer"];
      const more = ["--client-id", "client", "--scopes", "email,openid", "--external-auth-url", "https://a.example"];
      const jwks = ["-u", "https://a.example/jwks", "-a", "aud", "-c", "email", "-x", ...more];
      await cli.edge(...create, "by-jwks", "https://a.example", ...jwks);
      await cli.edge(
        ...create,
        "by-pem",
        "https://b.example",
        "-f",
        cli.file("signer.pem", certPem),
        "-k",
        "kid",
        "-a",
        "aud",
      );
      await cli.edge("list", "ext-jwt-signers", 'name="by-jwks"', "-j");
      await cli.edge("list", "ext-jwt-signers", 'name="by-jwks"');
      await cli.refused(...create, "by-jwks", "https://c.example", ...jwks);
      await cli.refused(...create, "other", "https://a.example", ...jwks);
      await cli.refused(...create, "other", "https://c.example", "-p", "no certificate", "-k", "kid", "-a", "aud");
      await cli.edge("update", "ext-jwt-signer", "by-jwks", "-n", "renamed", "-a", "aud-2");
      await cli.refused("update", "ext-jwt-signer", "nowhere", "-a", "aud-2");

      const renamed = { of: "ext-jwt-signers", id: "renamed" };
      const password = ["--primary-updb-allowed", "--primary-updb-min-length", "9", "--primary-updb-req-special"];
      const tokens = ["--primary-ext-jwt-allowed", "--primary-ext-jwt-allowed-signers", renamed];
      await cli.edge("create", "auth-policy", "strict", "-t", "k=v", ...password, ...tokens, "--secondary-req-totp");
      await cli.edge("list", "auth-policies", 'name="strict"', "-j");
      await cli.edge("list", "auth-policies", 'name="strict"');
      await cli.refused("create", "auth-policy", "strict");
      await cli.refused("create", "auth-policy", "bad", "--secondary-req-ext-jwt-signer", "nowhere");
      await cli.edge("update", "auth-policy", "strict", "--secondary-req-ext-jwt-signer", renamed, "-n", "stricter");
      await cli.edge("list", "auth-policies", 'name="stricter"', "-j");
      await cli.refused("delete", "ext-jwt-signer", "renamed");
      await cli.edge("delete", "auth-policy", "where", 'name = "stricter"');
      await cli.edge("delete", "external-jwt-signer", "where", 'name = "by-pem"');
      await cli.edge("delete", "ext-jwt-signer", { of: "ext-jwt-signers", id: "renamed" });
      expect(await cli.edge("list", "ext-jwt-signers")).toContain("results: none");
    });
  });

  describe("authorities", () => {
    it("are created, verified in both ways, changed and deleted", async () => {
      const cli = same();
      const authority = await ThirdParty.create("Same CA", { key: "rsa" });
      const [cert, key] = [cli.file("ca.pem", authority.certPem), cli.file("ca.key", authority.keyPem)];
      const flags = ["-e", "-u", "-o", "-a", "x,y", "-f", "[caName]-[commonName]", "-t", "k=v"];
      await cli.edge("create", "ca", "acme", cert, ...flags);
      await cli.edge("list", "cas", 'name="acme"', "-j");
      await cli.edge("list", "cas");
      // This command prints the reason, which each side words for itself.
      expect(await cli.refusedDifferently("create", "ca", "acme", cert)).toMatch(/name must be unique/);
      expect(await cli.refusedDifferently("create", "ca", "other", cert)).toMatch(/COULD_NOT_VALIDATE.*certPem/);
      const leaf = await authority.issue({ commonName: "not the token" });
      const noAuthority = cli.refusedDifferently("create", "ca", "other", cli.file("leaf.pem", leaf.certPem));
      expect(await noAuthority).toMatch(/CERTIFICATE_IS_NOT_CA/);
      const otherName = cli.refusedDifferently("verify", "ca", "acme", "--cert", { file: "leaf.pem" });
      expect(await otherName).toMatch(/INVALID_COMMON_NAME/);
      await cli.edge("verify", "ca", "acme", "--cacert", cert, "--cakey", key);
      await cli.refused("verify", "ca", "nowhere", "--cacert", cert, "--cakey", key);
      const claim = ["-l", "SAN_EMAIL", "-m", "SUFFIX", "-x", "@example.org", "-p", "NONE"];
      await cli.edge("update", "ca", "acme", "-n", "renamed", "-a", "z", "-e=false", ...claim);
      await cli.edge("list", "cas", 'name="renamed"', "-j");
      await cli.edge("list", "cas");
      await cli.edge("delete", "ca", "where", 'name = "renamed"');
      expect(await cli.edge("list", "cas")).toContain("results: none");
    });
  });

  describe("posture checks", () => {
    it("of every type are created, changed, listed and deleted", async () => {
      const cli = same();
      const create = ["create", "posture-check"];
      const update = ["update", "posture-check"];
      await cli.edge(...create, "domain", "d", "-d", "a.example", "-a", "checks", "-t", "k=v");
      await cli.edge(...create, "mac", "m", "-m", "01:23:45:67:89:ab");
      await cli.edge(...create, "os", "o", "-o", "Linux:>=5.4.0,Windows");
      await cli.edge(...create, "process", "p", "Linux", "/usr/bin/av", "-s", HASH, "-f", SIGNER);
      const multi = ["pm", "AnyOf", "Linux,macOS", "/a,/b", "-s", `${HASH},${HASH}`, "-f", `${SIGNER},${SIGNER}`];
      await cli.edge(...create, "process-multi", ...multi);
      await cli.edge(...create, "mfa", "f", "-s", "600", "-w");
      await cli.edge("list", "posture-checks");
      for (const name of ["d", "m", "o", "p", "pm", "f"]) {
        await cli.edge("list", "posture-checks", `name="${name}"`, "-j");
      }
      await cli.refused(...create, "domain", "d", "-d", "a.example");
      await cli.refused(...create, "domain", "bad");
      await cli.refused(...update, "domain", "nowhere", "-d", "a.example");
      await cli.edge(...update, "domain", "d", "-d", "b.example", "-n", "d-2");
      await cli.edge(...update, "mac", "m", "-m", "1123456789ab");
      await cli.edge(...update, "os", "o", "-o", "macOS:>=14.0.0");
      await cli.edge(...update, "process", "p", "-o", "macOS", "-p", "/opt/av", "-s", HASH, "-f", SIGNER);
      await cli.edge(...update, "mfa", "f", "-s", "60", "-u");
      await cli.edge("list", "posture-checks");
      await cli.edge("list", "posture-checks", 'name="d-2"', "-j");
      // OpenZiti names versions of systems that it does not check. Neither controller names a type for one-time codes.
      const types = (await cli.listed("posture-check-types")).map(({ id }) => id);
      expect(types).toEqual(["DOMAIN", "MAC", "OS", "PROCESS", "PROCESS_MULTI"]);
      await cli.edge("list", "posture-check-role-attributes");
      await cli.edge("delete", "posture-check", { of: "posture-checks", id: "d-2" });
      await cli.edge("delete", "posture-check", "where", "true limit none");
      expect(await cli.edge("list", "posture-checks")).toContain("results: none");
    });
  });
}
