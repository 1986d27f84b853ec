import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { PeerCli } from "../../../network/openziti/peer-cli.ts";
import { peer } from "../../peer.ts";
import type { Same } from "./same.ts";

/** Logging in and out, the sessions that this makes, and what a controller tells of itself. */
export function loginCommands(same: () => Same): void {
  /** A CLI without a login. */
  const anonymous = (name: string): PeerCli => new PeerCli(peer.path, same().path(name));
  const login = (cli: PeerCli, ...args: string[]) =>
    cli.edge("login", `localhost:${same().sides.ours.port}`, ...args, "-y");

  describe("logging in", () => {
    it("by password, refused with a wrong one and for an unknown user", async () => {
      const { password } = same().sides.ours;
      for (const wrong of [
        ["-u", "admin", "-p", "wrong password"],
        ["-u", "unknown", "-p", password],
      ]) {
        await expect(login(anonymous("wrong"), ...wrong)).rejects.toThrow(/INVALID_AUTH|401/);
      }
      const cli = anonymous("password");
      expect(await login(cli, "-u", "admin", "-p", password)).toMatch(/Token: [0-9a-f-]{36}/);
      expect(await cli.edge("list", "services")).toContain("results:");
      await cli.edge("logout");
      await expect(cli.edge("list", "services")).rejects.toThrow();
    });

    it("by an identity file, by a session's token, under several names", async () => {
      const cli = same();
      await cli.edge("create", "identity", "file-login", "-A", "-o", cli.file("file-login.jwt", ""));
      const file = join(cli.sides.ours.folder, "file-login.json");
      await cli.sides.ours.cli.edge("enroll", cli.path("file-login.jwt"), "-o", file);
      const other = anonymous("file");
      expect(await login(other, "-f", file)).toMatch(/Token|Saving/);
      expect(await other.edge("list", "identities", 'name="file-login"')).toContain("file-login");
      const { token } = cli.sides.ours;
      await login(other, "-t", token, "-i", "by-token");
      expect(await other.edge("list", "services", "-i", "by-token")).toContain("results:");
      // A login by token is for reading only, says the CLI itself.
      await expect(other.edge("create", "service", "no", "-i", "by-token")).rejects.toThrow(/read-only/);
      await other.edge("use", "by-token");
      await expect(other.edge("create", "service", "no")).rejects.toThrow(/read-only/);
      await other.edge("use", "default");
      await cli.sides.ours.cli.edge("delete", "authenticator", "where", 'method = "cert"');
      await cli.edge("delete", "identity", "file-login");
      await expect(other.edge("list", "services")).rejects.toThrow(/401|UNAUTHORIZED/);
    });

    it("makes sessions, which are listed and deleted", async () => {
      const cli = same();
      await cli.edge("create", "identity", "reader");
      await cli.edge("create", "authenticator", "updb", "reader", "reader-name", "reader-password");
      const reader = anonymous("reader");
      await login(reader, "-u", "reader-name", "-p", "reader-password");
      await expect(reader.edge("list", "identities")).rejects.toThrow(/401|UNAUTHORIZED/);
      const ours = cli.sides.ours.cli;
      const [identity] = await cli.listed("identities", 'name="reader"');
      const own = `identity = "${identity?.id}"`;
      expect(await ours.edge("list", "api-sessions", own)).toMatch(/│ reader +│/);
      const sessions = await cli.listed("api-sessions", own);
      expect(sessions).toHaveLength(1);
      await ours.edge("delete", "api-session", "where", own);
      expect(await ours.edge("list", "api-sessions", own)).toContain("results: none");
      expect(await cli.edge("list", "sessions")).toContain("results: none");
      await cli.edge("delete", "session", "where", "true");
      await cli.edge("delete", "identity", "reader");
    });

    it("prints version, counts and the network's token", async () => {
      const cli = same();
      const ours = cli.sides.ours.cli;
      expect(await ours.edge("version")).toMatch(/Version +: v1\.6\.20/);
      expect(await ours.edge("version", "-j")).toContain("/edge/management/v1");
      const summary = await ours.edge("list", "summary");
      for (const kind of ["identities", "services", "routers.edge", "configTypes"]) expect(summary).toContain(kind);
      const file = cli.file("network.jwt", "");
      await ours.edge("list", "network-jwts", "-o", cli.path(file.file));
      expect(readFileSync(cli.path(file.file), "utf8")).toMatch(/^ey/);
      expect(await cli.run("fabric", "list", "services", "true limit none")).toContain("results:");
    });
  });
}
