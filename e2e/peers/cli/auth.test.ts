import { sign } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { TestAuthority } from "@sallyport/wire/testing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Network, startNetwork } from "../../network/network.ts";
import { PeerCli } from "../../network/openziti/peer-cli.ts";
import { makeScratch, removeScratch } from "../../network/scratch.ts";
import { peer } from "../peer.ts";

describe.skipIf(peer.isMissing)("OpenZiti's CLI administers authentication", () => {
  let folder = "";
  let network: Network;
  let cli: PeerCli;
  let keyPem = "";

  const one = async (kind: string, name: string) => (await cli.listed(kind, `name="${name}"`))[0];
  const token = (claims: object): string => {
    const part = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
    const signed = `${part({ alg: "ES256", kid: "cli-key", typ: "JWT" })}.${part(claims)}`;
    const signature = sign("sha256", Buffer.from(signed), { key: keyPem, dsaEncoding: "ieee-p1363" });
    return `${signed}.${signature.toString("base64url")}`;
  };
  const login = (cliOf: PeerCli, ...args: string[]) => cliOf.edge("login", `localhost:${network.port}`, ...args, "-y");

  beforeAll(async () => {
    folder = makeScratch("auth-cli");
    network = await startNetwork(join(folder, "network"));
    cli = new PeerCli(peer.path, folder);
    await login(cli, "-u", "admin", "-p", network.adminPassword);
    const authority = await TestAuthority.create("CLI issuer");
    const issued = await authority.issue({ commonName: "token signing" });
    keyPem = issued.keyPem;
    writeFileSync(join(folder, "signer.pem"), issued.certPem);
  });

  afterAll(async () => {
    await network?.stop();
    removeScratch(folder);
  });

  it("creates, shows, updates and deletes external JWT signers", async () => {
    const create = ["create", "ext-jwt-signer", "by-jwks", "https://idp.example"];
    await cli.edge(...create, "-u", "https://idp.example/jwks", "-a", "aud", "--client-id", "c", "--scopes", "openid");
    expect(await one("ext-jwt-signers", "by-jwks")).toMatchObject({
      issuer: "https://idp.example",
      audience: "aud",
      jwksEndpoint: "https://idp.example/jwks",
      claimsProperty: "sub",
      clientId: "c",
      scopes: ["openid"],
      enabled: true,
      useExternalId: true,
      targetToken: "ACCESS",
    });
    await cli.edge("update", "ext-jwt-signer", "by-jwks", "-a", "other", "-c", "email", "--target-token", "ID");
    expect(await one("ext-jwt-signers", "by-jwks")).toMatchObject({
      audience: "other",
      claimsProperty: "email",
      targetToken: "ID",
      jwksEndpoint: "https://idp.example/jwks",
    });
    expect(await cli.edge("list", "ext-jwt-signers")).toContain("by-jwks");
    await cli.edge("delete", "ext-jwt-signer", "by-jwks");
    expect(await one("ext-jwt-signers", "by-jwks")).toBeUndefined();
  });

  it("creates, shows, updates and deletes auth policies", async () => {
    const create = ["create", "auth-policy", "strict", "--primary-updb-allowed", "--primary-cert-allowed"];
    await cli.edge(
      ...create,
      "--primary-updb-min-length",
      "9",
      "--primary-updb-max-attempts",
      "3",
      "--secondary-req-totp",
    );
    expect(await one("auth-policies", "strict")).toMatchObject({
      primary: {
        cert: { allowed: true, allowExpiredCerts: false },
        extJwt: { allowed: false, allowedSigners: [] },
        updb: { allowed: true, minPasswordLength: 9, maxAttempts: 3, lockoutDurationMinutes: 0 },
      },
      secondary: { requireTotp: true, requireExtJwtSigner: null },
    });
    await cli.edge("update", "auth-policy", "strict", "--primary-updb-req-numbers", "-n", "stricter");
    expect(await one("auth-policies", "stricter")).toMatchObject({
      primary: { updb: { requireNumberChar: true, requireMixedCase: false, minPasswordLength: 9 } },
    });
    expect(await cli.edge("list", "auth-policies")).toContain("stricter");
    await cli.edge("delete", "auth-policy", "stricter");
    expect(await one("auth-policies", "stricter")).toBeUndefined();
    await expect(cli.edge("delete", "auth-policy", "Default")).rejects.toThrow(/referenced|409/i);
  });

  it("logs in by a token of an external signer, and changes passwords", async () => {
    const create = ["create", "ext-jwt-signer", "pinned", "https://pinned.example", "-a", "cli"];
    await cli.edge(...create, "-f", join(folder, "signer.pem"), "-k", "cli-key", "-x");
    await cli.edge("create", "identity", "tokens", "--external-id", "tokens@example.org", "--admin");
    const exp = Math.floor(Date.now() / 1_000) + 300;
    const file = join(folder, "token.jwt");
    const other = new PeerCli(peer.path, join(folder, "other"));
    writeFileSync(file, token({ iss: "https://pinned.example", aud: "cli", sub: "tokens@example.org", exp }));
    await login(other, "--ext-jwt", file);
    expect(await other.edge("list", "identities", 'name="tokens"')).toContain("tokens");
    writeFileSync(file, token({ iss: "https://pinned.example", aud: "cli", sub: "unknown@example.org", exp }));
    await expect(login(other, "--ext-jwt", file)).rejects.toThrow(/INVALID_AUTH|401|authentication/i);

    await cli.edge("create", "identity", "people");
    await cli.edge("create", "authenticator", "updb", "people", "people-user", "first-password");
    await cli.edge("update", "authenticator", "updb", "--identity", "people", "-p", "second-password");
    const people = new PeerCli(peer.path, join(folder, "people"));
    await expect(login(people, "-u", "people-user", "-p", "first-password")).rejects.toThrow();
    await login(people, "-u", "people-user", "-p", "second-password");
    await people.edge("update", "authenticator", "updb", "-s", "-c", "second-password", "-n", "third-password");
    await login(people, "-u", "people-user", "-p", "third-password");
  });
});
