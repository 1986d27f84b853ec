import { ConfigError } from "@sallyport/config-file";
import { describe, expect, it } from "vitest";
import { eventSubscriptionSchema, readControllerConfig } from "./index.ts";

const BASE = `api: { bind: "0.0.0.0:1280", advertise: "ctrl.example:1280" }
ctrl: { bind: "0.0.0.0:1280", advertise: "ctrl.example:1280" }
database: { dir: database }
`;

function problems(events: string): string[] {
  try {
    readControllerConfig(BASE + events, "c.yml", {});
  } catch (error) {
    if (error instanceof ConfigError) return error.message.split("\n");
    throw error;
  }
  return [];
}

describe("the events section", () => {
  it("is read with its defaults", () => {
    const { config, warnings } = readControllerConfig(
      `${BASE}events:
  journal:
    subscriptions:
      - type: entityChange
        include: [services, identities]
      - { type: fabric.usage, version: 3 }
      - { type: entityCount, interval: 5m0s }
      - { type: circuit, include: created }
    handler: { type: file, path: events.json, maxbackups: 3 }
  console:
    subscriptions: [{ type: router }]
    handler: { type: stdout, format: json }
`,
      "c.yml",
      {},
    );
    expect(warnings).toEqual([]);
    expect(config.events).toEqual({
      journal: {
        subscriptions: [
          { type: "entityChange", include: ["services", "identities"] },
          { type: "fabric.usage", version: 3 },
          { type: "entityCount", interval: 300_000 },
          { type: "circuit", include: ["created"] },
        ],
        handler: {
          type: "file",
          format: "json",
          path: "events.json",
          maxsizemb: 10,
          maxbackups: 3,
          bufferSize: 10_000,
        },
      },
      console: {
        subscriptions: [{ type: "router" }],
        handler: { type: "stdout", format: "json", bufferSize: 10_000 },
      },
    });
  });

  it("names unknown types, handlers and keys with their place", () => {
    const found = problems(`events:
  a:
    subscriptions:
      - type: circuits
    handler: { type: kafka }
  b:
    subscriptions: [{ type: router, every: 5 }]
    handler: { type: file }
  c:
    subscriptions: []
    handler: { type: stdout, format: plain }
`);
    expect(found).toEqual([
      expect.stringMatching(
        /^c\.yml:7:15: events\.a\.subscriptions\[0\]\.type: expected one of alert, apiSession, .*, found "circuits"$/,
      ),
      'c.yml:8:22: events.a.handler.type: expected file or stdout, found "kafka"',
      expect.stringMatching(
        /^c\.yml:10:21: events\.b\.subscriptions\[0\]: expected known keys only, which every is not/,
      ),
      "c.yml:11:5: events.b.handler.path: expected a file, found nothing",
      "c.yml:13:20: events.c.subscriptions: expected at least 1, found a list",
      'c.yml:14:38: events.c.handler.format: expected json, found "plain"',
    ]);
  });

  it("refuses a message broker with the way out", () => {
    const [problem] = problems(`events:
  a:
    subscriptions: [{ type: router }]
    handler: { type: amqp, url: "amqp://somewhere" }
`);
    expect(problem).toMatch(/^c\.yml:7:22: events\.a\.handler\.type: expected file or stdout: .*no message broker/);
  });

  it("refuses options that cannot work", () => {
    for (const bad of [
      { type: "metrics", metricFilter: "(" },
      { type: "usage", version: 4 },
      { type: "entityCount", interval: "1ms" },
      { type: "circuit", include: ["opened"] },
      { type: "circuit", include: [] },
    ]) {
      expect(eventSubscriptionSchema.safeParse(bad).success).toBe(false);
    }
  });
});
