import { expect, test } from "vitest";
import type { KubeClient } from "../../kube/client/client.ts";
import { errorOfAnswer, KubeError } from "../../kube/client/errors.ts";
import { rehearse } from "./rehearsal.ts";

const object = { apiVersion: "v1", kind: "Service", metadata: { name: "a", namespace: "edge" } };
const refusal = (code: number, message: string): KubeError =>
  errorOfAnswer("PATCH /x", code, { kind: "Status", message, code });

// biome-ignore format: a table
test.each<[string, Error | undefined, boolean]>([
  ["nothing", undefined, false],
  ["a wrong field", refusal(422, "spec.ports: Invalid value"), true],
  ["a quota", refusal(403, 'services "a" is forbidden: exceeded quota: small'), true],
  ["a webhook", refusal(400, 'admission webhook "v.example" denied the request: no'), true],
  ["a webhook that takes no rehearsals", refusal(400, 'admission webhook "v.example" does not support dry run'), false],
  ["a right that lacks", refusal(403, 'services "a" is forbidden: User "o" cannot patch resource "services"'), false],
  ["a server that is away", new KubeError({ status: 0, reason: "Unreachable", message: "away" }), false],
  ["a fault of the program", new TypeError("x"), true],
])("what the server objects to is thrown, and nothing that a write would not have to say: %s", async (_what, error, isThrown) => {
  const asked: unknown[] = [];
  const apply = async (_object: unknown, { dryRun }: { dryRun: boolean }) => {
    asked.push(dryRun);
    if (error !== undefined) throw error;
  };
  const client = { apply } as unknown as KubeClient;
  const log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };
  const rehearsed = rehearse(object, { client, log, signal: new AbortController().signal });
  if (isThrown) await expect(rehearsed).rejects.toBe(error);
  else await rehearsed;
  expect(asked).toEqual([true]);
});
