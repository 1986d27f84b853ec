import { expect, test } from "vitest";
import { objectSchema } from "../../crd/crd.ts";
import { admit } from "../../testing/admit.ts";
import { nodesOf } from "../../testing/schema-nodes.ts";
import { DEFINITIONS } from "../definitions.ts";
import { REFUSALS, type Refusal } from "./refusals.ts";
import { sample } from "./samples.ts";

const kindOf = (name: string) => {
  const kind = DEFINITIONS.find((each) => each.kind === name);
  if (kind === undefined) throw new Error(`no kind ${name}`);
  return kind;
};

/** The node that carries the rule: for a field that is missing or unknown, the object that it is in. */
const nodeAt = ({ rule, at }: Refusal) => (rule === "required" || rule === "unknown" ? at.replace(/\.?\w+$/, "") : at);

test.each(DEFINITIONS.map(({ kind }) => kind))(
  "the smallest %s is accepted, and again as an update of itself",
  (name) => {
    const created = admit(kindOf(name), sample(name));
    expect(created.problems).toEqual([]);
    expect(admit(kindOf(name), sample(name), created.object).problems).toEqual([]);
    // Applying what is stored changes nothing: defaults are stable.
    expect(admit(kindOf(name), created.object, created.object).object).toEqual(created.object);
  },
);

test("every refusal names a rule that exists", () => {
  const missing = REFUSALS.filter((refusal) => {
    const node = nodesOf(objectSchema(kindOf(refusal.kind))).get(nodeAt(refusal));
    if (node === undefined) return true;
    switch (refusal.rule) {
      case "rule":
        return !(node["x-kubernetes-validations"] ?? []).some(({ message }) => message.includes(refusal.message));
      case "required":
        return !(node.required ?? []).includes(refusal.at.split(".").at(-1) ?? "");
      case "unknown":
        return node.properties === undefined || node["x-kubernetes-preserve-unknown-fields"] === true;
      default:
        return node[refusal.rule] === undefined;
    }
  });
  expect(missing.map(({ kind, at, rule, message }) => ({ kind, at, rule, message }))).toEqual([]);
});

test("every rule of every kind has an object that it refuses", () => {
  const uncovered = DEFINITIONS.flatMap((kind) =>
    [...nodesOf(objectSchema(kind))].flatMap(([at, node]) =>
      (node["x-kubernetes-validations"] ?? [])
        .filter(
          ({ message }) =>
            !REFUSALS.some((each) => each.kind === kind.kind && each.at === at && message.includes(each.message)),
        )
        .map(({ message }) => `${kind.kind} ${at}: ${message}`),
    ),
  );
  expect(uncovered).toEqual([]);
});

test.each(REFUSALS.map((refusal, i) => ({ ...refusal, i })))(
  "$i: $kind $at refuses by $rule: $message",
  ({ kind, at, rule, message, object, previous }) => {
    const before = previous === undefined ? undefined : admit(kindOf(kind), previous);
    expect(before?.problems ?? []).toEqual([]);
    const { problems } = admit(kindOf(kind), object, before?.object);
    expect(problems).toContainEqual(expect.objectContaining({ at, rule, message: expect.stringContaining(message) }));
    // For nothing else: otherwise the API server might answer with that, and the rule would go untested.
    expect(problems).toHaveLength(1);
  },
);
