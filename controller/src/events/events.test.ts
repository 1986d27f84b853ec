import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readControllerConfig } from "@sallyport/controller-config";
import { silentLogger } from "@sallyport/wire";
import { expect, it } from "vitest";
import { Events } from "./events.ts";

const CONFIG = `api: { bind: "0.0.0.0:1280", advertise: "ctrl.example:1280" }
ctrl: { bind: "0.0.0.0:1280", advertise: "ctrl.example:1280" }
database: { dir: database }
events:
  journal:
    subscriptions: [{ type: fabric.routers }, { type: metrics, metricFilter: "FILTER" }]
    handler: { type: file, path: journal.json }
`;

it("what controller.yml asks for is in the file when the controller has stopped", async () => {
  const folder = mkdtempSync(join(tmpdir(), "events-"));
  try {
    const { config } = readControllerConfig(CONFIG, "controller.yml", {});
    const events = new Events({ controllerId: "ctrl1", config: config.events, folder, log: silentLogger });
    expect(events.dispatcher.wants("router")).toBe(true);
    expect(events.dispatcher.wants("circuit")).toBe(false);
    events.dispatcher.emit({ namespace: "router", event_type: "router-online", router_id: "r1", router_online: true });
    await events.close();
    const lines = readFileSync(join(folder, "journal.json"), "utf8").trimEnd().split("\n");
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([{ namespace: "fabric.routers", router_id: "r1" }]);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

it("an expression that cannot be matched in linear time is refused at the start", () => {
  const { config } = readControllerConfig(CONFIG.replace("FILTER", "(?=a)"), "controller.yml", {});
  const start = () => new Events({ controllerId: "c", config: config.events, folder: "", log: silentLogger });
  expect(start).toThrow(/regular expression .* cannot be used/);
});
