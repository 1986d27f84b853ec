import { describe, expect, it } from "vitest";
import type { Same } from "./same.ts";

const DOMAIN = ["create", "posture-check", "domain"];

/** Services, policies and terminators, what each of them shows of the others, and the advice about them. */
export function relationCommands(same: () => Same): void {
  describe("services, policies, terminators", () => {
    it("are created", async () => {
      const cli = same();
      const address = '{"protocol":"tcp","address":"localhost","port":80}';
      await cli.edge("create", "config", "web-host", "host.v1", address);
      const intercept = '{"protocols":["tcp"],"addresses":["web.example"],"portRanges":[{"low":80,"high":80}]}';
      await cli.edge("create", "config", "web-intercept", "intercept.v1", intercept);
      await cli.edge("create", "config", "web-override", "host.v1", address);
      const flags = ["-c", "web-host,web-intercept", "-a", "web", "--terminator-strategy", "sticky", "-t", "k=v"];
      await cli.edge("create", "service", "web", ...flags, "--max-idle-time", "10m", "-e", "OFF");
      await cli.edge("list", "services", 'name="web"', "-j");
      await cli.edge("create", "identity", "alice", "-a", "people");
      await cli.edge("create", "identity", "host", "-a", "hosts");
      await cli.edge("create", "edge-router", "gate", "-a", "gates");
      await cli.edge(...DOMAIN, "at-home", "-d", "home.example", "-a", "home");
      const dial = ["--identity-roles", "@alice,#people", "--service-roles", "@web"];
      await cli.edge("create", "service-policy", "dials", "Dial", ...dial, "-p", "#home", "--semantic", "AnyOf");
      const bind = ["--identity-roles", "#hosts", "--service-roles", "#web", "--semantic", "AllOf"];
      await cli.edge("create", "service-policy", "binds", "Bind", ...bind, "-t", "k=v");
      const routers = ["--identity-roles", "#all", "--edge-router-roles", "@gate"];
      await cli.edge("create", "edge-router-policy", "gates", ...routers, "--semantic", "AnyOf");
      const services = ["--service-roles", "@web", "--edge-router-roles", "#gates"];
      await cli.edge("create", "service-edge-router-policy", "gates", ...services, "--semantic", "AnyOf");
      const terminator = ["create", "terminator", "web", "gate", "tcp:127.0.0.1:1", "--binding", "transport"];
      await cli.edge(...terminator, "-c", "5", "-p", "required", "--identity", "instance", "-t", "k=v");
      for (const kind of [
        ...["services", "service-policies", "edge-router-policies", "service-edge-router-policies", "terminators"],
        ...["posture-checks", "service-role-attributes", "posture-check-role-attributes", "configs"],
      ]) {
        await cli.edge("list", kind, "true limit none");
      }
    });

    it.each([
      ["config", "services", "web-host", /web/],
      ["config-type", "configs", "host.v1", /web-override/],
      ["edge-router", "edge-router-policies", "gate", /gates/],
      ["edge-router", "service-edge-router-policies", "gate", /gates/],
      ["edge-router", "identities", "gate", /alice/],
      ["edge-router", "services", "gate", /web/],
      ["edge-router-policy", "edge-routers", "gates", /gate/],
      ["edge-router-policy", "identities", "gates", /alice/],
      ["identity", "edge-router-policies", "alice", /gates/],
      ["identity", "edge-routers", "alice", /gate/],
      ["identity", "service-policies", "alice", /dials/],
      ["identity", "services", "alice", /web/],
      ["identity", "service-configs", "alice", /results: none|^$/m],
      ["service", "configs", "web", /web-intercept/],
      ["service", "service-policies", "web", /binds/],
      ["service", "service-edge-router-policies", "web", /gates/],
      ["service", "terminators", "web", /transport/],
      ["service", "identities", "web", /alice/],
      ["service", "edge-routers", "web", /gate/],
      ["service-edge-router-policy", "services", "gates", /web/],
      ["service-edge-router-policy", "edge-routers", "gates", /gate/],
      ["service-policy", "services", "dials", /web/],
      ["service-policy", "identities", "dials", /alice/],
      ["service-policy", "posture-checks", "dials", /at-home/],
    ])("list %s %s", async (kind, relation, name, expected) => {
      expect(await same().edge("list", kind, relation, name)).toMatch(expected);
      await same().edge("list", kind, relation, name, "-j");
      await same().refused("list", kind, relation, "nowhere");
    });

    it("as another identity sees them, and with its own configs", async () => {
      const cli = same();
      expect(await cli.edge("list", "services", "--as-identity", "host")).toContain("web");
      await cli.edge("list", "services", "--config-types", "host.v1", "-j");
      await cli.edge("list", "services", "--role-filters", "#web", "--role-semantic", "AnyOf");
      await cli.edge("list", "services", "--role-filters", "#other");
      await cli.edge("update", "identity-configs", "alice", "web", "web-override");
      expect(await cli.edge("list", "identity", "service-configs", "alice")).toContain("web-override");
      await cli.refused("update", "identity-configs", "alice", "web", "nowhere");
      await cli.refused("update", "identity-configs", "nowhere", "web", "web-override");
      await cli.edge("update", "identity-configs", "alice", "web", "web-override", "-r");
    });

    it("with advice", async () => {
      const cli = same();
      for (const kind of ["identities", "services"]) {
        await cli.edge("policy-advisor", kind);
        await cli.edge("policy-advisor", kind, "-q");
      }
      expect(await cli.edge("policy-advisor", "identities", "alice", "web")).toMatch(/alice/);
      await cli.edge("policy-advisor", "services", "web", "host", "-q");
      await cli.refused("policy-advisor", "identities", "nowhere", "web");
    });

    it("are refused", async () => {
      const cli = same();
      const policy = ["create", "service-policy", "bad"];
      expect(await cli.refused("create", "service", "web")).toMatch(/"field": "name"/);
      await cli.refused("create", "service", "bad", "--terminator-strategy", "bogus");
      await cli.refused("create", "service", "bad", "-c", "nowhere");
      await cli.refused("create", "service", "bad", "-c", "web-host,web-override");
      await cli.refused(...policy, "Dialx");
      await cli.refused(...policy, "Dial", "--identity-roles", "@no-such-identity");
      await cli.refused(...policy, "Dial", "--identity-roles", "alice");
      await cli.refused(...policy, "Dial", "--semantic", "SomeOf");
      await cli.refused("create", "service-policy", "dials", "Dial");
      await cli.refused("create", "edge-router-policy", "gates");
      await cli.refused("create", "service-edge-router-policy", "gates");
      await cli.refused("create", "terminator", "nowhere", "gate", "tcp:127.0.0.1:1");
      await cli.refused("create", "terminator", "web", "nowhere", "tcp:127.0.0.1:1");
      const precedence = cli.edge("create", "terminator", "web", "gate", "tcp:127.0.0.1:1", "-p", "bogus");
      expect(await precedence).toContain("Invalid precedence bogus");
      await cli.refused("update", "service", "nowhere", "-n", "x");
      await cli.refused("update", "terminator", "nowhere", "-c", "1");
    });

    it("are changed", async () => {
      const cli = same();
      const strategy = ["--terminator-strategy", "weighted", "--max-idle-time", "0s"];
      await cli.edge("update", "service", "web", "-n", "web-2", "-a", "web,more", "-c", "web-host", ...strategy);
      await cli.edge("list", "services", 'name="web-2"', "-j");
      await cli.refused("update", "service", "web-2", "--terminator-strategy", "bogus");
      await cli.edge(
        "update",
        "service-policy",
        "dials",
        "-n",
        "dials-2",
        "--service-roles",
        "#more",
        "-p",
        "@at-home",
      );
      await cli.edge("update", "edge-router-policy", "gates", "-n", "gates-2", "--identity-roles", "#people");
      await cli.edge("update", "service-edge-router-policy", "gates", "-n", "gates-3", "--service-roles", "#all");
      const [terminator] = await cli.listed("terminators");
      expect(terminator).toMatchObject({ cost: 5, precedence: "required", identity: "instance", tags: { k: "v" } });
      const at = (side: "theirs" | "ours") => cli.sides[side].management.listTerminators({ query: {} });
      for (const side of ["theirs", "ours"] as const) {
        const [found] = (await at(side)).data;
        const update = ["update", "terminator", found?.id ?? "", "-c", "9", "-p", "failed"];
        await cli.sides[side].cli.edge(...update, "--address", "tcp:127.0.0.1:2", "--router", "gate");
      }
      await cli.edge("list", "terminators", "true", "-j");
      for (const kind of ["service-policies", "edge-router-policies", "service-edge-router-policies"]) {
        await cli.edge("list", kind, "true", "-j");
        await cli.edge("list", kind);
      }
    });

    it("are deleted, also by filter", async () => {
      const cli = same();
      await cli.edge("delete", "terminator", "where", 'service.name = "web-2"');
      await cli.edge("delete", "service-policy", "dials-2");
      await cli.edge("delete", "service-policy", "where", 'type = 2 or name = "binds"');
      await cli.edge("delete", "edge-router-policy", { of: "edge-router-policies", id: "gates-2" });
      await cli.edge("delete", "service-edge-router-policy", "where", 'name contains "gates"');
      await cli.edge("delete", "posture-check", "where", "true");
      await cli.edge("delete", "service", "where", 'anyOf(roleAttributes) = "more"');
      await cli.edge("delete", "config", "where", 'name contains "web-"');
      await cli.edge("delete", "edge-router", "gate");
      await cli.edge("delete", "identity", "alice", "host");
      for (const kind of ["services", "configs", "terminators", "edge-router-policies", "service-policies"]) {
        expect(await cli.edge("list", kind), kind).not.toMatch(/web|gate|dials|binds/);
      }
      await cli.edge("create", "edge-router-policy", "w-1");
      await cli.edge("delete", "edge-router-policy", "where", 'name = "w-1"');
      await cli.edge("create", "service-edge-router-policy", "w-1");
      await cli.edge("delete", "service-edge-router-policy", "w-1");
    });
  });
}
