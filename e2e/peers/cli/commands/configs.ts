import { describe, expect, it } from "vitest";
import type { Same } from "./same.ts";

const SCHEMA = '{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}';

/** Config types and configs: made, changed, shown, deleted, by name and by id. */
export function configCommands(same: () => Same): void {
  describe("config types and configs", () => {
    it("are created, also from files, and shown", async () => {
      const cli = same();
      expect(await cli.edge("create", "config-type", "numbers", SCHEMA)).toContain("New config type numbers created");
      await cli.edge("create", "config-type", "texts", "-f", cli.file("schema.json", '{"type":"object"}'), "-t", "k=v");
      expect(await cli.edge("create", "config", "one", "numbers", '{"a":1}')).toContain("New config one created");
      await cli.edge("create", "config", "two", "texts", "-f", cli.file("config.json", '{"b":"c"}'), "-j");
      await cli.edge("create", "config", "by-id", { of: "config-types", id: "numbers" }, '{"a":2}');
      expect(await cli.edge("show", "config", "one")).toMatch(/"a": 1/);
      expect(await cli.edge("show", "config", { of: "configs", id: "two" })).toMatch(/"b": "c"/);
      expect(await cli.edge("show", "config-type", "numbers")).toContain('"integer"');
      expect(await cli.edge("list", "config-type", "configs", "numbers")).toMatch(/one/);
      await cli.edge("list", "config-types", 'name = "numbers" or name = "texts" sort by name limit 1');
    });

    it("are refused where they break their schema or a name", async () => {
      const cli = same();
      expect(await cli.refused("create", "config", "bad", "numbers", '{"a":"x"}')).toMatch(/COULD_NOT_VALIDATE/);
      expect(await cli.refused("create", "config", "one", "numbers", '{"a":1}')).toMatch(/"field": "name"/);
      expect(await cli.refused("create", "config", "bad", "nowhere", '{"a":1}')).toContain("no config-types found");
      expect(await cli.refused("create", "config-type", "numbers", SCHEMA)).toMatch(/"field": "name"/);
      await cli.refused("create", "config-type", "broken", '{"type":"nothing"}');
      await cli.refused("show", "config", "nowhere");
    });

    it("are changed and deleted", async () => {
      const cli = same();
      await cli.edge("update", "config", "one", "-d", '{"a":7}', "-n", "seven", "-t", "x=y");
      expect(await cli.listed("configs", 'name="seven"')).toMatchObject([{ data: { a: 7 }, tags: { x: "y" } }]);
      await cli.refused("update", "config", "seven", "-d", '{"a":"x"}');
      await cli.edge("update", "config-type", "texts", "-n", "words", "-d", '{"type":"object","maxProperties":3}');
      // OpenZiti answers 500.
      const used = await cli.refusedDifferently("delete", "config-type", "numbers");
      expect(used).toContain("CAN_NOT_DELETE_REFERENCED_ENTITY");
      await cli.edge("delete", "config", "seven", "by-id");
      await cli.edge("delete", "config", { of: "configs", id: "two" });
      await cli.edge("delete", "config-type", "numbers");
      await cli.edge("delete", "config-type", "where", 'name = "words"');
      expect(await cli.edge("delete", "config", "seven")).toContain("Found 0 configs");
      await cli.edge("delete", "config", "seven", "--ignore-missing");
      expect(await cli.edge("list", "configs")).toContain("results: none");
    });
  });
}
